"""When to look at the exploitability, and when to stop: decided by iteration numbers alone.

A look costs about one iteration. Points lie at least 32 iterations apart and 5 % of the way so far, which keeps looks
under 4 % of the time and the overshoot of a target under 5 %. A clock decides nothing here, so a solve that was
killed and resumed, on whatever machine, stops at the iteration at which it would have stopped anyway.
"""

from dataclasses import dataclass

FIRST = 32
GROWTH = 20


def next_look(iteration: int) -> int:
    """The first point of the schedule after an iteration."""
    point = FIRST
    while point <= iteration:
        point += max(FIRST, point // GROWTH)
    return point


def is_look(iteration: int) -> bool:
    """Whether an iteration is a point of the schedule."""
    return iteration > 0 and next_look(iteration - 1) == iteration


def looks_between(after: int, until: int) -> list[int]:
    """The points of the schedule after one iteration and up to another."""
    found, point = [], next_look(after)
    while point <= until:
        found.append(point)
        point = next_look(point)
    return found


@dataclass(frozen=True)
class Stop:
    """When a solve ends: at whichever is met first. exploitability: absolute, in payoff units. seconds: of solving,
    pauses excluded."""

    exploitability: float | None = None
    iterations: int | None = None
    seconds: float | None = None

    def target(self, iteration: int) -> int:
        """The next iteration at which to stop and look."""
        look = next_look(iteration)
        return look if self.iterations is None else min(look, self.iterations)
