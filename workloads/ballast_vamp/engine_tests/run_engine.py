"""Run inside the environment that has vLLM: engines one after the other, and what became of their requests as JSON.

    python run_engine.py '[{"model": DIR, "kv_bytes": N, "requests": 8, "prompt": 300, "output": 200,
                            "steps": ["generate", "reset", ["shrink", 8]], "env": {"VAMP_ENABLE": "1"}}, ...]'

The last line of the output is a list with one object for each engine. Engines without VAMP come first: its hooks stay.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import random
import sys
import time
from dataclasses import replace
from typing import Any


def main(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [run(case) for case in cases]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """One engine, from its start to its end."""
    for name in [name for name in os.environ if name.startswith("VAMP_")]:
        del os.environ[name]
    os.environ.update(case.get("env", {}))
    if versions := case.get("supported"):
        from ballast_vamp import compat

        compat.SUPPORTED = tuple((major, minor) for major, minor in versions)  # type: ignore[assignment]
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.plugins import load_general_plugins

    from ballast_vamp import plugin

    _allow_async(case)
    load_general_plugins()  # as vLLM does at first, by the entry point
    if plugin.__dict__.get("_registered") is False:
        plugin.register()  # as vLLM would in a process of its own
    llm = LLM(
        case["model"],
        skip_tokenizer_init=True,
        load_format="dummy",
        enforce_eager=True,
        max_model_len=case.get("max_model_len", 1024),
        max_num_seqs=case.get("max_num_seqs", 16),
        kv_cache_memory_bytes=case["kv_bytes"],
        enable_prefix_caching=True,
        async_scheduling=case.get("async", False),
        tensor_parallel_size=case.get("tp", 1),
        disable_log_stats=False,
        seed=0,
        **case.get("options", {}),
    )
    result = _serve(llm, case)
    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    cleanup_dist_env_and_memory()
    return result


def _allow_async(case: dict[str, Any]) -> None:
    """vLLM turns asynchronous scheduling off on CPUs, where it gains nothing; it works, and is what GPUs use."""
    from vllm.platforms.cpu import CpuPlatform

    check = CpuPlatform.__dict__["check_and_update_config"].__func__
    check = getattr(check, "__wrapped__", check)

    @functools.wraps(check)
    def check_and_update_config(cls: Any, config: Any) -> None:
        check(cls, config)
        config.scheduler_config.async_scheduling = case.get("async", False)

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)


def _serve(llm: Any, case: dict[str, Any]) -> dict[str, Any]:
    from vllm.engine.arg_utils import EngineArgs

    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    pool = scheduler.kv_cache_manager.block_pool
    result: dict[str, Any] = {
        "scheduler": type(scheduler).__module__ + "." + type(scheduler).__name__,
        "blocks": pool.num_gpu_blocks,
        "virtual": len(pool.blocks),
        "preemptions": 0,
        "rounds": [],
    }
    _count_preemptions(scheduler, result)
    _requests(llm, case, result)
    result |= {"free": pool.get_num_free_blocks(), "blocks_after": pool.num_gpu_blocks}
    result["patched"] = "ballast_vamp.compat" in sys.modules or hasattr(EngineArgs.create_engine_config, "__wrapped__")
    if "vllm.v1.metrics.prometheus" in sys.modules:
        from prometheus_client import generate_latest
        from vllm.v1.metrics.prometheus import get_prometheus_registry

        page = generate_latest(get_prometheus_registry()).decode().splitlines()
        result["page"] = [line for line in page if line.startswith("vamp:")]
    return result


def _count_preemptions(scheduler: Any, result: dict[str, Any]) -> None:
    preempt = scheduler._preempt_request

    def counted(*arguments: Any, **options: Any) -> Any:
        result["preemptions"] += 1
        return preempt(*arguments, **options)

    scheduler._preempt_request = counted


def _requests(llm: Any, case: dict[str, Any], result: dict[str, Any]) -> None:
    """Warm up, so that routing is known, then take the steps of the case."""
    from vllm import SamplingParams

    dice = random.Random(7)
    prompts = [[dice.randrange(3, 250) for _ in range(n)] for n in [case["prompt"]] * case["requests"]]
    if case.get("same"):
        prompts = prompts[:1] * len(prompts)
    warm = [dice.randrange(3, 250) for _ in range(case.get("warm", 400))]
    params = [
        SamplingParams(
            temperature=case.get("temperature", 1), seed=n, max_tokens=case["output"], ignore_eos=True, detokenize=False
        )
        for n in range(len(prompts))
    ]
    once = SamplingParams(max_tokens=1, detokenize=False)
    llm.generate([{"prompt_token_ids": warm}], once, use_tqdm=False)
    for step in case["steps"]:
        if step == "generate":
            outputs = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
            result["rounds"].append([list(output.outputs[0].token_ids) for output in outputs])
            result["cached"] = sum(output.num_cached_tokens or 0 for output in outputs)
        elif step == "reset":
            result["reset"] = bool(llm.reset_prefix_cache())
        elif step == "drain":
            before = result["preemptions"]
            result["drained"] = _drain(llm, prompts, params)
            result["preemptions"] = before  # those while nothing may grow are not what is counted
        elif step == "give back":
            result["given_back"] = _give_back(llm, prompts, params)
        elif step == "dummy":
            counter = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker._vamp_counter
            before = int(counter.counts.sum())
            llm.collective_rpc("execute_dummy_batch")
            result["dummy"] = int(counter.counts.sum()) - before
        elif step == "load":
            result["load"] = _load(llm, prompts[0])
        elif step == "pause":
            result["paused"] = _pause(llm, prompts, params)
        elif step == "new weights":
            result["new_weights"] = _new_weights(llm)
        elif step == "check":
            result.setdefault("checks", []).append(llm.collective_rpc("vamp_check"))
        else:
            from ballast_vamp.scheduler import current

            handle = current()
            assert handle is not None
            result.setdefault(step[0], []).append(getattr(handle, step[0])(step[1]))
            result["snapshot"] = handle.snapshot()


def _drain(llm: Any, prompts: list[list[int]], params: list[Any]) -> dict[str, Any]:
    """Take blocks back while requests fill them, then ask for everything that they said and were asked. Blocks that
    were parked meanwhile, and how many of them a prefix leads to."""
    engine = llm.llm_engine
    vamp: Any = engine.engine_core.engine_core.scheduler.vamp
    said: dict[str, list[int]] = {}
    for number, (ids, param) in enumerate(zip(prompts, params, strict=True)):
        engine.add_request(f"drain-{number}", {"prompt_token_ids": ids}, param)
    steps = 0
    while engine.has_unfinished_requests():
        said |= {output.request_id: list(output.outputs[0].token_ids) for output in engine.step()}
        steps += 1
        if steps == 12:  # all of them decode
            vamp.balloon.begin_shrink(vamp.home)
            vamp.tick = lambda _: vamp.balloon.sweep()
            vamp.emergency = lambda *_: False  # pressure would call it off
    emptied = vamp.balloon.sweep()
    if emptied:
        vamp.balloon.finish_shrink()
    parked = vamp.balloon.pool.blocks[vamp.home :]
    found = {"emptied": emptied, "parked": len(parked), "known": sum(b.block_hash is not None for b in parked)}
    again = [{"prompt_token_ids": ids + said[f"drain-{number}"]} for number, ids in enumerate(prompts)]
    once = type(params[0])(max_tokens=1, ignore_eos=True, detokenize=False)
    llm.generate(again, once, use_tqdm=False)
    del vamp.tick, vamp.emergency
    return found


def _give_back(llm: Any, prompts: list[list[int]], params: list[Any]) -> dict[str, Any]:
    """Take blocks back while requests fill their last ones and a connector copies them. How many blocks were copied by
    the time the last request ended and afterwards, what copies read that they should not have, and how many blocks of
    those that were taken back still have memory."""
    from ballast_vamp.engine_tests import watched

    engine = llm.llm_engine
    core = engine.engine_core.engine_core
    vamp: Any = core.scheduler.vamp
    watched.watch(core.model_executor.driver_worker.worker._vamp)
    for number, (ids, param) in enumerate(zip(prompts, params, strict=True)):
        engine.add_request(f"give-back-{number}", {"prompt_token_ids": ids}, param)
    steps, look = 0, core.scheduler.vamp_now
    while engine.has_unfinished_requests():
        engine.step()
        steps += 1
        if steps == 100:
            vamp.balloon.begin_shrink(vamp.home)
            core.scheduler.vamp_now = lambda: replace(look(), need=0)  # nothing calls it off
            vamp.emergency = lambda *_: False
    copied, shrinking = len(watched.stored), vamp.balloon.shrinking
    for _ in range(20):
        core.step_fn()
    del vamp.emergency, core.scheduler.vamp_now
    return {
        "shrinking": shrinking,
        "copied": copied,
        "copied_later": len(watched.stored) - copied,
        "wrong": watched.wrong,
        "left": vamp.balloon.physical - vamp.home,
    }


def _load(llm: Any, prompt: list[int]) -> dict[str, Any]:
    """How long a request takes whose cache a connector brings back, with nobody else there and experts away; the rest
    of an engine that has nothing to do is made long. Comes after blocks were given back, of the same prompts."""
    from vllm import SamplingParams

    from ballast_vamp import scheduler

    own = llm.llm_engine.engine_core.engine_core.scheduler
    vamp: Any = own.vamp
    pool = own.kv_cache_manager.block_pool
    for block in pool.blocks:
        pool._maybe_evict_cached_block(block)  # as they go when others need them
    vamp.grow(1)
    own._vamp_reuse.held.value = 0.5
    usual, scheduler.IDLE_SECONDS = scheduler.IDLE_SECONDS, 3.0
    started = time.monotonic()
    once = SamplingParams(max_tokens=1, detokenize=False)
    (answer,) = llm.generate({"prompt_token_ids": prompt}, once, use_tqdm=False)
    scheduler.IDLE_SECONDS = usual
    found = {"cached": answer.num_cached_tokens, "seconds": time.monotonic() - started, "away": vamp.busy()}
    return found | {"held": own._vamp_reuse.held.value}


def _pause(llm: Any, prompts: list[list[int]], params: list[Any]) -> dict[str, Any]:
    """Whether an engine whose experts are away has work: with requests, while they are paused, and when it ends."""
    from vllm.v1.core.sched.interface import PauseState

    engine = llm.llm_engine
    core = engine.engine_core.engine_core
    core.scheduler.vamp.grow(1)
    for number, (ids, param) in enumerate(zip(prompts, params, strict=True)):
        engine.add_request(f"pause-{number}", {"prompt_token_ids": ids}, param)
    for _ in range(20):
        engine.step()
    found = {"away": core.scheduler.vamp.busy(), "running": core.scheduler.has_requests()}
    core.scheduler.set_pause_state(PauseState.PAUSED_ALL)
    found["paused"] = core.scheduler.has_requests()
    core.scheduler.set_pause_state(PauseState.UNPAUSED)
    while engine.has_unfinished_requests():
        engine.step()
    core.step_fn()
    found["at rest"] = core.scheduler.has_requests()
    core.is_running = lambda: False  # as an engine in a process of its own says after SIGTERM
    found["ending"] = core.scheduler.has_requests()
    del core.is_running
    return found


def _new_weights(llm: Any) -> dict[str, Any]:
    """Write one expert tensor anew. Copies of experts at home before and after, or why it was refused."""
    import torch

    core = llm.llm_engine.engine_core.engine_core
    worker = core.model_executor.driver_worker.worker
    table = worker._vamp.table
    name = next(name for name, _ in worker.get_model().named_parameters() if "w13_weight" in name)
    new = torch.ones_like(worker.get_model().get_parameter(name))
    before = sum(host.of is not None and not host.serving for host in table.hosts)
    options = {"weights_iterator": [(name, new)], "is_checkpoint_format": False}
    try:
        llm.collective_rpc("reload_weights", kwargs=options)
    except RuntimeError as error:
        return {"refused": str(error)}
    after = sum(host.of is not None and not host.serving for host in table.hosts)
    return {"before": before, "after": after, "written": bool((worker.get_model().get_parameter(name) == 1).all())}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
