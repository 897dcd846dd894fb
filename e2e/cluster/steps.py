"""Progress of a long command: each step on a line of its own, with the time it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

WIDTH = 58
QUIET_SECONDS = 30.0  # without a terminal, a running step says how far it is this often


class Step:
    """One running step. `note` tells how far it is; `done` replaces the word at the end of its line."""

    def __init__(self, what: str, out: TextIO) -> None:
        self.what, self.out = what, out
        self.began = self.spoke = time.monotonic()
        self.result = ""
        self.live = out.isatty()
        if self.live:
            self._write(f"\r  {what} ...")

    def note(self, text: str) -> None:
        """Say how far the step is: in place on a terminal, now and then on a line elsewhere."""
        now = time.monotonic()
        if self.live and now - self.spoke > 0.2:
            self.spoke = now
            self._write(f"\r\033[K  {self.what} ... {text}")
        elif not self.live and now - self.spoke > QUIET_SECONDS:
            self.spoke = now
            self._write(f"  {self.what} ... {text}\n")

    def end(self, failed: bool) -> None:
        seconds = time.monotonic() - self.began
        word = "FAILED" if failed else self.result
        self._write(("\r\033[K" if self.live else "") + f"{'✗' if failed else '✓'} {self.what:<{WIDTH}} ")
        self._write(f"{seconds:7.1f} s{'  ' + word if word else ''}\n")

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


class Steps:
    """Prints steps to `out` (standard error by default, so that a command's answer on standard output stays clean)."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stderr
        self.began = time.monotonic()

    @contextmanager
    def step(self, what: str) -> Iterator[Step]:
        """Time what happens inside; an exception marks the step as failed and goes on."""
        step = Step(what, self.out)
        try:
            yield step
        except BaseException:
            step.end(failed=True)
            raise
        step.end(failed=False)

    def say(self, text: str) -> None:
        self.out.write(text + "\n")
        self.out.flush()

    def seconds(self) -> float:
        """Time since the first step could have begun."""
        return time.monotonic() - self.began
