"""An engine in this process: vLLM's own step loop on one thread, with questions put in between two steps."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import generate_latest

from ballast_vamp.replay.drive import Ask, EngineError
from ballast_vamp.replay.errors import ReplayError
from ballast_vamp.replay.profiles import Profile

WARM_UP = (1, 4, 16)  # sizes of the batches of the warm-up: each new size may compile a kernel
WARM_TOKENS = 64


class LocalEngine:
    """vLLM's synchronous engine. Only its one thread ever touches it."""

    def __init__(self, llm: Any) -> None:
        from vllm.v1.metrics.prometheus import get_prometheus_registry

        self._llm = llm
        self._engine = llm.llm_engine
        self._registry = get_prometheus_registry()
        self._thread = ThreadPoolExecutor(1)
        self._answers: dict[str, asyncio.Queue[Sequence[int] | Exception | None]] = {}
        self._asked: list[Ask] = []
        self._due = asyncio.Event()
        self._broken: Exception | None = None

    async def ask(self, request: Ask) -> AsyncIterator[Sequence[int]]:
        if self._broken is not None:
            raise EngineError(f"{type(self._broken).__name__}: {self._broken}")
        queue = self._answers[request.name] = asyncio.Queue()
        self._asked.append(request)
        self._due.set()
        while (came := await queue.get()) is not None:
            if isinstance(came, Exception):
                raise EngineError(f"{type(came).__name__}: {came}") from came
            yield came

    async def metrics(self) -> str:
        return generate_latest(self._registry).decode()

    async def change_profile(self, profile: Profile) -> None:
        await self._do(lambda: self._llm.collective_rpc("replay_profile", args=(str(profile),)))

    async def run(self) -> None:
        """Step as long as there is something to do; runs until cancelled. An engine that fails fails every question."""
        try:
            while True:
                if not self._answers:
                    self._due.clear()
                    await self._due.wait()
                asked, self._asked = self._asked, []
                for output in await self._do(lambda asked=asked: self._step(asked)):
                    self._hand_out(output)
        except Exception as error:
            self._broken = error
            for queue in self._answers.values():
                queue.put_nowait(error)
            raise

    def _hand_out(self, output: Any) -> None:
        queue = self._answers[output.request_id]
        queue.put_nowait(list(output.outputs[0].token_ids))
        if output.finished:
            queue.put_nowait(None)
            del self._answers[output.request_id]

    def _step(self, asked: Sequence[Ask]) -> list[Any]:
        for request in asked:
            self._engine.add_request(request.name, {"prompt_token_ids": list(request.prompt)}, parameters(request))
        return list(self._engine.step())

    async def _do(self, work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def warm_up(self, vocabulary: int) -> None:
        """Have kernels compiled before anything is timed, and leave nothing of it in the prefix cache."""
        from vllm import SamplingParams

        some = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True, detokenize=False)
        for size in WARM_UP:
            prompts = [[(7 * n + 11 * k) % (vocabulary - 3) + 3 for k in range(WARM_TOKENS)] for n in range(size)]
            self._llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], some, use_tqdm=False)
        self._llm.reset_prefix_cache()

    def check_profile(self, profile: Profile) -> None:
        """Raise ReplayError if no layer has asked for its shares: some kernels choose experts themselves."""
        layers = self._llm.collective_rpc("replay_profile", args=(str(profile),))
        if min(layers) == 0:
            raise ReplayError(f"profile {profile} has no effect: this engine's kernels for experts include the router")


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


@asynccontextmanager
async def local_engine(
    arguments: Mapping[str, Any], vocabulary: int, profile: Profile | None
) -> AsyncIterator[LocalEngine]:
    """Start vLLM with these arguments of `LLM`, warmed up; its process is this one, and there is only one for each."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    llm = LLM(**arguments)
    asked, got = arguments["kv_cache_memory_bytes"], llm.llm_engine.vllm_config.cache_config.kv_cache_memory_bytes
    if got != asked:  # as VLLM_CPU_KVCACHE_SPACE does, and then nothing is under pressure
        raise ReplayError(f"the engine has {got} bytes of KV instead of {asked}; unset what else sets them")
    engine = LocalEngine(llm)
    engine.warm_up(vocabulary)
    if profile:
        engine.check_profile(profile)
    running = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        running.cancel()
        await asyncio.wait([running])
