"""A result as pictures: how long users waited, how fast tokens came, and what memory held over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ballast_vamp.replay.errors import BadInputError

GIB = 1 << 30


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write ttft.png, tpot.png and memory.png; returns their paths. Raises BadInputError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInputError("plots need matplotlib; pip install 'ballast[plot]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    arms = result["arms"]
    pressure = f", pressure {result['pressure']:.2g}" if result["pressure"] else ""  # of a live server nobody knows it
    title = f"{result['trace']['name']}{pressure}, {result['hardware']}"
    found = []
    for name, words in (("ttft", "time to the first token, s"), ("tpot", "time between tokens, s")):
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for arm, each in arms.items():
            if each[f"{name}_quantiles"]:
                axes.plot(each[f"{name}_quantiles"], range(101), label=arm)
        axes.set(title=title, xlabel=words, ylabel="percent of turns", xscale="log", ylim=(0, 100))
        axes.grid(visible=True, which="both", alpha=0.25)
        if axes.lines:
            axes.legend()
        found.append(folder / f"{name}.png")
        figure.savefig(found[-1], dpi=150)
    figure = Figure(figsize=(8, 8), layout="constrained")
    _memory(figure, arms, title)
    found.append(folder / "memory.png")
    figure.savefig(found[-1], dpi=150)
    return found


def _memory(figure: Any, arms: Mapping[str, Any], title: str) -> None:
    """Three panels over the same time: KV in use and requests waiting for every arm, bytes for those with VAMP."""
    usage, waiting, held = figure.subplots(3, 1, sharex=True)
    for arm, each in arms.items():
        series = each["series"]
        for axes, column in ((usage, "kv_usage"), (waiting, "waiting")):
            if column in series:
                axes.plot(series["t"], _numbers(series[column]), label=arm)
        for column, style in (("kv_bytes_physical", "-"), ("expert_bytes_host", "--")):
            if column in series:
                in_gib = [value / GIB for value in _numbers(series[column])]
                held.plot(series["t"], in_gib, style, label=f"{arm}: {column.replace('_', ' ')}")
    usage.set(title=title, ylabel="KV in use, share", ylim=(0, 1.05))
    waiting.set(ylabel="requests waiting")
    held.set(xlabel="seconds", ylabel="GiB")
    for axes in (usage, waiting, held):
        axes.grid(visible=True, alpha=0.25)
        if axes.lines:
            axes.legend()


def _numbers(column: list[float | None]) -> list[float]:
    """Gaps in the picture where a sample was missed."""
    return [float("nan") if value is None else value for value in column]
