"""The progress bar of `solve`: one line that rewrites itself on a terminal, a line every ten seconds elsewhere."""

import math
import shutil
import sys
import time
from typing import TextIO

from ballast_cfr.solve.monitor import Monitor, Snapshot
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver

_BAR = 20


class Bar:
    """Shows how far a solve is, on standard error."""

    def __init__(self, stop: Stop, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.stop = stop
        self.stream = stream or sys.stderr
        self.quiet = quiet
        self.terminal = self.stream.isatty()
        self.monitor = Monitor(stop)
        self.worst: float | None = None  # the first exploitability seen, or a larger one
        self.shown_at = time.monotonic()

    def show(self, solver: Solver) -> None:
        """Note where the solver is; draw, if it is time to."""
        seen = self.monitor.see(solver)
        if seen.look is not None:
            self.worst = max(self.worst or 0.0, seen.look.evaluation.exploitability)
        if self.quiet or time.monotonic() - self.shown_at < (0.1 if self.terminal else 10.0):
            return
        self.shown_at = time.monotonic()
        self.draw(seen)

    def draw(self, seen: Snapshot) -> None:
        """One line."""
        line = self.line(seen)
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r" + line[:width].ljust(width))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def line(self, seen: Snapshot) -> str:
        """Bar, iteration, rate, exploitability and time to go."""
        done = self.fraction(seen)
        filled = round(_BAR * done)
        exploitability = f"{seen.look.evaluation.exploitability:.3e}" if seen.look else "-"
        rate = f"{seen.rate:,.0f}" if seen.rate else "-"
        eta = "-" if seen.eta is None else _clock(seen.eta)
        return (
            f"[{'#' * filled}{'.' * (_BAR - filled)}] {100 * done:3.0f}% iteration {seen.iteration:,} "
            f"({rate}/s) exploitability {exploitability} eta {eta}"
        )

    def fraction(self, seen: Snapshot) -> float:
        """How much is done, by the stop rule that is nearest to being met; a target counts on a logarithmic scale."""
        parts = [0.0]
        if self.stop.iterations:
            parts.append(seen.iteration / self.stop.iterations)
        if self.stop.seconds:
            parts.append(seen.seconds / self.stop.seconds)
        target = self.stop.exploitability
        if target and self.worst is not None and seen.look is not None:
            now = seen.look.evaluation.exploitability
            done = now <= target or self.worst <= target
            parts.append(1.0 if done else math.log(self.worst / now) / math.log(self.worst / target))
        return min(1.0, max(parts))

    def close(self) -> None:
        """Leave the line."""
        if self.terminal and not self.quiet:
            self.stream.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            self.stream.flush()


def _clock(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
