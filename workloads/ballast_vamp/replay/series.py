"""All runs of all arms, one after another or one on each GPU, and what is known of them."""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import queue
import shlex
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from ballast_vamp.replay import report, trace
from ballast_vamp.replay.errors import ReplayError

Outcome = dict[str, Any]
# An arm, the number of a round, a GPU: its outcomes as they come, None while there is nothing new.
Run = Callable[[str, int, str | None], Generator[Outcome | None]]
Gpus = queue.SimpleQueue[str | None]


@dataclass
class Series:
    """The runs of all arms. broken: why an arm has no further runs. gpus: each has one run at a time."""

    options: argparse.Namespace
    turns: Sequence[trace.Turn]
    runs: dict[str, list[Outcome]]
    pressure: float | None = None
    broken: dict[str, str] = field(default_factory=dict)
    gpus: Sequence[str | None] = (None,)

    def __post_init__(self) -> None:
        self._storing, self._enough = threading.Lock(), threading.Event()

    def play(self, run: Run, rounds: int) -> dict[str, Any]:
        """Arms take turns, so that a busy neighbour slows all of them alike. What is known is stored after each run:
        an arm that fails, or an interruption, takes nothing with it. Raises ReplayError if no arm has a run."""
        free: Gpus = queue.SimpleQueue()
        for gpu in self.gpus:
            free.put(gpu)
        with ThreadPoolExecutor(len(self.gpus)) as pool:
            try:
                for number in range(rounds):
                    names = [name for name in self.runs if name not in self.broken]
                    turn = number % max(1, len(names)) if len(self.gpus) > 1 else 0  # an arm does not keep its GPU
                    at_once = [pool.submit(self._one, run, n, number, free) for n in names[turn:] + names[:turn]]
                    for done in as_completed(at_once):
                        done.result()
            except KeyboardInterrupt:
                self.broken["the bench"] = "the bench was interrupted: arms have fewer runs than were asked for"
            finally:
                self._enough.set()  # whatever ended it, no engine goes on
        if not any(self.runs.values()):
            raise ReplayError(f"no arm came to an end: {'; '.join(self.broken.values())}")
        self._store()
        return self.result()

    def _one(self, run: Run, name: str, number: int, free: Gpus) -> None:
        gpu = free.get()
        try:
            if self._enough.is_set():
                return
            with closing(run(name, number, gpu)) as outcomes:
                for found in itertools.takewhile(lambda _: not self._enough.is_set(), outcomes):
                    if found is not None:
                        self._keep(name, found)
        except ReplayError as error:
            print(error, file=sys.stderr, flush=True)
            self.broken[name] = str(error).splitlines()[0]
        finally:
            free.put(gpu)

    def _keep(self, name: str, found: Outcome) -> None:
        with self._storing:
            self.runs[name].append(found)
            _tell(name, len(self.runs[name]), found)
            self._store()

    def _store(self) -> None:
        if self.options.json:
            self.options.json.write_text(json.dumps(self.result(), indent=1) + "\n")

    def result(self) -> dict[str, Any]:
        """Everything there is to say so far."""
        runs = {name: several for name, several in self.runs.items() if several}
        first, options, summary = next(iter(runs.values()))[0], self.options, report.summary(runs)
        return {
            "command": shlex.join(["python", "-m", "ballast_vamp", *sys.argv[1:]]),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "hardware": first.get("hardware", ", ".join(options.url)),
            "versions": first.get("versions", {}),
            "trace": {
                "name": options.preset or options.trace.name,
                "sessions": len(trace.sessions(self.turns)),
                "turns": len(self.turns),
                "demand_tokens": trace.demand(self.turns),
                "largest_context": trace.largest_context(self.turns),
            },
            "pressure": self.pressure,
            "profile": options.profile,
            "faults": [*self.broken.values(), *report.faults(runs)],
            "ratios": report.ratios(summary),
            "arms": summary,
        }


def _tell(name: str, number: int, run: Mapping[str, Any]) -> None:
    p90 = "-" if run["ttft_p90"] is None else f"{run['ttft_p90']:.3f} s"
    print(f"run {number}, {name}: {run['seconds']:.1f} s, TTFT p90 {p90}", file=sys.stderr, flush=True)
