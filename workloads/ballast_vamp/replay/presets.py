"""Traces made up after what has been measured of coding agents.

Lengths and gaps are lognormal, given by their median and an upper percentile. `swe110` has the size of the SWE-bench
replays in the literature: 110 sessions, 2,103 turns, contexts of at most 66K tokens (first prompt 3.2K, append median
350 and p90 2.5K, which puts p99 at 12K, answer median 110 and p90 700, gap median 1.5 s and p95 15 s, one gap in twenty
a person's of 30 to 120 s). `tw` has the depth of a large public set of agent trajectories: 36 turns in the median,
deepest prompt 24K. `agents` are alike: 12 turns of 512 tokens and 64 in answer, a second apart, all there from the
start, so that the KV they hold together only grows. The others each show one thing.
"""

import math
import random
from dataclasses import dataclass, replace

from ballast_vamp.replay.errors import BadInputError
from ballast_vamp.replay.trace import Turn

_P90, _P95 = 1.2816, 1.6449  # standard deviations above the median of a normal distribution


@dataclass(frozen=True)
class Lognormal:
    """A positive random number by its median and its p90, never below `least` nor above `most`."""

    median: float
    p90: float
    least: float
    most: float

    def draw(self, rng: random.Random) -> float:
        sigma = math.log(self.p90 / self.median) / _P90
        return min(max(rng.lognormvariate(math.log(self.median), sigma), self.least), self.most)


@dataclass(frozen=True)
class Uniform:
    """A random number between two, each as likely as any other."""

    least: float
    most: float

    def draw(self, rng: random.Random) -> float:
        return rng.uniform(self.least, self.most)


def _p95(median: float, p95: float, least: float, most: float) -> Lognormal:
    return Lognormal(median, median * (p95 / median) ** (_P90 / _P95), least, most)


_GAP = _p95(1.5, 15, 0.05, 41.3)


@dataclass(frozen=True)
class Preset:
    """Conversations of one kind. rate: sessions a second on average, by phases of (seconds, times the rate), the last
    of which goes on; human: share of gaps in which a person reads and thinks; total: turns of all sessions together, if
    they have to be a certain number."""

    sessions: int
    rate: float
    turns: Lognormal = Lognormal(19, 36, 3, 50)
    first: Lognormal = Lognormal(3200, 4500, 1500, 12_000)
    append: Lognormal = Lognormal(350, 2500, 16, 16_000)
    output: Lognormal = Lognormal(110, 700, 16, 11_400)
    gap: Lognormal | Uniform = _GAP
    human: float = 0.05
    longest: int = 66_000
    phases: tuple[tuple[float, float], ...] = ((math.inf, 1.0),)
    shared: int = 0
    giant: int = 0
    total: int | None = None


PRESETS = {
    "swe110": Preset(110, 0.5, total=2103),
    "agents": Preset(
        24,
        12,
        turns=Lognormal(12, 12, 12, 12),
        first=Lognormal(1536, 1536, 1536, 1536),
        append=Lognormal(512, 512, 512, 512),
        output=Lognormal(64, 64, 64, 64),
        gap=Uniform(0.5, 1.5),
        human=0,
    ),
    "tw": Preset(
        60,
        0.25,
        turns=_p95(36, 87, 3, 120),
        append=Lognormal(230, 1400, 16, 12_000),
        output=Lognormal(90, 500, 16, 8_000),
        longest=90_000,
    ),
    # Half a minute of little, a minute of three times the rate, then little again: what is given up must come back.
    "burst": Preset(72, 0.5, turns=Lognormal(6, 10, 3, 12), phases=((30, 0.4), (60, 3.0), (math.inf, 0.4))),
    "shared-system": Preset(64, 0.5, turns=Lognormal(10, 18, 3, 24), first=Lognormal(800, 1500, 64, 4000), shared=8192),
    "one-giant": Preset(48, 0.5, turns=Lognormal(8, 14, 3, 20), longest=24_000, giant=100_000),
}


