"""The API server's audit log: who asked what, and what the answer was."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True)
class Audit:
    """One log file. Requests are read from a position, so that a test sees only its own time."""

    path: Path

    def now(self) -> int:
        """A position to read from later."""
        return self.path.stat().st_size

    def since(self, position: int) -> Iterator[dict[str, Any]]:
        """Requests that were answered since then; a watch counts from its start, since it may never end."""
        with self.path.open() as file:
            assert file.seek(0, os.SEEK_END) >= position, f"{self.path} was begun anew meanwhile; run the test again"
            file.seek(position)
            for line in file:
                if not line.endswith("\n"):
                    return
                entry: dict[str, Any] = json.loads(line)
                if entry["stage"] == "ResponseComplete" or (
                    entry["verb"] == "watch" and entry["stage"] == "ResponseStarted"
                ):
                    yield entry

    def by(self, user: str, position: int) -> list[dict[str, Any]]:
        """Requests of one user, or of all whose name begins so."""
        return [entry for entry in self.since(position) if entry["user"]["username"].startswith(user)]


def writes(entries: list[dict[str, Any]], *, leases: bool = False) -> list[str]:
    """Writes among requests, as `patch jobs team-a/leduc-solve`; Leases only on demand."""
    return [
        f"{entry['verb']} {name(entry)}"
        for entry in entries
        if entry["verb"] in WRITES
        and entry["responseStatus"]["code"] < 400
        and (leases or entry["objectRef"]["resource"] != "leases")
        and "dryRun" not in entry["requestURI"]
    ]


def forbidden(entries: list[dict[str, Any]]) -> list[str]:
    """Requests that were refused for want of a right."""
    return [f"{e['verb']} {name(e)}" for e in entries if e["responseStatus"]["code"] == 403]


def name(entry: dict[str, Any]) -> str:
    """`jobs team-a/leduc-solve` or `cfrsolves/status team-a/leduc`."""
    ref = entry.get("objectRef", {})
    resource = ref.get("resource", entry["requestURI"])
    if ref.get("subresource"):
        resource += f"/{ref['subresource']}"
    return f"{resource} {ref.get('namespace', '')}/{ref.get('name', '')}"
