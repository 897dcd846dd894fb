"""What the pod hands over, with the API server replaced by a list."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.games import builtin
from ballast_cfr.job import configmap
from ballast_cfr.job.finish import finish
from ballast_cfr.job.request import Request
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    seen: list[dict[str, str]] = []

    def patch(_: Any, namespace: str, name: str, data: Mapping[str, str]) -> None:
        assert (namespace, name) == ("team", "leduc-strategy")
        seen.append(dict(data))

    monkeypatch.setattr(configmap, "patch", patch)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    return seen


def request(root: Path, output: Path | None = None) -> Request:
    return Request(
        game="leduc",
        game_parameters={},
        batch=None,
        sha256=None,
        variant="CFRPlus",
        updates="Alternating",
        tie_tolerance=64,
        parameters={},
        dtype="Float64",
        device="cpu",
        exploitability=None,
        unit="Absolute",
        max_iterations=10,
        max_seconds=None,
        checkpoint_directory=root,
        checkpoint_interval=30,
        output_file=output,
        output_format="JSON",
        result=("team", "leduc-strategy"),
        status_port=None,
        termination_log=None,
    )


def test_a_small_strategy_is_in_the_config_map(patched: list[dict[str, str]], tmp_path: Path) -> None:
    solver = Solver(compile_game(builtin("leduc")))
    message = finish(request(tmp_path), solver, solver.solve(Stop(iterations=10)))
    assert message["configMap"] is True
    (data,) = patched
    assert data["strategy.csv"].splitlines()[0] == "player,infoset,action,probability,reach"
    assert len(data["strategy.csv"].encode()) == message["strategyBytes"]
    facts = json.loads(data["summary.json"])
    assert (facts["variant"], facts["game"], facts["iteration"], facts["configMap"]) == ("CFRPlus", "leduc", 10, True)
    assert facts["parameters"] == {"gamma": 1.0}


def test_a_large_strategy_lies_on_the_volume_and_the_message_says_where(
    patched: list[dict[str, str]], tmp_path: Path
) -> None:
    solver = Solver(compile_game(builtin("liars-dice")))
    message = finish(request(tmp_path), solver, solver.solve(Stop(iterations=2)))
    assert message["configMap"] is False
    assert message["configMapMessage"].startswith("ResultTooLarge: ")
    assert Path(message["file"]) == tmp_path / "strategy.csv"
    assert (tmp_path / "strategy.csv").stat().st_size == message["strategyBytes"]
    assert list(patched[0]) == ["summary.json"]


def test_an_output_file_takes_the_format_asked_for(patched: list[dict[str, str]], tmp_path: Path) -> None:
    solver = Solver(compile_game(builtin("leduc")))
    output = tmp_path / "deep" / "s.json"
    message = finish(request(tmp_path, output), solver, solver.solve(Stop(iterations=10)))
    assert message["file"] == str(output)
    assert len(json.loads(output.read_text())["strategy"]) == 936