def generate(name: str, seed: int = 0, sessions: int | None = None, scale: float = 1, speed: float = 1) -> list[Turn]:
    """The turns of a preset. scale: of every length in tokens; speed: by which times are divided.

    sessions: instead of the preset's; the turns of `swe110` are then as many in proportion.
    """
    if name not in PRESETS:
        raise BadInputError(f"preset {name} is not one of {', '.join(PRESETS)}")
    if (sessions is not None and sessions < 1) or scale <= 0 or speed <= 0:
        raise BadInputError("sessions, scale and speed of a trace are greater than 0")
    preset, rng = PRESETS[name], random.Random(f"{name} {seed}")
    if sessions is not None:
        total = preset.total and round(preset.total * sessions / preset.sessions)
        preset = replace(preset, sessions=sessions, total=total)
    counts = _counts(preset, rng)
    found: list[Turn] = []
    for number, (count, arrival) in enumerate(zip(counts, _arrivals(preset, rng), strict=True)):
        giant = bool(preset.giant) and number == preset.sessions // 3
        found += _session(preset, rng, number, 1 if giant else count, arrival / speed, giant, scale, speed)
    return found


def _counts(preset: Preset, rng: random.Random) -> list[int]:
    """Turns of each session; to reach a total, sessions get one more or one less in turn, within what is allowed."""
    counts = [round(preset.turns.draw(rng)) for _ in range(preset.sessions)]
    if preset.total is None:
        return counts
    least, most = round(preset.turns.least), round(preset.turns.most)
    at = 0
    while (missing := preset.total - sum(counts)) != 0:
        changed = counts[at % len(counts)] + (1 if missing > 0 else -1)
        if least <= changed <= most:
            counts[at % len(counts)] = changed
        at += 1
    return counts


def _arrivals(preset: Preset, rng: random.Random) -> list[float]:
    """Times of a Poisson process whose rate changes by phases: what one phase has left, the next one gets."""
    found, now = [], 0.0
    for _ in range(preset.sessions):
        left, start = rng.expovariate(1.0), 0.0  # in arrivals that are due
        for length, times in preset.phases:
            end = start + length
            if now < end:
                due = (end - now) * preset.rate * times
                if due >= left:
                    now += left / (preset.rate * times)
                    break
                now, left = end, left - due
            start = end
        found.append(now)
    return found


def _session(
    preset: Preset,
    rng: random.Random,
    number: int,
    count: int,
    arrival: float,
    giant: bool,
    scale: float,
    speed: float,
) -> list[Turn]:
    """One conversation. As it nears the longest context, what is left is divided among the turns to come."""
    found: list[Turn] = []
    context = shared = _tokens(preset.shared, scale)
    longest = preset.giant if giant else preset.longest
    for turn in range(count):
        share = max((_tokens(longest, scale) - context) // (count - turn), 2)
        asked = preset.giant if giant else (preset.append if turn else preset.first).draw(rng)
        output = min(_tokens(preset.output.draw(rng), scale), max(share // 3, 1))
        # A giant keeps room for its answer; a first prompt may take more than its even share.
        room = _tokens(longest, scale) - context - output
        append = min(_tokens(asked, scale), max(room // (count - turn), 1) if turn else room - 2 * (count - 1))
        human = rng.random() < preset.human
        gap = rng.uniform(30, 120) if human else preset.gap.draw(rng)
        prefix = context if turn else shared
        seed = rng.getrandbits(48)
        found.append(
            Turn(
                number,
                turn,
                round(arrival, 3),
                round(gap / speed, 3) if turn else 0.0,
                prefix,
                max(append, 1),
                output,
                seed,
            )
        )
        context = found[-1].context_tokens
    return found


def _tokens(count: float, scale: float) -> int:
    return max(1, round(count * scale)) if count else 0
