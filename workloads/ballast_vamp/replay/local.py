"""An engine in this process: vLLM's own step loop on the main thread, the conversations on another.

The engine keeps the thread that made it: CUDA's current context belongs to a thread, and VAMP moves pages on the
engine's own. What the conversations want is put into its inbox and taken out between two steps.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from prometheus_client import generate_latest

from ballast_vamp.replay import readings
from ballast_vamp.replay.drive import Ask, EngineError
from ballast_vamp.replay.errors import ReplayError
from ballast_vamp.replay.profiles import Profile

T = TypeVar("T")
Answer = tuple[asyncio.AbstractEventLoop, "asyncio.Queue[Sequence[int] | Exception | None]"]


class LocalEngine:
    """vLLM's synchronous engine."""

    def __init__(self, llm: Any) -> None:
        from vllm.v1.metrics.prometheus import get_prometheus_registry

        self._llm = llm
        self._engine = llm.llm_engine
        self._registry = get_prometheus_registry()
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._answers: dict[str, Answer] = {}
        self._broken: Exception | None = None

    async def ask(self, request: Ask) -> AsyncIterator[Sequence[int]]:
        answer: Answer = (asyncio.get_running_loop(), asyncio.Queue())
        self._inbox.put(lambda: self._add(request, answer))
        while (came := await answer[1].get()) is not None:
            if isinstance(came, Exception):
                raise EngineError(f"{type(came).__name__}: {came}") from came
            yield came

    async def metrics(self) -> str:
        return generate_latest(self._registry).decode()

    async def change_profile(self, profile: Profile) -> None:
        self._inbox.put(lambda: self._llm.collective_rpc("replay_profile", args=(str(profile),)))

    def play(self, conversations: Coroutine[Any, Any, T]) -> T:
        """Step for as long as the conversations go on, which ask this engine; what they return."""
        found: list[T | BaseException] = []

        def converse() -> None:
            try:
                found.append(asyncio.run(conversations))
            except BaseException as error:
                found.append(error)
            finally:
                self._inbox.put(None)

        thread = threading.Thread(target=converse)
        thread.start()
        self._serve()
        thread.join()
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    def _serve(self) -> None:
        """Until the conversations are over. An engine that fails fails every question, those to come as well."""
        while True:
            try:
                work = self._inbox.get(block=self._broken is not None or not self._answers)
            except queue.Empty:
                self._step()
                continue
            if work is None:
                return
            work()

    def _add(self, request: Ask, answer: Answer) -> None:
        if self._broken is not None:
            _put(answer, self._broken)
            return
        self._answers[request.name] = answer
        try:
            self._engine.add_request(request.name, {"prompt_token_ids": list(request.prompt)}, parameters(request))
        except ValueError as error:  # a prompt that this engine does not take
            _put(self._answers.pop(request.name), error)

    def _step(self) -> None:
        try:
            outputs = self._engine.step()
        except Exception as error:
            self._broken = error
            for answer in self._answers.values():
                _put(answer, error)
            return
        for output in outputs:
            _put(self._answers[output.request_id], list(output.outputs[0].token_ids))
            if output.finished:
                _put(self._answers.pop(output.request_id), None)

    def rest(self) -> dict[str, float]:
        """Let an engine without requests step for as long as it wants to, as vLLM's own loop does: VAMP brings experts
        home then. How long that took, and the share of their bytes that is at home in the end."""
        scheduler: Any = self._engine.engine_core.engine_core.scheduler
        started = time.perf_counter()
        while scheduler.has_requests():
            self._engine.step()
        found = {"rest_seconds": time.perf_counter() - started}
        self._llm.reset_prefix_cache()
        known = readings.values(generate_latest(self._registry).decode())
        if (home := known.get("vamp:expert_bytes_resident")) is not None:
            found["experts_home_share"] = home / (home + known["vamp:expert_bytes_host"])
        return found

    def route_by(self, profile: Profile) -> None:
        """Raise ReplayError if no layer has asked for its shares: some kernels choose experts themselves."""
        layers = self._llm.collective_rpc("replay_profile", args=(str(profile),))
        if min(layers) == 0:
            raise ReplayError(f"profile {profile} has no effect: this engine's kernels for experts include the router")


def _put(answer: Answer, what: Sequence[int] | Exception | None) -> None:
    loop, waiting = answer
    loop.call_soon_threadsafe(waiting.put_nowait, what)


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
    """vLLM with these arguments of `LLM`, in this process and on this thread; one for each process."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    llm = LLM(**arguments)
    asked, got = arguments["kv_cache_memory_bytes"], llm.llm_engine.vllm_config.cache_config.kv_cache_memory_bytes
    if got != asked:  # as VLLM_CPU_KVCACHE_SPACE does, and then nothing is under pressure
        raise ReplayError(f"the engine has {got} bytes of KV instead of {asked}; unset what else sets them")
    return LocalEngine(llm)
