"""The three commands as people type them; engines are stand-ins."""

import json
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ballast_vamp.cli import main
from ballast_vamp.replay import arms, models, trace
from ballast_vamp.replay.arms import GIB, Setup, Task
from ballast_vamp.replay.errors import ReplayError

SMALL = ["--preset", "swe110", "--sessions", "8", "--scale", "0.02", "--speed", "50"]


def outcome(ttft: float, **more: Any) -> dict[str, Any]:
    names = (
        "ttft_p50",
        "ttft_p90",
        "ttft_p99",
        "tpot_p50",
        "tpot_p90",
        "tokens_per_second",
        "delay_seconds",
        "seconds",
    )
    series = {"t": [0.0, 1.0], "kv_usage": [0.1, None], "kv_bytes_physical": [GIB, 2 * GIB], "waiting": [0.0, 1.0]}
    quantiles = {"ttft_quantiles": [ttft + n / 100 for n in range(101)], "tpot_quantiles": []}
    said = {"turns": 153, "missing": 0, "failures": [], "forced": True, "vamp_disabled": None}
    engine = {"hardware": "a CPU", "versions": {"vllm": "0"}}
    found: dict[str, Any] = dict.fromkeys(names, ttft) | said | quantiles | engine | {"series": series} | more
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The runs that were asked for, in their order; VAMP answers ten times as fast."""
    found: list[Task] = []

    def run(task: Task, _: str | None) -> Generator[dict[str, Any] | None]:
        found.append(task)
        for _run in range(task.runs):
            yield None
            yield outcome(0.1 if task.arm == "vamp" else 1.0)

    monkeypatch.setattr(arms, "run", run)
    return found


def test_a_trace_is_written_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    assert main(["trace", *SMALL, "--out", str(path)]) == 0
    assert "8 sessions, 153 turns" in capsys.readouterr().out
    assert len(trace.read(path)) == 153


def test_arms_take_turns_and_the_result_says_how_it_was_made(
    tmp_path: Path, asked: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    command = ["replay", *SMALL, "--arms", "plain,vamp", "--pressure", "2", "--profile", "next512,next512#1"]
    assert main([*command, "--json", str(path)]) == 0
    assert [task.arm for task in asked] == ["plain", "vamp"] * 3
    assert all(task.setup == asked[0].setup for task in asked)
    result = json.loads(path.read_text())
    assert result["ratios"]["vamp against plain"]["ttft_p90"] == 10
    assert result["pressure"] == pytest.approx(2, rel=0.01)
    assert (result["hardware"], result["versions"]) == ("a CPU", {"vllm": "0"})
    assert result["command"].startswith("python -m ballast_vamp")
    assert result["profile"] == "next512,next512#1"
    assert (asked[0].setup.profile, asked[0].setup.shift) == ("next512", "next512#1")
    assert "vamp against plain" in capsys.readouterr().out
    assert main(["plot", str(path), "--out", str(tmp_path / "pictures")]) == 0
    made = sorted(p.name for p in (tmp_path / "pictures").iterdir())
    assert made == ["memory.png", "tpot.png", "ttft.png"]
    assert all((tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG") for name in made)


def test_arms_that_cannot_be_compared_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [outcome(1, missing=3, failures=["session 0, turn 1: no memory"])]
    monkeypatch.setattr(arms, "run", lambda *_: (one for one in found))
    assert main(["replay", *SMALL, "--arms", "plain", "--runs", "1", "--pressure", "1.5"]) == 1
    assert "not comparable: arm plain, run 1: 3 turns have no whole answer" in capsys.readouterr().err


def test_a_result_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(tmp_path / "r.json"), "--out", str(tmp_path)]) == 42
    assert "it is what `replay --json` writes" in capsys.readouterr().err


def test_an_arm_that_does_not_start_costs_no_other_arm_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = []

    def run(task: Task, _: str | None) -> Generator[dict[str, Any]]:
        tried.append(task.arm)
        if task.arm == "kv-offload":
            raise ReplayError("arm kv-offload: the engine's process ended with 1: no CUDA\na long story")
        yield outcome(1.0)

    monkeypatch.setattr(arms, "run", run)
    path = tmp_path / "r.json"
    command = ["replay", *SMALL, "--arms", "plain,kv-offload", "--runs", "2", "--pressure", "1.5"]
    assert main([*command, "--json", str(path)]) == 1
    assert tried == ["plain", "kv-offload", "plain"]
    result = json.loads(path.read_text())
    assert list(result["arms"]) == ["plain"]
    assert result["faults"] == ["arm kv-offload: the engine's process ended with 1: no CUDA"]
    assert "a long story" in capsys.readouterr().err


def test_an_interrupted_bench_keeps_the_runs_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = []

    main_thread = threading.main_thread().ident or 0
    # Where the tests themselves run in the background, the signal is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def run(task: Task, _: str | None) -> Generator[dict[str, Any] | None]:
        try:
            yield outcome(1.0)
            signal.pthread_kill(main_thread, signal.SIGINT)
            while True:
                yield None
                time.sleep(0.01)
        finally:
            closed.append(task.arm)

    monkeypatch.setattr(arms, "run", run)
    path = tmp_path / "r.json"
    command = ["replay", *SMALL, "--arms", "plain,vamp", "--runs", "2", "--one-start", "--pressure", "1.5"]
    try:
        assert main([*command, "--json", str(path)]) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert closed == ["plain"]
    result = json.loads(path.read_text())
    assert [len(arm["runs"]) for arm in result["arms"].values()] == [1]
    assert result["faults"] == ["the bench was interrupted: arms have fewer runs than were asked for"]
    assert "plain" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--arms", "plain,vmap"],
            "arm vmap is not one of plain, vamp, kv-offload, vamp+kv-offload, always-offload, ideal",
        ),
        (["--arms", "plain,plain"], "name each arm once"),
        (["--pressure", "500"], "the trace's largest context takes"),
        (["--profile", "zipf"], "profile zipf is not one of"),
        (["--engine", "dtype=half"], "half is no JSON"),
        (["--runs", "0"], "--runs is 0"),
        (["--url", "http://x", "--arms", "plain,vamp"], "give each arm its URL"),
        (["--trace", "/nowhere"], "give one of them"),
    ],
)
def test_what_makes_no_sense_is_told_before_an_engine_starts(
    options: list[str], words: str, asked: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *SMALL, "--arms", "plain", *options]) == 42
    assert words in capsys.readouterr().err
    assert not asked


SETUP = Setup("tiny", None, 1000, 4000, 900, 32, 8, 4 * GIB, 2 * GIB, None, None)


def task(arm: str, **changes: Any) -> Task:
    return Task(arm, Setup(**(SETUP.__dict__ | changes)), "t.jsonl", 0.5)


def test_arms_differ_in_what_they_are_about_and_in_nothing_else() -> None:
    plain, vamp, offload, both, always, ideal = (task(arm) for arm in arms.ARMS)
    assert plain.arguments(1024) == vamp.arguments(1024)
    assert plain.environment() == offload.environment() == ideal.environment()
    assert vamp.environment().items() - plain.environment().items() == {
        ("VAMP_ENABLE", "1"),
        ("VAMP_MODE", "Auto"),
        ("VAMP_HOST_BYTES", str(4 * GIB)),
        ("VAMP_MAX_OFFLOAD_BYTES", str(2 * GIB)),
    }
    assert always.arguments(1024) == plain.arguments(1024)
    assert always.environment() == vamp.environment() | {"VAMP_MODE": "Always"}
    added = {k: v for k, v in offload.arguments(1024).items() if k not in plain.arguments(1024)}
    assert added == {"kv_offloading_size": 4.0, "kv_offloading_backend": "native"}
    assert (both.arguments(1024)["kv_offloading_size"], both.environment()["VAMP_HOST_BYTES"]) == (2.0, str(2 * GIB))
    pair = task("kv-offload", engine={"tensor_parallel_size": 2})
    assert pair.arguments(1024)["kv_offloading_size"] == 8.0, "vLLM divides it among the ranks"
    assert plain.arguments(1024)["kv_cache_memory_bytes"] == 33 * 32 * 1024
    assert ideal.arguments(1024)["kv_cache_memory_bytes"] == 126 * 32 * 1024


def test_a_token_takes_the_keys_and_values_of_every_layer_that_attends() -> None:
    assert models.kv_bytes_per_token(models.SHAPES["tiny"], 1, 2) == 2 * 4 * 2 * 32 * 2
    qwen = models.SHAPES["qwen3-30b-a3b"]
    assert models.kv_bytes_per_token(qwen, 1, 2) == 96 * 1024
    assert models.kv_bytes_per_token(qwen, 8, 1) == 2 * 48 * 1 * 128
    hybrid = models.SHAPES["qwen3-next-80b-a3b"]
    assert models.kv_bytes_per_token(hybrid, 2, 2) == 12 * 1024
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    assert models.kv_bytes_per_token(hybrid | {"num_hidden_layers": 4, "layer_types": kinds}, 1, 2) == 2 * 2 * 256 * 2


def test_further_arguments_win() -> None:
    assert task("plain", engine={"max_num_seqs": 2, "dtype": "half"}).arguments(1)["max_num_seqs"] == 2


def test_the_end_of_an_engines_process_is_told_with_its_last_words(tmp_path: Path) -> None:
    broken = Task("plain", SETUP, str(tmp_path / "nowhere.jsonl"), 0.5)
    with pytest.raises(
        ReplayError, match=r"arm plain: the engine's process ended with 1: .*nowhere\.jsonl does not exist"
    ):
        list(arms.run(broken))
