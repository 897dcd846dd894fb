"""From measurements to a number of replicas: the algorithm of Kubernetes' HorizontalPodAutoscaler, pure.

For each metric the ratio of its average to its target gives a proposal, ceil(ratio * replicas), unless the ratio is
within the tolerance of 1; the largest proposal counts. Pods without a measurement count as idle when that would add
replicas, and as on target when it would take some away. A window of earlier recommendations then keeps it from flapping
(up: the smallest of the window, down: the largest), and policies limit the speed.
Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Policy:
    """No more than `value` replicas (or per cent of those there were) in `period` seconds."""

    value: int
    period: float
    percent: bool = False


@dataclass(frozen=True)
class Direction:
    """How fast replicas change one way. window: seconds of recommendations that count."""

    window: float
    policies: Sequence[Policy]


@dataclass(frozen=True)
class Limits:
    """All that bounds a decision. tolerance: share of the target."""

    fewest: int
    most: int
    tolerance: float
    up: Direction
    down: Direction


@dataclass(frozen=True)
class Reading:
    """One metric: what each pod that answered measured, how many did not answer, and the target for the average."""

    values: Sequence[float]
    missing: int
    target: float

    @property
    def average(self) -> float | None:
        return sum(self.values) / len(self.values) if self.values else None


@dataclass(frozen=True)
class History:
    """What decisions look back at: (time, replicas recommended) and (time, replicas added, negative if taken away)."""

    recommended: tuple[tuple[float, int], ...] = ()
    changed: tuple[tuple[float, int], ...] = ()


def proposal(reading: Reading, current: int, tolerance: float) -> int | None:
    """Replicas by one metric alone; None if nothing was measured."""
    if reading.average is None:
        return None
    ratio = reading.average / reading.target
    if reading.missing == 0:
        return current if abs(ratio - 1) <= tolerance else math.ceil(ratio * len(reading.values))
    filled = 0.0 if ratio > 1 else reading.target
    count = len(reading.values) + reading.missing
    cautious = (sum(reading.values) + filled * reading.missing) / count / reading.target
    turned = (ratio > 1) != (cautious > 1)
    return current if turned or abs(cautious - 1) <= tolerance else math.ceil(cautious * count)


def decide(proposed: int, current: int, limits: Limits, history: History, now: float) -> tuple[int, History]:
    """Replicas to have now, and the history with this decision in it.

    A history without recommendations is a new start: the present number counts as recommended, so nothing that was
    running is taken away before the window has passed.
    """
    wish = min(max(proposed, limits.fewest), limits.most)
    recommended = (*(history.recommended or ((now, current),)), (now, wish))
    stable = _stabilised(wish, current, limits, recommended, now)
    allowed = _at_speed(stable, current, limits, history.changed, now)
    oldest = now - max(limits.up.window, limits.down.window)
    kept = replace(
        history,
        recommended=tuple(entry for entry in recommended if entry[0] >= oldest),
        changed=_recent(history.changed, limits, now),
    )
    if allowed != current:
        kept = replace(kept, changed=(*kept.changed, (now, allowed - current)))
    return allowed, kept


def _stabilised(wish: int, current: int, limits: Limits, recommended: Sequence[tuple[float, int]], now: float) -> int:
    up = min([wish, *(count for when, count in recommended if when > now - limits.up.window)])
    down = max([wish, *(count for when, count in recommended if when > now - limits.down.window)])
    return min(max(current, up), down)


def _at_speed(wish: int, current: int, limits: Limits, changed: Sequence[tuple[float, int]], now: float) -> int:
    """The wish, or as far towards it as the policies let go now; the most generous policy counts."""
    if wish > current:
        steps = [_most(policy, current - _sum(changed, policy.period, now)) for policy in limits.up.policies]
        return min(wish, max(max(steps, default=limits.most), current), limits.most)
    if wish < current:
        steps = [_fewest(policy, current - _sum(changed, policy.period, now)) for policy in limits.down.policies]
        return max(wish, min(min(steps, default=limits.fewest), current), limits.fewest)
    return min(max(wish, limits.fewest), limits.most)


def _most(policy: Policy, start: int) -> int:
    return math.ceil(start * (1 + policy.value / 100)) if policy.percent else start + policy.value


def _fewest(policy: Policy, start: int) -> int:
    return math.floor(start * (1 - policy.value / 100)) if policy.percent else start - policy.value


def _sum(changed: Sequence[tuple[float, int]], period: float, now: float) -> int:
    return sum(delta for when, delta in changed if when > now - period)


def _recent(changed: Sequence[tuple[float, int]], limits: Limits, now: float) -> tuple[tuple[float, int], ...]:
    longest = max((policy.period for way in (limits.up, limits.down) for policy in way.policies), default=0.0)
    return tuple(entry for entry in changed if entry[0] > now - longest)
