"""The checks and the page made of them, on small games and without a GPU."""

import json
from pathlib import Path
from typing import Any

import pytest

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.games import builtin
from ballast_cfr.gpu import checks, report, testing
from ballast_cfr.solve.solver import Solver

needs_compiler = pytest.mark.skipif(testing.missing() is not None, reason=str(testing.missing()))


@pytest.fixture(scope="module")
def kuhn() -> Program:
    return compile_game(builtin("kuhn"))


@needs_compiler
def test_every_check_runs_and_has_a_line_on_the_page(
    kuhn: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    testing.install(monkeypatch.setattr, tmp_path, 2)
    found = [
        checks.change(builtin("kuhn"), 3, 1),
        checks.evaluation(kuhn, 10),
        checks.batch(kuhn, 3, 10),
        checks.resume(kuhn, 10),
        checks.mixed(kuhn, 200, timed=True),
        checks.automatic(kuhn, 0.01),
        checks.bits(kuhn, 10),
        *checks.two_gpus(kuhn, 4, 10),
    ]
    assert {one["check"] for one in found} == set(checks.CHECKS)
    for one in found:
        assert one.get("equal", True) and one.get("equal_to_cpu", True) and one.get("evaluation_equal", True), one
        assert len(report._check(one)) == 4
    assert list(checks.two_gpus(kuhn, 4, 10)) != []
    testing.install(monkeypatch.setattr, tmp_path, 1)
    assert list(checks.two_gpus(kuhn, 4, 10)) == []


def test_an_unknown_check_is_named() -> None:
    with pytest.raises(BadInputError, match=r"check speed is unknown; choose some of change, evaluation, batch"):
        next(checks.run(["speed"]))


def one_report(date: str, fused: float, noregret: float | None, *found: dict[str, Any]) -> dict[str, Any]:
    times: dict[str, float] = {"cuda-fused": fused, "cuda-graph": 80.0, "cuda-eager": 480.0, "cpu-fused": 20.0}
    if noregret is not None:
        times["noregret"] = noregret
    line: dict[str, Any] = {
        "game": "leduc", "nodes": 9457, "shape": "one 1x512 sets", "bytes": 286560, "graph_over_eager": 6.0,
        "bandwidth_share": 0.01, "stages": 18, "floor_regime": "one", "floor": 0.27, "over_floor": fused / 0.27,
        "latency_floors": {"one": 0.27, "cluster": 3.5, "grid": 17.0},
        "ratio": {name: value / fused for name, value in times.items()},
        **{name: {"p10": value, "median": value} for name, value in times.items()},
    }  # fmt: skip
    machine = {
        "gpu": "H", "driver": "1", "cores": 4, "cpu": "C", "python": "3", "versions": {}, "date": date, "command": "c",
    }  # fmt: skip
    limits = {"barrier": {"one": 0.01, "cluster": 0.2, "grid": 0.9}, "cached": 7.5, "memory": 4.0, "addition": 4.2}
    return {"machine": machine, "limits": limits, "rows": [], "table": [line], "checks": list(found)}


def evaluation(iterations: float) -> dict[str, Any]:
    return {"check": "evaluation", "game": "leduc", "us": 1.0, "iterations": iterations}


def test_later_reports_go_before_earlier_ones(tmp_path: Path) -> None:
    reports = [
        one_report("2026-01-01", 8.0, 16_000.0, evaluation(2.5)),
        one_report("2026-02-02", 4.0, None, evaluation(1.5)),
        {**one_report("2026-03-03", 1.0, None), "table": []},
    ]
    files = []
    for number, made in enumerate(reports):
        files.append(str(tmp_path / f"{number}.json"))
        Path(files[-1]).write_text(json.dumps(made))
    page = "\n".join(report.page(report.joined(files)))
    assert "16000.00 (2026-01-01)" in page
    assert "| noregret's CUDA kernel over fused | 500x each | least 4000x | yes |" in page
    assert "| exploitability, leduc, in iterations | 2.0 | 1.50 | yes |" in page
    assert "; 2026-02-02" in page


def test_bars_that_are_missed_are_told() -> None:
    page = "\n".join(report.page(one_report("2026-01-01", 8.0, None, evaluation(2.5))))
    assert "| exploitability, leduc, in iterations | 2.0 | 2.50 | **no** |" in page
    assert "| over the floor, leduc | 2.0 | 29.6 | **no** |" in page


def test_states_are_compared_whole(kuhn: Program) -> None:
    one, two = Solver(kuhn)._engine.arrays(), Solver(kuhn)._engine.arrays()
    assert checks.same(one, two)
    assert not checks.same(one, {})
    two["regret0"][0] = -0.0
    assert not checks.same(one, two)
