"""An engine of this machine: vLLM's own, behind its asynchronous front end, as `vllm serve` runs it.

The engine steps in a process of its own, so that the conversations, which are this process's work, do not slow it down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from prometheus_client import generate_latest

from ballast_vamp.replay import readings
from ballast_vamp.replay.drive import Ask, EngineError
from ballast_vamp.replay.errors import ReplayError
from ballast_vamp.replay.profiles import Profile

LOOK_SECONDS = 0.1
REST_SECONDS = 70.0  # longer than VAMP lets an idle engine step for its experts' sake


class LocalEngine:
    """vLLM's asynchronous engine. salt: keeps prefixes of one run from being hit in another, on the host too."""

    def __init__(self, llm: Any) -> None:
        from vllm.v1.metrics.prometheus import get_prometheus_registry

        self._llm = llm
        self._registry = get_prometheus_registry()
        self.salt = ""

    async def ask(self, request: Ask) -> AsyncIterator[Sequence[int]]:
        prompt = {"prompt_token_ids": list(request.prompt)} | ({"cache_salt": self.salt} if self.salt else {})
        try:
            async for output in self._llm.generate(prompt, parameters(request), f"{self.salt}{request.name}"):
                yield list(output.outputs[0].token_ids)
        except Exception as error:  # a prompt that it does not take, or an engine that has died
            raise EngineError(f"{type(error).__name__}: {error}") from error

    async def metrics(self) -> str:
        return generate_latest(self._registry).decode()

    async def change_profile(self, profile: Profile) -> None:
        """Raise ReplayError if no layer has asked for its shares: some kernels choose experts themselves."""
        layers = await self._llm.collective_rpc("replay_profile", args=(str(profile),))
        if min(layers) == 0:
            raise ReplayError(f"profile {profile} has no effect: this engine's kernels for experts include the router")

    async def rest(self) -> dict[str, float]:
        """Leave the engine without requests until its experts are at home, and forget all prefixes. How long that took,
        and the share of the experts' bytes that is at home in the end, where VAMP is."""
        started = time.perf_counter()
        while (found := self._rested()).get("experts_home_share", 1.0) < 1.0:
            if time.perf_counter() - started > REST_SECONDS:
                break
            await asyncio.sleep(LOOK_SECONDS)
        found["rest_seconds"] = time.perf_counter() - started
        while not await self._llm.reset_prefix_cache():  # blocks of the last step may still be in use
            if time.perf_counter() - started > 2 * REST_SECONDS:
                raise ReplayError("the engine does not forget its prefixes although nothing is asked any more")
            await asyncio.sleep(LOOK_SECONDS)
        return found

    def close(self) -> None:
        """End the engine's process; without it this one does not end either."""
        self._llm.shutdown()

    def _rested(self) -> dict[str, float]:
        known = readings.values(generate_latest(self._registry).decode())
        home = known.get("vamp:expert_bytes_resident")
        return {} if home is None else {"experts_home_share": home / (home + known["vamp:expert_bytes_host"])}


def parameters(request: Ask) -> Any:
    """Greedy, exactly as many tokens as recorded, and which tokens they are to be."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=0,
        max_tokens=request.output,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
        extra_args=request.recorded,
    )


def start(arguments: Mapping[str, Any]) -> LocalEngine:
    """vLLM with these arguments, whose engine is a child of this process. Call it where an event loop runs."""
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    asked, got = arguments["kv_cache_memory_bytes"], llm.vllm_config.cache_config.kv_cache_memory_bytes
    if got != asked:  # as VLLM_CPU_KVCACHE_SPACE does, and then nothing is under pressure
        raise ReplayError(f"the engine has {got} bytes of KV instead of {asked}; unset what else sets them")
    return LocalEngine(llm)
