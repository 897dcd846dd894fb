"""What the appliance knows: the sum of its log.

Each change is one line, and is made by being written: a process that dies between two lines comes back with exactly the
changes whose lines are there. Lines are never rewritten, so the log is evidence: of which blocks were in which memory
at any time, whoever asked for it.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass
class Connection:
    memory: str
    port: str
    serial: str


@dataclass
class BladeState:
    """memories: id to ids of blocks. former: those that are gone. connections: by id. counter: of ids, which are never
    given out twice."""

    memories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    former: dict[str, tuple[str, ...]] = field(default_factory=dict)
    connections: dict[str, Connection] = field(default_factory=dict)
    counter: int = 0

    def apply(self, event: Event) -> None:
        """Take one line of the log in. Refusals and starts are lines too, and change nothing."""
        match event["op"]:
            case "compose":
                self.memories[event["memory"]] = tuple(event["blocks"])
                self.counter += 1
            case "free":
                self.former[event["memory"]] = self.memories.pop(event["memory"], ())
            case "assign":
                self.connections[event["connection"]] = Connection(event["memory"], event["port"], event["serial"])
                self.counter += 1
            case "unassign":
                self.connections.pop(event["connection"], None)
            case "power-cycle":
                self.former |= self.memories
                self.memories.clear()
                self.connections.clear()

    def in_use(self) -> set[str]:
        """Ids of blocks of composed memories."""
        return {block for blocks in self.memories.values() for block in blocks}


class Log:
    """An append-only file of events, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._next = sum(1 for _ in read(path))

    def write(self, event: Event) -> Event:
        """One `write` call for the whole line: it is there or it is not."""
        whole = {"n": self._next, "t": time.time()} | event
        os.write(self._file, (json.dumps(whole) + "\n").encode())
        self._next += 1
        return whole

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> Iterator[Event]:
    """The events of a log so far."""
    if not path.exists():
        return
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
