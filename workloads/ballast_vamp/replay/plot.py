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
        from matplotlib import ticker
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInputError("plots need matplotlib; pip install 'ballast[plot]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    arms = result["arms"]
    pressure = f", pressure {result['pressure']:.2g}" if result["pressure"] else ""  # of a live server nobody knows it
    title = f"{result['trace']['name']}{pressure}, {result['hardware']}"
    found = []
    for name, words, factor in (("ttft", "time to the first token, s", 1), ("tpot", "time between tokens, ms", 1000)):
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for arm, each in arms.items():
            if each[f"{name}_quantiles"]:
                axes.plot([factor * value for value in each[f"{name}_quantiles"]], range(101), label=arm)
        axes.set(title=title, xlabel=words, ylabel="percent of turns", xscale="log", ylim=(0, 100))
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.grid(visible=True, which="major", alpha=0.25)
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
    """Panels over the same time: KV in use and requests waiting of every arm, and bytes of those with VAMP."""
    panels = {"kv_usage": "KV in use, share", "waiting": "requests waiting"}
    held = {"kv_bytes_physical": "KV with memory, GiB", "expert_bytes_host": "experts on the host, GiB"}
    shown = panels | {c: words for c, words in held.items() if any(c in each["series"] for each in arms.values())}
    several = figure.subplots(len(shown), 1, sharex=True)
    for axes, (column, words) in zip(several, shown.items(), strict=True):
        for number, (arm, each) in enumerate(arms.items()):  # an arm has one colour in all panels
            if column in each["series"]:
                scale = GIB if column in held else 1
                values = [value / scale for value in _numbers(each["series"][column])]
                axes.plot(each["series"]["t"], values, color=f"C{number}", label=arm)
        axes.set(ylabel=words, ylim=(0, None))
        axes.grid(visible=True, alpha=0.25)
        if axes.lines:
            axes.legend()
    several[0].set(title=title)
    several[-1].set(xlabel="seconds")


def _numbers(column: list[float | None]) -> list[float]:
    """Gaps in the picture where a sample was missed."""
    return [float("nan") if value is None else value for value in column]
