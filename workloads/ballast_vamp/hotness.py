"""Which experts are read: routed tokens counted per expert, decode and prefill apart, faded with two half-lives.

For expert e of a layer, p_e is the chance that a token is routed to it. Of a step of T tokens an expert on the host is
read once with chance 1 - (1 - p_e)^T, so a step reads W(T) = sum_e bytes_e (1 - (1 - p_e)^T) cold bytes.
The short half-life decides, once it has seen enough: the long one counts as PRIOR_TOKENS tokens beside it, so that a
lull makes nothing cold, and a change of traffic is believed within seconds.
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
PRIOR_TOKENS = 4000.0
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

    def add(self, picks: NDArray[np.int64], tokens: Sequence[int], seconds: float) -> None:
        """Count what was routed in the last `seconds`. picks: (phases, layers, experts)."""
        fade = np.exp2(-seconds / np.array(HALF_LIVES))
        self.picks *= fade[:, None, None, None]
        self.tokens *= fade[:, None]
        self.picks += picks[None]
        self.tokens += np.asarray(tokens)[None]

    def learned(self) -> bool:
        """Whether enough was seen for coldness to mean anything."""
        return bool(self.picks[-1].sum() >= LEARNED * self.picks[-1, 0].size)

    def chance(self, phase: Phase) -> Array:
        """p_e, (layers, experts). A phase that was not seen yet is taken to be like the other."""
        if self.tokens[-1, phase] < 1 <= self.tokens[-1, 1 - phase]:
            phase = Phase(1 - phase)
        before = self.picks[1, phase] / max(self.tokens[1, phase], 1.0)
        seen = self.picks[0, phase] + PRIOR_TOKENS * before
        chance: Array = np.minimum(seen / (self.tokens[0, phase] + PRIOR_TOKENS), 1.0)
        return chance


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
