"""What goes wrong on demand.

A fault is asked for by HTTP: {"op": "compose", "mode": "die-after", "times": 1}. `op` is a verb (compose, free, assign,
unassign), `look` for reads, or `any`. The modes: `error` answers 500 without doing anything, `lost` does it and answers
nothing, `hang` waits so many seconds and then does it, `slow` does it and waits, `die-before` and `die-after` end the
process without any cleaning up, on either side of the change.
"""

import asyncio
import os
from dataclasses import dataclass, field

MODES = ("error", "lost", "hang", "slow", "die-before", "die-after")
DIED = 137


class Injected(Exception):
    """The request is to fail: with 500, or without an answer."""

    def __init__(self, *, answer: bool) -> None:
        super().__init__("a fault that was asked for")
        self.answer = answer


@dataclass
class Fault:
    op: str
    mode: str
    times: int = 1
    seconds: float = 0.0


@dataclass
class Faults:
    """Those that are still to happen, in the order in which they were asked for."""

    waiting: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        """Raises ValueError for a mode that there is none of."""
        if fault.mode not in MODES:
            raise ValueError(f"mode {fault.mode!r} is none of {', '.join(MODES)}")
        self.waiting.append(fault)

    async def before(self, op: str) -> None:
        """Called when a request is about to change something, or to read."""
        if fault := self._take(op, "die-before", "error", "hang"):
            if fault.mode == "die-before":
                os._exit(DIED)
            await asyncio.sleep(fault.seconds)
            if fault.mode == "error":
                raise Injected(answer=True)

    async def after(self, op: str) -> None:
        """Called when the change is made."""
        if fault := self._take(op, "die-after", "lost", "slow"):
            if fault.mode == "die-after":
                os._exit(DIED)
            await asyncio.sleep(fault.seconds)
            if fault.mode == "lost":
                raise Injected(answer=False)

    def _take(self, op: str, *modes: str) -> Fault | None:
        for fault in self.waiting:
            if fault.op in (op, "any") and fault.mode in modes:
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                return fault
        return None
