"""One run as numbers: what a user waits for, what an engine gets done, and what it had to do again."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from ballast_vamp.replay import readings
from ballast_vamp.replay.drive import Played
from ballast_vamp.replay.trace import Turn

LATER = 2  # turns from the third on: what came before them is still to be found, or has to be computed again
LEVELS = tuple(range(101))  # percents of the stored distributions


def quantile(values: Sequence[float], level: float) -> float:
    """The smallest value that at least this share of the values does not exceed; 0 <= level <= 1."""
    ordered = sorted(values)
    return ordered[max(math.ceil(level * len(ordered)) - 1, 0)]


def outcome(played: Played, turns: Sequence[Turn]) -> dict[str, Any]:
    """Numbers of a run. Times in seconds; None where nothing was measured."""
    ttft = [said.ttft for said in played.turns]
    later = [said.ttft for said in played.turns if said.turn >= LATER]
    tpot = [said.tpot for said in played.turns if said.tpot is not None]
    counts = readings.counted(played.samples)
    tokens = sum(said.tokens for said in played.turns)
    return {
        "turns": len(played.turns),
        "missing": len(turns) - len(played.turns),
        "failures": played.failures[:5],
        "forced": all(said.forced for said in played.turns),
        "seconds": played.seconds,
        "ttft_p50": quantile(ttft, 0.5) if ttft else None,
        "ttft_p90": quantile(ttft, 0.9) if ttft else None,
        "ttft_p99": quantile(ttft, 0.99) if ttft else None,
        "ttft_later_p50": quantile(later, 0.5) if later else None,
        "ttft_later_p90": quantile(later, 0.9) if later else None,
        "tpot_p50": quantile(tpot, 0.5) if tpot else None,
        "tpot_p90": quantile(tpot, 0.9) if tpot else None,
        "tokens_per_second": tokens / played.seconds if played.seconds else None,
        "delay_seconds": sum(said.end - said.due for said in played.turns) or None,
        "prefix_hit_share": _hits(counts),
        **counts,
        "vamp_disabled": readings.disabled(played.samples),
        "ttft_quantiles": [quantile(ttft, level / 100) for level in LEVELS] if ttft else [],
        "tpot_quantiles": [quantile(tpot, level / 100) for level in LEVELS] if tpot else [],
        "series": readings.series(played.samples),
    }


def _hits(counts: dict[str, float]) -> float | None:
    """Share of prompt tokens that came from a cache, in GPU memory or from a connector's."""
    asked = counts.get("prefix_queries", 0.0)
    return (counts["prefix_hits"] + counts.get("external_hits", 0.0)) / asked if asked else None


def middle(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Median over runs of every number that all of them have."""
    names = [name for name, value in runs[0].items() if isinstance(value, int | float) and not isinstance(value, bool)]
    return {
        name: statistics.median(run[name] for run in runs)
        for name in names
        if all(run[name] is not None for run in runs)
    }
