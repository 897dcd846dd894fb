"""VAMP in real vLLM engines on the CPU: what users would see, against the same engine without it, in the same run."""

from __future__ import annotations

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ballast_vamp.engine_tests import engines, environment, models
from ballast_vamp.engine_tests.engines import BLOCK, COPIED, VAMP, Case

PHYSICAL = 70
Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="session", autouse=True)
def vllm() -> None:
    try:
        environment.python()
    except environment.CannotMakeError as error:
        pytest.skip(str(error))


def moe(folder: Path, blocks: int = PHYSICAL, **changed: Any) -> Case:
    """Eight requests that need 112 blocks in all."""
    case: Case = {
        "model": str(folder / "moe"),
        "kv_bytes": blocks * BLOCK,
        "requests": 8,
        "prompt": 300,
        "output": 120,
        "steps": ["generate"],
        "options": {"block_size": 32, "dtype": "float32"},
    }
    return {**case, **changed}


def run(folder: Path, cases: dict[str, Case]) -> Results:
    return dict(zip(cases, engines.run(list(cases.values()), folder), strict=True))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Engines of one rank."""
    folder = tmp_path_factory.mktemp("single")
    for kind in ("moe", "dense"):
        models.write(kind, folder / kind)
    trained = {"block_size": 32, "dtype": "float32", "weight_transfer_config": {"backend": "nccl"}}
    profile = {**VAMP, "VAMP_PROFILE": str(folder / "profile.json")}
    after = ["generate", "check", "reset", ["shrink", 6], "check", ["grow", 6], "check", "new weights", "pause"]
    return run(
        folder,
        {
            "plain": moe(folder),
            "ideal": moe(folder, 200),
            "sync": moe(folder, env=profile, steps=after),
            "async": moe(folder, env=VAMP, steps=["generate", ["grow", 80], "drain", "pause"], **{"async": True}),
            "profile": moe(folder, env=profile, steps=["generate", "check", "new weights"]),
            "trained": moe(folder, env=profile, options=trained, steps=["generate", "new weights"]),
            "fault": moe(folder, env={**VAMP, "VAMP_FAULT": "prepare:0"}, steps=["generate", "check"]),
            "dry": moe(folder, env={**VAMP, "VAMP_MODE": "DryRun"}),
            "dense": moe(folder, env=VAMP, model=str(folder / "dense")),
            "override": moe(folder, env=VAMP, options={"block_size": 32, "num_gpu_blocks_override": 100}),
            "bad": moe(folder, env={**VAMP, "VAMP_MODE": "nonsense"}),
        },
    )


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Engines of one rank whose cache a connector copies, and one that nothing presses."""
    folder = tmp_path_factory.mktemp("beside")
    models.write("moe", folder / "moe")
    copied: Case = {  # each request's last block is full with its last token
        "env": VAMP,
        "requests": 6,
        "output": 117,
        "options": {"block_size": 32, "dtype": "float32", **COPIED},
        "steps": ["give back", "check", "load"],
    }
    calm = ["generate", "dummy", ["shrink", 1], "new weights"]  # whoever shrinks looks at routes as well
    return run(
        folder,
        {
            "copied": moe(folder, **copied),
            "copied_async": moe(folder, **copied, **{"async": True}),
            "calm": moe(folder, 200, env=VAMP, steps=calm),
        },
    )


