"""What only the running engine can tell the cost model: how long steps take, what is asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import mul

from ballast_vamp.cost import Mix, Prefill

FORGET = 0.995  # of the step fit, each step
GHOSTS = 200_000  # evicted hashes remembered
GHOST_SECONDS = 120.0


class Fading:
    """A mean that follows: each value counts `weight`, the past the rest. Starts at a prior."""

    def __init__(self, prior: float, weight: float = 0.2) -> None:
        self.value, self._weight = prior, weight

    def add(self, value: float) -> None:
        self.value += self._weight * (value - self.value)


class StepTimes:
    """Recursive least squares of step seconds over (1, prompt tokens, prompt tokens x context, decoding requests)."""

    PRIOR = (5e-3, 5e-5, 1e-9, 1e-4)  # seconds; a mid-size model on one GPU
    SCALE = (1.0, 1e3, 1e7, 1e2)
    MOST = 1e4  # directions that are not seen must not blow up

    def __init__(self) -> None:
        self._weights = [weight * scale for weight, scale in zip(self.PRIOR, self.SCALE, strict=True)]
        self._spread = [[100.0 * (row == column) for column in range(4)] for row in range(4)]

    def add(self, seconds: float, prompt: int, prompt_context: int, decoding: int) -> None:
        """One step: prompt tokens, their sum of token x context, and requests that decoded."""
        # Once a step, on the thread that launches kernels: lists of four are ten times as fast as arrays.
        x = (1.0, prompt / self.SCALE[1], prompt_context / self.SCALE[2], decoding / self.SCALE[3])
        along = [sum(map(mul, row, x)) for row in self._spread]
        size = FORGET + sum(map(mul, x, along))
        error = seconds - sum(map(mul, x, self._weights))
        self._weights = [weight + part / size * error for weight, part in zip(self._weights, along, strict=True)]
        self._spread = [
            [min((old - one / size * other) / FORGET, self.MOST) for old, other in zip(row, along, strict=True)]
            for row, one in zip(self._spread, along, strict=True)
        ]

    def prefill(self) -> Prefill:
        return Prefill(max(self._weights[1] / self.SCALE[1], 1e-7), max(self._weights[2] / self.SCALE[2], 0.0))


class StepMix:
    """How many tokens steps have and how often they come, with prompts and without."""

    def __init__(self) -> None:
        self._tokens = (Fading(1.0), Fading(256.0))
        self._seconds = Fading(0.01, 0.05)
        self._prompts = Fading(0.1, 0.05)

    def add(self, seconds: float, decode_tokens: int, prompt_tokens: int) -> None:
        self._seconds.add(seconds)
        self._prompts.add(1.0 if prompt_tokens else 0.0)
        self._tokens[1 if prompt_tokens else 0].add(decode_tokens + prompt_tokens)

    def mix(self) -> Mix:
        rate = 1 / max(self._seconds.value, 1e-4)
        part = self._prompts.value
        return Mix(self._tokens[0].value, rate * (1 - part), self._tokens[1].value, rate * part)

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self._seconds.value


class Reuse:
    """How often an evicted block is asked for again, and how soon: evicted hashes are remembered as ghosts."""

    def __init__(self) -> None:
        self.chance = 0.5
        self.gap = Fading(5.0, 0.05)
        self.held = Fading(1.0, 0.05)  # share of evicted blocks that a KV connector had when they were asked for
        self._ghosts: OrderedDict[object, float] = OrderedDict()
        self._asked, self._forgotten = 2.0, 2.0  # a prior of four blocks

    def evicted(self, key: object, now: float) -> None:
        self._ghosts[key] = now
        self._ghosts.move_to_end(key)
        while self._ghosts:
            oldest, at = next(iter(self._ghosts.items()))
            if now - at < GHOST_SECONDS and len(self._ghosts) <= GHOSTS:
                break
            del self._ghosts[oldest]
            self._count(0.0, 1.0)

    def asked(self, keys: Iterable[object], now: float) -> int:
        """A request wants these blocks; returns how many were evicted before."""
        found = 0
        for key in keys:
            at = self._ghosts.pop(key, None)
            if at is None:
                continue
            found += 1
            self.gap.add(now - at)
        self._count(float(found), 0.0)
        return found

    def kept(self, blocks: int) -> None:
        """Cached blocks were hit: they, too, were asked for again."""
        self._count(float(blocks), 0.0)

    def _count(self, asked: float, forgotten: float) -> None:
        fade = 0.9999 ** (asked + forgotten)
        self._asked = self._asked * fade + asked
        self._forgotten = self._forgotten * fade + forgotten
        self.chance = self._asked / (self._asked + self._forgotten)
