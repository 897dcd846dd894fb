"""Which experts are read: routed tokens counted per expert, decode and prefill apart, faded with two half-lives.

For expert e of a layer, p_e is the chance that a token is routed to it. Of a step of T tokens an expert on the host is
read once with chance 1 - (1 - p_e)^T, so a step reads W(T) = sum_e bytes_e (1 - (1 - p_e)^T) cold bytes.
The short half-life decides, once it has seen enough. What came before counts beside it for as many tokens as it is
worth: the further what was seen lies from what it foretold, measured by how far counts differ from one another anyway,
the less. So a lull makes nothing cold, a change of traffic is believed when it is seen, and that each prompt has its
own experts is no change.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ballast_vamp.geometry import Unit

HALF_LIVES = (10.0, 300.0)  # seconds of routing, not of wall clock: an idle engine forgets nothing
PRIOR_LEAST, PRIOR_MOST = 200.0, 4000.0  # tokens that the long half-life may count as
SURPRISE = 2.0  # times what counts differ by anyway: further off, and what was counted before is of other traffic
CALM = 0.2  # weight of the newest counts in what they differ by
LEARNED = 4.0  # picks an average expert must have had before coldness means anything
Array = NDArray[np.float64]


class Phase(IntEnum):
    """What a step was made of: new tokens of running requests alone, or prompts too."""

    DECODE = 0
    PREFILL = 1


class Hotness:
    """Faded counts of one rank. picks: (half-lives, phases, layers, experts); tokens: (half-lives, phases)."""

    def __init__(self, layers: int, experts: int) -> None:
        self.picks: Array = np.zeros((len(HALF_LIVES), len(Phase), layers, experts))
        self.tokens: Array = np.zeros((len(HALF_LIVES), len(Phase)))
        self._noise = [_Noise() for _ in Phase]

    def add(self, picks: NDArray[np.int64], tokens: Sequence[int], seconds: float) -> None:
        """Count what was routed in the last `seconds`. picks: (phases, layers, experts)."""
        fade = np.exp2(-seconds / np.array(HALF_LIVES))
        self.picks *= fade[:, None, None, None]
        self.tokens *= fade[:, None]
        for phase in Phase:
            if tokens[phase]:
                kept = self._kept(phase, picks[phase] / tokens[phase], tokens[phase])
                self.picks[0, phase] *= kept
                self.tokens[0, phase] *= kept
        self.picks += picks[None]
        self.tokens += np.asarray(tokens)[None]

    def _kept(self, phase: Phase, shares: Array, tokens: float) -> float:
        """Part of what the short half-life counted that is worth keeping, now that `tokens` more were routed so."""
        noise, counted = self._noise[phase], float(self.tokens[0, phase])
        if counted < 1:
            noise.add(shares, tokens)
            return 1.0
        before = self.picks[0, phase] / counted
        usual = noise.of(before)
        off, expected = float(np.square(shares - before).sum()), usual / tokens + usual / counted
        noise.add(shares, tokens)
        if off <= SURPRISE * expected:
            return 1.0
        return worth(usual, usual / counted + off - expected) / counted

    def learned(self) -> bool:
        """Whether enough was seen for coldness to mean anything."""
        return bool(self.picks[-1].sum() >= LEARNED * self.picks[-1, 0].size)

    def chance(self, phase: Phase) -> Array:
        """p_e, (layers, experts). A phase that was not seen yet is taken to be like the other."""
        if self.tokens[-1, phase] < 1 <= self.tokens[-1, 1 - phase]:
            phase = Phase(1 - phase)
        before, counted = self.picks[1, phase] / max(self.tokens[1, phase], 1.0), float(self.tokens[0, phase])
        prior = PRIOR_MOST
        if counted >= 1:
            usual = self._noise[phase].of(before)
            off = float(np.square(self.picks[0, phase] / counted - before).sum()) - usual / counted
            prior = min(max(worth(usual, off), PRIOR_LEAST), PRIOR_MOST)
        chance: Array = np.minimum((self.picks[0, phase] + prior * before) / (counted + prior), 1.0)
        return chance


class _Noise:
    """By how much shares of tokens routed one after the other differ, as the variance that one token's would have.

    Shares of N tokens that are routed independently differ from the truth by p (1 - p) / N, summed over experts; those
    of prompts that each have experts of their own by more.
    """

    def __init__(self) -> None:
        self._last: tuple[Array, float] | None = None
        self._usual = 0.0

    def add(self, shares: Array, tokens: float) -> None:
        """Compare with what came before. A change of traffic is seen once, and counts for little."""
        usual = self.of(shares)
        if self._last is not None:
            found = float(np.square(shares - self._last[0]).sum()) / (1 / tokens + 1 / self._last[1])
            usual += CALM * (min(found, 2 * SURPRISE * usual) - usual)
        self._last, self._usual = (shares, tokens), usual

    def of(self, shares: Array) -> float:
        """At least what independent tokens would have."""
        return max(self._usual, float((shares * (1 - shares)).clip(0).sum()))


def worth(usual: float, off: float) -> float:
    """Tokens that an estimate is worth whose squared error is `off`, where one token's is `usual`."""
    return usual / off if off > 0 else float("inf")


