"""One order over all ranks: memory is moved on every rank, or no block of it is handed out.

The scheduler talks to ranks through `call(method, epoch, order)`, which answers for each of them. Its queue is the one
that steps go through, so an order is carried out after every earlier step was launched, and before any later.
Ranks need not hold the same experts on the host, since what is read is the same. Only capacity must agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ballast_vamp.rank import Answer, Direction, Order

Call = Callable[[str, int, Order], Sequence[Answer]]
PREPARE_DEADLINE = 2.0  # seconds; what takes longer is given up, the engine serves on meanwhile


class Result(StrEnum):
    """As `vamp:repartition_total` has it: refused before anything changed, rolled_back after."""

    OK = "ok"
    REFUSED = "refused"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True)
class Outcome:
    """capacity: blocks with memory on every rank. prepare, stall: seconds of the slowest rank."""

    result: Result
    capacity: int
    message: str = ""
    changed: bool = False
    prepare: float = 0.0
    stall: float = 0.0
    handles: int = 0
    copied: int = 0


@dataclass
class Pending:
    """An order that every rank has prepared."""

    epoch: int
    order: Order
    answers: Sequence[Answer]
    at: float


class Coordinator:
    """Numbers orders, and carries them over all ranks. degraded: ranks disagreed and could not be brought together."""

    def __init__(self, call: Call, clock: Callable[[], float] = time.monotonic) -> None:
        self._call, self._clock = call, clock
        self._epoch = 0
        self.degraded = False
        self.pending: list[Pending] = []  # in order of epochs; one at a time, unless an emergency comes between

    def prepare(self, order: Order) -> Outcome | None:
        """Have an order prepared while steps go on; None if `commit` must follow, else the outcome: refused, or nothing
        was left to do."""
        self.drop()
        self._epoch += 1
        answers = self._call("vamp_prepare", self._epoch, order)
        seconds = max(answer.seconds for answer in answers)
        failed = [answer.message for answer in answers if not answer.ok]
        if seconds > PREPARE_DEADLINE:
            failed.append(f"prepare took {seconds:.1f} s, more than {PREPARE_DEADLINE:g} s")
        if failed or not any(answer.changed for answer in answers):
            now = min(answer.capacity for answer in self._call("vamp_rollback", self._epoch, order))
            result = Result.REFUSED if failed else Result.OK
            return Outcome(result, now, failed[0] if failed else "", prepare=seconds)
        self.pending.append(Pending(self._epoch, order, answers, self._clock()))
        return None

    def drop(self) -> None:
        """Forget what was prepared: the ranks drop it too."""
        for pending in self.pending:
            self._call("vamp_rollback", pending.epoch, pending.order)
        self.pending.clear()

    def commit(self) -> Outcome:
        """Commit the oldest prepared order; blocks up to the outcome's capacity may be handed out."""
        pending = self.pending.pop(0)
        outcome = self._finish(pending)
        if outcome.result is Result.OK:
            return outcome
        again = self.prepare(pending.order)  # ranks that have done it have nothing left to do
        if again is None:
            again = self._finish(self.pending.pop(0))
        return again if again.result is Result.OK else outcome

    def carry_out(self, order: Order) -> Outcome:
        """Prepare and commit at once: for an order that a request waits for."""
        return self.prepare(order) or self.commit()

    def _finish(self, pending: Pending) -> Outcome:
        answers = self._call("vamp_commit", pending.epoch, pending.order)
        failed = [answer.message for answer in answers if not answer.ok]
        self.degraded = bool(failed) and len({answer.capacity for answer in answers}) > 1
        return Outcome(
            Result.ROLLED_BACK if failed else Result.OK,
            min(answer.capacity for answer in answers),
            failed[0] if failed else "",
            not failed,
            max(answer.seconds for answer in pending.answers),
            max(answer.seconds for answer in answers),
            max(answer.handles for answer in pending.answers),
            max(answer.copied for answer in pending.answers),
        )


def grow(capacity: int) -> Order:
    """To at least so many blocks."""
    return Order(Direction.GROW, capacity)


def shrink(capacity: int) -> Order:
    """To no fewer than so many blocks, all above them parked."""
    return Order(Direction.SHRINK, capacity)
