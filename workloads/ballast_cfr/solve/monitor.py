"""How a solve is going, for people: rate, trend and time to go. Nothing here changes what is solved."""

import math
import time
from collections import deque
from dataclasses import dataclass

from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Look, Solver

_RATE_WINDOW = 3.0


@dataclass(frozen=True)
class Snapshot:
    """One moment. rate: iterations a second; eta: seconds until the stop rule is met, by the present trend; None if
    not known."""

    iteration: int
    seconds: float
    look: Look | None
    rate: float | None
    eta: int | None


class Monitor:
    """Watches a solver through its progress calls."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self._looks: list[Look] = []
        self._ticks: deque[tuple[float, int]] = deque()

    def see(self, solver: Solver) -> Snapshot:
        """Note where the solver is."""
        now = time.monotonic()
        self._ticks.append((now, solver.iteration))
        while len(self._ticks) > 2 and now - self._ticks[1][0] > _RATE_WINDOW:
            self._ticks.popleft()
        look = solver.last_look
        if look is not None and (not self._looks or look.iteration > self._looks[-1].iteration):
            self._looks.append(look)
        (then, before) = self._ticks[0]
        rate = (solver.iteration - before) / (now - then) if now > then and solver.iteration > before else None
        return Snapshot(solver.iteration, solver.seconds, look, rate, self._eta(solver, rate))

    def _eta(self, solver: Solver, rate: float | None) -> int | None:
        left = []
        if rate and self.stop.iterations is not None:
            left.append((self.stop.iterations - solver.iteration) / rate)
        if self.stop.seconds is not None:
            left.append(self.stop.seconds - solver.seconds)
        if rate and (goal := self._iteration_of_target()) is not None:
            left.append((goal - solver.iteration) / rate)
        return max(0, math.ceil(min(left))) if left and min(left) < 10**9 else None

    def _iteration_of_target(self) -> float | None:
        """Where the exploitability meets the target if it goes on falling as a power of the iteration, as since a
        quarter of the way."""
        target = self.stop.exploitability
        if not target or len(self._looks) < 2:
            return None
        last = self._looks[-1]
        early = next(look for look in self._looks if look.iteration * 4 >= last.iteration or look is last)
        now, then = last.evaluation.exploitability, early.evaluation.exploitability
        if early is last or not 0 < now < then:
            return None
        power = math.log(then / now) / math.log(last.iteration / early.iteration)
        exponent = math.log(now / target) / power
        return last.iteration * math.exp(exponent) if exponent < 50 else None
