"""Arms beside each other: medians over runs, ratios, and whether they may be compared at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ballast_vamp.replay.outcome import middle

Runs = Mapping[str, Sequence[dict[str, Any]]]

# name, heading, unit's factor, digits; and what a ratio against a baseline means: True where less is better
COLUMNS: Sequence[tuple[str, str, float, int]] = (
    ("ttft_p50", "TTFT p50 s", 1, 3),
    ("ttft_p90", "p90 s", 1, 3),
    ("ttft_p99", "p99 s", 1, 3),
    ("ttft_later_p50", "later turns p50 s", 1, 3),
    ("ttft_later_p90", "p90 s", 1, 3),
    ("tpot_p50", "TPOT p50 ms", 1000, 1),
    ("tpot_p90", "p90 ms", 1000, 1),
    ("tokens_per_second", "out tok/s", 1, 1),
    ("delay_seconds", "all delay s", 1, 0),
    ("prefix_hit_share", "prefix hits", 1, 3),
    ("preemptions", "preempted", 1, 0),
)
LESS_IS_BETTER = (
    "ttft_p50",
    "ttft_p90",
    "ttft_p99",
    "ttft_later_p50",
    "ttft_later_p90",
    "tpot_p50",
    "tpot_p90",
    "delay_seconds",
)
FIXED = ("plain", "kv-offload", "always-offload")  # policies: evict and preempt, fetch, offload
BASELINES = ("plain", "kv-offload", "ideal")


def faults(runs: Runs) -> list[str]:
    """Why the arms cannot be compared; nothing if they can. One sentence each."""
    found = []
    for arm, several in runs.items():
        for number, run in enumerate(several, 1):
            if run["missing"]:
                said = "; ".join(run["failures"])
                found.append(f"arm {arm}, run {number}: {run['missing']} turns have no whole answer: {said}")
    forced = {arm: {bool(run["forced"]) for run in several} for arm, several in runs.items()}
    if len(set[bool]().union(*forced.values())) > 1:
        words = ", ".join(f"{arm} {sorted(answers)}" for arm, answers in forced.items())
        found.append(f"some engines say the recorded answers and some do not ({words}); start all of them alike")
    return found


def summary(runs: Runs) -> dict[str, Any]:
    """For each arm its runs (without what fills pages), their medians, and the time series of the middle run."""
    found: dict[str, Any] = {}
    for arm, several in runs.items():
        bulky = ("series", "ttft_quantiles", "tpot_quantiles", "hardware", "versions")
        ordered = sorted(several, key=lambda run: run["ttft_p90"] or 0.0)
        shown = ordered[(len(ordered) - 1) // 2]
        found[arm] = {
            "runs": [{name: value for name, value in run.items() if name not in bulky} for run in several],
            "median": middle(several),
            "ttft_quantiles": shown["ttft_quantiles"],
            "tpot_quantiles": shown["tpot_quantiles"],
            "series": shown["series"],
        }
    return found


def ratios(arms: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """How many times better each arm is than each baseline: above 1 is better, for times and for throughput alike."""
    found: dict[str, dict[str, float]] = {}
    for baseline in BASELINES:
        for arm in arms:
            if baseline in arms and arm != baseline:
                ours, theirs = arms[arm]["median"], arms[baseline]["median"]
                found[f"{arm} against {baseline}"] = _ratio(ours, theirs)
    return found


def _ratio(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    names = [*LESS_IS_BETTER, "tokens_per_second"]
    both = [name for name in names if ours.get(name) and theirs.get(name)]
    return {
        name: round(theirs[name] / ours[name] if name in LESS_IS_BETTER else ours[name] / theirs[name], 4)
        for name in both
    }


def table(result: Mapping[str, Any]) -> str:
    """The arms and their ratios as text."""
    arms = result["arms"]
    rows = [["arm", *(heading for _, heading, _, _ in COLUMNS)]]
    for arm, found in arms.items():
        median = found["median"]
        cells = [
            f"{median[name] * factor:.{digits}f}" if name in median else "-" for name, _, factor, digits in COLUMNS
        ]
        rows.append([arm, *cells])
    lines = _aligned(rows)
    if result["ratios"]:
        names = [*LESS_IS_BETTER, "tokens_per_second"]
        better = [["times better", *(name.replace("_", " ") for name in names)]]
        better += [[pair, *(f"{r[n]:.2f}" if n in r else "-" for n in names)] for pair, r in result["ratios"].items()]
        lines += ["", *_aligned(better)]
    lines += _quality(arms)
    lines += [f"{arm}: VAMP is off: {said}" for arm, said in _disabled(arms).items()]
    return "\n".join(lines)


def _quality(arms: Mapping[str, Any]) -> list[str]:
    """Seconds that all turns took, VAMP's over those of the best policy that decides nothing."""
    delays = {arm: found["median"].get("delay_seconds") for arm, found in arms.items()}
    fixed = {arm: delay for arm in FIXED if (delay := delays.get(arm)) is not None}
    if delays.get("vamp") is None or not fixed:
        return []
    best = min(fixed, key=lambda arm: fixed[arm])
    return ["", f"delay of vamp over the best fixed policy, {best}: {delays['vamp'] / fixed[best]:.3f}"]


def _disabled(arms: Mapping[str, Any]) -> dict[str, str]:
    found = {arm: [run["vamp_disabled"] for run in each["runs"] if run["vamp_disabled"]] for arm, each in arms.items()}
    return {arm: said[-1] for arm, said in found.items() if said}


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
