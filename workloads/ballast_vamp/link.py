"""How the scheduler reaches the workers: vLLM gives it no executor, so the one that made the caches is kept here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

executor: Any = None


def call(method: str, *arguments: Any) -> Sequence[Any]:
    """Have every worker run a method, after all steps sent to it before; their answers, by rank."""
    if executor is None:
        raise RuntimeError("no vLLM engine was started in this process")
    answers: Sequence[Any] = executor.collective_rpc(method, args=arguments)
    return answers