class Reads:
    """Cold bytes read by a step, unit by unit. hotness counts slots, not logical experts: a unit is a run of slots."""

    def __init__(self, units: Sequence[Unit], layers: int, experts: int) -> None:
        """Units cover each slot at most once; slots that none covers are never read from the host."""
        self._unit_of = np.full((layers, experts), len(units))
        self._bytes = np.zeros((layers, experts))
        for unit in units:
            slots = slice(unit.first, unit.first + unit.count)
            self._unit_of[unit.layer, slots] = unit.id
            self._bytes[unit.layer, slots] = unit.bytes / unit.count
        self._count = len(units)
        self._sizes = np.array([unit.bytes for unit in units], dtype=np.float64)

    def by_unit(self, chance: Array, tokens: float) -> Array:
        """Expected bytes that a step of `tokens` reads of each unit, were it on the host. (units,)"""
        with np.errstate(divide="ignore"):
            hit = -np.expm1(tokens * np.log1p(-chance))
        read = np.bincount(self._unit_of.ravel(), (self._bytes * hit).ravel(), self._count + 1)
        return read[: self._count].astype(np.float64)

    def busy_share(self, picks: Array, part: float) -> float:
        """Share of all picks, (layers, experts), on the coldest `part` of the bytes; `part` if all are alike."""
        loads = np.bincount(self._unit_of.ravel(), picks.ravel(), self._count + 1)[: self._count]
        order = np.argsort(loads / self._sizes, kind="stable")
        taken = np.cumsum(self._sizes[order]) <= part * self._sizes.sum()
        return float(loads[order][taken].sum() / max(float(picks.sum()), 1.0))


def save(path: Path, model: str, order: NDArray[np.int64], hotness: Hotness) -> None:
    """Write a profile by rename. order: (layers, experts), the logical expert in each slot; under 1 MiB as text."""
    picks = hotness.picks[-1].sum(axis=0)
    logical = np.zeros_like(picks)
    np.put_along_axis(logical, order, picks, axis=1)
    share = (logical / max(float(logical.sum()), 1.0)).astype(np.float32)
    text = {
        "model": model,
        "layers": picks.shape[0],
        "experts": picks.shape[1],
        "tokens": int(hotness.tokens[-1].sum()),
        "share": base64.b64encode(share.tobytes()).decode(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(text))
    new.replace(path)


def load(path: Path, layers: int, experts: int) -> Array | None:
    """Share of all picks of each logical expert, (layers, experts); None where there is no profile of this shape."""
    try:
        text = json.loads(path.read_text())
        if (text["layers"], text["experts"]) != (layers, experts):
            return None
        share = np.frombuffer(base64.b64decode(text["share"]), dtype=np.float32)
        return share.reshape(layers, experts).astype(np.float64)
    except (OSError, ValueError, KeyError, TypeError):
        return None