def sample(result: dict[str, Any], start: str) -> float:
    """Sum of the samples on a result's page that begin so."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in result["page"] if line.startswith(start))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_preemptions_fall_and_tokens_are_those_of_an_engine_with_all_blocks(single: Results, kind: str) -> None:
    assert single["plain"]["blocks"] == single[kind]["blocks"] == PHYSICAL
    assert single["plain"]["preemptions"] > 0
    assert single[kind]["preemptions"] == 0
    assert single[kind]["rounds"] == single["ideal"]["rounds"]
    assert single[kind]["scheduler"] == f"ballast_vamp.scheduler.Vamp{'Async' if kind == 'async' else ''}Scheduler"


def test_without_the_variable_nothing_is_changed(single: Results) -> None:
    assert single["plain"]["scheduler"] == "vllm.v1.core.sched.scheduler.Scheduler"
    assert not single["plain"]["patched"]
    assert single["plain"]["page"] == []


def test_pages_move_both_ways_and_the_prefix_cache_can_be_reset(single: Results) -> None:
    result = single["sync"]
    assert result["reset"]
    assert (result["shrink"], result["grow"]) == ([6], [6])
    handles = [check[0]["handles"] for check in result["checks"]]
    assert len(set(handles)) == 1, "handles were made or lost"
    away = [check[0]["away"] for check in result["checks"]]
    assert away[0] > away[1] < away[2]
    assert result["free"] == result["blocks_after"] - 1


def test_blocks_that_requests_fill_while_they_are_taken_back_are_not_found_again(single: Results) -> None:
    drained = single["async"]["drained"]
    assert drained["emptied"]
    assert drained["parked"] > 0
    assert drained["known"] == 0


@pytest.mark.parametrize("case", ["sync", "async"])
def test_who_pauses_or_ends_an_engine_does_not_wait_for_experts_to_come_home(single: Results, case: str) -> None:
    found = {"away": True, "running": True, "paused": False, "at rest": True, "ending": False}
    assert single[case]["paused"] == found


def test_no_copy_of_an_expert_outlives_its_weights(single: Results) -> None:
    found = single["sync"]["new_weights"]
    assert found["written"]
    assert found["before"] > found["after"] == 0


def test_copies_of_the_coldest_experts_are_made_before_anything_presses(beside: Results) -> None:
    assert sample(beside["calm"], "vamp:expert_bytes_host") == 0
    assert beside["calm"]["new_weights"]["before"] > 0


def test_steps_that_nobody_asked_for_are_not_learned_from(beside: Results) -> None:
    assert beside["calm"]["dummy"] == 0


def test_weights_are_not_written_in_an_order_that_their_writer_does_not_know(single: Results) -> None:
    assert "start the engine without VAMP_PROFILE" in single["profile"]["new_weights"]["refused"]
    assert single["trained"]["new_weights"]["written"], "where a trainer is expected, experts keep the model's order"
    assert single["trained"]["rounds"] == single["ideal"]["rounds"]


@pytest.mark.parametrize("case", ["copied", "copied_async"])
def test_a_block_keeps_its_memory_until_a_connector_has_copied_it(beside: Results, case: str) -> None:
    found = beside[case]["given_back"]
    assert found["shrinking"], "requests ended before anything was taken back"
    assert found["copied_later"] > 0, "nothing was left to copy when the last request ended"
    assert found["wrong"] == []
    assert found["left"] == 0


@pytest.mark.parametrize("case", ["copied", "copied_async"])
def test_a_request_that_waits_for_a_connector_alone_does_not_find_the_engine_at_rest(
    beside: Results, case: str
) -> None:
    found = beside[case]["load"]
    assert found["away"]
    assert found["cached"] > 200
    assert found["seconds"] < 3, "one rest"
    assert found["held"] > 0.5, "the connector had what was evicted when blocks were taken back"


def test_a_saved_profile_reorders_experts_and_changes_no_token(single: Results) -> None:
    assert single["profile"]["rounds"] == single["ideal"]["rounds"]
    assert single["profile"]["preemptions"] == 0
    assert single["profile"]["checks"][0][0]["handles"] != single["sync"]["checks"][0][0]["handles"], "units are larger"


def test_a_rank_without_memory_leaves_blocks_parked_and_the_run_finishes(single: Results) -> None:
    result = single["fault"]
    assert result["rounds"] == single["ideal"]["rounds"]
    assert result["blocks_after"] == PHYSICAL
    assert result["preemptions"] > 0
    assert result["checks"][0][0]["away"] == 0
    assert sample(result, 'vamp:repartition_total{direction="grow",result="refused"}') > 0


def test_a_dry_run_decides_and_leaves_memory_alone(single: Results) -> None:
    result = single["dry"]
    assert result["virtual"] == PHYSICAL
    assert sample(result, "vamp:active") == 0
    assert sample(result, 'vamp:decision_total{option="offload"}') > 0
    assert 'reason="DryRun"' in " ".join(result["page"])
    assert result["rounds"] == single["ideal"]["rounds"]


@pytest.mark.parametrize(
    ("case", "reason", "words"),
    [
        ("dense", "NotMoE", "Qwen3ForCausalLM has no experts"),
        ("override", "UnsupportedOption", "use --kv-cache-memory-bytes"),
        ("bad", "BadConfiguration", "VAMP_MODE is 'nonsense', not one of Auto, DryRun"),
    ],
)
def test_what_vamp_cannot_serve_is_served_plain_with_the_reason(
    single: Results, case: str, reason: str, words: str
) -> None:
    info = next(line for line in single[case]["page"] if line.startswith("vamp:disabled_info"))
    assert f'reason="{reason}"' in info
    assert words in info
    assert single[case]["scheduler"].startswith("vllm.")
    assert len(single[case]["rounds"][0]) == 8


def test_a_version_that_is_not_known_is_served_plain_with_the_reason(tmp_path: Path) -> None:
    models.write("moe", tmp_path / "moe")
    result = run(tmp_path, {"other": moe(tmp_path, env=VAMP, supported=[[9, 9]])})["other"]
    assert result["scheduler"] == "vllm.v1.core.sched.scheduler.Scheduler"
    info = next(line for line in result["page"] if line.startswith("vamp:disabled_info"))
    assert 'reason="VersionMismatch"' in info
    assert "VAMP was made for 9.9" in info


def test_layers_of_two_kinds_share_the_blocks(tmp_path: Path) -> None:
    models.write("next", tmp_path / "next")
    hybrid: Case = {
        "model": str(tmp_path / "next"),
        "requests": 6,
        "prompt": 1500,
        "output": 200,
        "temperature": 0,  # vLLM's generators on CPUs cannot step back from a chunk, which seeds need
        "max_model_len": 2048,
        "max_num_seqs": 8,
        "options": {"dtype": "bfloat16"},  # its kernels take no other type
        "steps": ["generate"],
    }
    small = 4_000_000
    wide = {"VAMP_CHUNK_BYTES": "1000000", "VAMP_MIN_RESIDENT_FRACTION": "0.2"}
    same = {**hybrid, "kv_bytes": 5 * small, "same": True, "prompt": 3000, "output": 4, "max_model_len": 4096}
    same["options"] = {**hybrid["options"], "max_num_batched_tokens": 16384}  # all of them in one step
    grown = {**hybrid, "kv_bytes": small, "env": {**VAMP, **wide}, "async": True}
    results = run(
        tmp_path,
        {
            "plain": {**hybrid, "kv_bytes": small},
            "ideal": {**hybrid, "kv_bytes": 10 * small},
            "vamp": {**grown, "steps": ["generate", "check", "reset"]},
            "same": {**same, "env": grown["env"], "steps": ["generate", "check"]},
        },
    )
    assert results["plain"]["preemptions"] > results["vamp"]["preemptions"] == 0
    assert results["vamp"]["rounds"] == results["ideal"]["rounds"]
    assert results["vamp"]["reset"]
    assert results["same"]["cached"] > 0
    assert results["same"]["checks"][0][0]["away"] == 0, "requests that wait for each other's prefix want no memory"


def test_two_ranks_agree_or_hand_nothing_out(tmp_path: Path) -> None:
    models.write("moe", tmp_path / "moe")
    half = PHYSICAL * BLOCK // 2  # each rank has half of every block
    pair = moe(tmp_path, kv_bytes=half, tp=2, env=VAMP, steps=["generate", "check"])
    fault_on_one = {**pair, "env": {**VAMP, "VAMP_FAULT": "kv:1"}}
    whole, fault = run(tmp_path, {"whole": {**pair, "async": True}, "fault": fault_on_one}).values()
    assert fault["preemptions"] > whole["preemptions"] == 0
    assert whole["rounds"] == fault["rounds"]
    assert [check["away"] > 0 for check in whole["checks"][0]] == [True, True]
    assert fault["blocks_after"] == PHYSICAL
    assert fault["checks"][0][1]["away"] == 0
    assert sample(fault, "vamp:degraded") == 1, "rank 0 moved, rank 1 could not; it is said"
    assert sample(fault, 'vamp:repartition_total{direction="grow",result="rolled_back"}') > 0


def test_a_server_shows_what_vamp_does(tmp_path: Path) -> None:
    models.write("moe", tmp_path / "moe")
    with engines.server(tmp_path / "moe", tmp_path, **VAMP) as address:
        before = engines.page(address)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda seed: complete(address, tmp_path / "moe", seed), range(8)))
        after = engines.page(address)
        home = wait_for_home(address)
    assert all(answer["usage"]["completion_tokens"] == 150 for answer in answers)
    assert before["vamp:kv_blocks_parked"] > after["vamp:kv_blocks_parked"]
    assert after['vamp:repartition_total{direction="grow",result="ok"}'] > 0
    assert after["vamp:expert_bytes_host"] > before["vamp:expert_bytes_host"] == 0
    assert after["vamp:kv_bytes_copied_total"] == 0
    assert home["vamp:expert_bytes_host"] == 0, "without load every expert comes home"
    assert home["vamp:kv_blocks_parked"] == before["vamp:kv_blocks_parked"]
    names = {sample.split("{")[0] for sample in after}
    assert {"vamp:active", "vamp:degraded", "vamp:kv_bytes_physical", "vamp:kv_bytes_virtual"} <= names
    assert {"vamp:host_bytes", "vamp:expert_bytes_resident", "vamp:bandwidth_bytes_per_second"} <= names
    assert {"vamp:decision_total", "vamp:repartition_seconds_bucket", "vamp:decision_cost_seconds"} <= names


def wait_for_home(address: str) -> dict[str, float]:
    """The page once no expert is on the host; nobody asks the server anything meanwhile."""
    deadline = time.monotonic() + 60
    while (page := engines.page(address))["vamp:expert_bytes_host"] and time.monotonic() < deadline:
        time.sleep(1)
    return page


def complete(address: str, model: Path, seed: int) -> dict[str, Any]:
    prompt = [3 + (n * (seed + 3)) % 240 for n in range(300)]
    body = {"model": str(model), "prompt": prompt, "max_tokens": 150, "ignore_eos": True, "temperature": 0}
    request = urllib.request.Request(
        f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        result: dict[str, Any] = json.load(answer)
    return result
