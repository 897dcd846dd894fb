"""What the scheduler must know of the engine around it: vLLM gives it none, so the one that made the caches is kept."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

executor: Any = None
_engine: weakref.ref[Any] | None = None


def keep(engine: Any) -> None:
    """Called by the engine of this process, once its workers are there."""
    global executor, _engine
    executor, _engine = engine.model_executor, weakref.ref(engine)


def call(method: str, *arguments: Any) -> Sequence[Any]:
    """Have every worker run a method, after all steps sent to it before; their answers, by rank."""
    if executor is None:
        raise RuntimeError("no vLLM engine was started in this process")
    answers: Sequence[Any] = executor.collective_rpc(method, args=arguments)
    return answers


def ending() -> bool:
    """Whether the engine was asked to end and waits for its work to be done. One without a process of its own is not
    asked: it is taken down as it is."""
    engine = None if _engine is None else _engine()
    running = getattr(engine, "is_running", None)
    return running is not None and not running()
