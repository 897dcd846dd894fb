"""Run inside the environment that has vLLM: an engine whose pages never rest, under conversations that come back.

    python -m ballast_vamp.engine_tests.restless '{"model": DIR, "kv_bytes": N, "seed": 1, "seconds": 60,
                                                  "async": true, "options": {}, "env": {"VAMP_ENABLE": "1", ...}}'

The controller's patience is cut to milliseconds, and now and then blocks are taken back though nothing is quiet;
requests come in bursts, ask for what was said before, and are sometimes aborted. Every few steps the fake memory and
the pool are checked. The last line of the output says what happened.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any

from ballast_vamp.engine_tests import run_engine

HURRY = {
    "QUIET_SECONDS": 0.05,
    "DWELL_SECONDS": 0.02,
    "DWELL_COMMITS": 0,
    "OBSERVE_SECONDS": 0.02,
    "CALM_SECONDS": 0.05,
    "BACK_OFF_SECONDS": 0.05,
    "LOW_USAGE": 0.95,
}
SESSIONS, LONGEST = 9, 1000  # conversations at a time, tokens of one


@dataclass
class Restless:
    """The conversations, and what asks for blocks back. asked: session to the name and prompt of what it waits for."""

    llm: Any
    dice: random.Random
    history: dict[int, list[int]] = field(default_factory=dict)
    asked: dict[int, tuple[str, list[int]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"asked": 0, "answered": 0, "found": 0, "aborted": 0})

    def __post_init__(self) -> None:
        self.engine = self.llm.llm_engine
        self.core = self.engine.engine_core.engine_core
        self.vamp, self.calm = self.core.scheduler.vamp, False
        now = self.core.scheduler.vamp_now
        self.core.scheduler.vamp_now = lambda: replace(now(), need=0) if self.calm else now()

    def step(self, busy: bool) -> None:
        dice, balloon = self.dice, self.vamp.balloon
        while len(self.asked) < (7 if busy else 1) and self._ask(dice.randrange(SESSIONS)):
            pass
        if dice.random() < 0.05:
            self.calm = dice.random() < 0.6
        if self.asked and dice.random() < 0.01:
            name, _ = self.asked.pop(dice.choice(list(self.asked)))
            self.engine.abort_request([name])
            self.counts["aborted"] += 1
        idle = not balloon.shrinking and not self.vamp.coordinator.pending
        if idle and balloon.physical > self.vamp.home and dice.random() < 0.15:
            balloon.begin_shrink(dice.randrange(self.vamp.home, balloon.physical))
        for output in self.engine.step():
            self._answer(output)

    def _ask(self, session: int) -> bool:
        from vllm import SamplingParams

        if session in self.asked:
            return False
        length, new = self.dice.choice([5, 40, 120]), self.dice.choice([20, 60, 200])
        before = self.history.get(session, [])
        before = before if len(before) + new + length < LONGEST else []
        prompt = before + [self.dice.randrange(3, 250) for _ in range(new)]
        name = f"{session}-{self.counts['asked']}"
        params = SamplingParams(temperature=0, max_tokens=length, ignore_eos=True, detokenize=False)
        self.engine.add_request(name, {"prompt_token_ids": prompt}, params)
        self.asked[session] = name, prompt
        self.counts["asked"] += 1
        return True

    def _answer(self, output: Any) -> None:
        session = int(output.request_id.partition("-")[0])
        name, prompt = self.asked.get(session, ("", []))
        if output.finished and name == output.request_id:
            self.history[session] = prompt + list(output.outputs[0].token_ids)
            self.counts["answered"] += 1
            self.counts["found"] += output.num_cached_tokens or 0
            del self.asked[session]

    def check(self) -> None:
        """Raise AssertionError unless experts are where the table says, and nobody knows of a block without memory, nor
        copied from one."""
        if (copies := sys.modules.get("ballast_vamp.engine_tests.watched")) is not None:
            assert not copies.wrong, copies.wrong
        self.core.model_executor.collective_rpc("vamp_check")
        balloon = self.vamp.balloon
        for block in balloon.pool.blocks[balloon.physical :]:
            assert block.ref_cnt == 0, block
            assert block.block_hash is None, block


def main(case: dict[str, Any]) -> dict[str, float]:
    os.environ.update(case["env"])
    from vllm import LLM
    from vllm.plugins import load_general_plugins

    from ballast_vamp import controller, plugin, scheduler

    run_engine._allow_async(case)
    load_general_plugins()
    if plugin.__dict__.get("_registered") is False:
        plugin.register()
    for name, value in HURRY.items():
        setattr(controller, name, value)
    llm = LLM(
        case["model"],
        skip_tokenizer_init=True,
        load_format="dummy",
        enforce_eager=True,
        max_model_len=LONGEST + 24,
        max_num_seqs=16,
        max_num_batched_tokens=256,
        kv_cache_memory_bytes=case["kv_bytes"],
        async_scheduling=case["async"],
        seed=0,
        **case["options"],
    )
    if "kv_transfer_config" in case["options"]:
        from ballast_vamp.engine_tests import watched

        watched.watch(llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker._vamp)
    restless, until, steps = Restless(llm, random.Random(case["seed"])), time.monotonic() + case["seconds"], 0
    while time.monotonic() < until:
        restless.step(busy=int(time.monotonic()) % 6 < 3)
        steps += 1
        if steps % 25 == 0:
            restless.check()
    handle = scheduler.current()
    assert handle is not None
    moved = {k: v for k, v in handle.snapshot().items() if k.startswith("vamp:repartition_total")}
    return {"steps": steps, **restless.counts, **moved}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
