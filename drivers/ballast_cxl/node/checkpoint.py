"""What was prepared on this node, on disk: the plugin's only memory between two calls.

Two plugins run side by side during a rolling update, and kubelet may call either, so every call takes the lock, reads
the file, changes it and writes it back. A claim is written down before anything is asked for in its name, and crossed
out after its device files are gone; whoever dies in between finds the claim here and goes on.
A file that cannot be read is never taken for an empty one: that would detach what pods use.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ballast_cxl.cdi.edits import Share
from ballast_cxl.host import Slot

VERSION = 1


class CheckpointError(Exception):
    """The file is damaged, or written by a newer version."""


@dataclass(frozen=True)
class Region:
    """The region that a device stands for."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class Use:
    """One region in one claim. share: what containers see; slot: where the fabric put it, once it has."""

    request: str
    pool: str
    device: str
    share_id: str | None
    region: Region
    share: Share
    slot: Slot | None = None


@dataclass(frozen=True)
class Entry:
    """One claim. prepared: kubelet has been told that its devices are there."""

    uid: str
    namespace: str
    name: str
    uses: tuple[Use, ...]
    prepared: bool = False


Entries = dict[str, Entry]


def users_of(entries: Entries, region_uid: str) -> list[Entry]:
    """The claims of this node that use a region, prepared or about to be."""
    return [entry for entry in entries.values() if any(use.region.uid == region_uid for use in entry.uses)]


class Checkpoint:
    """The file in the plugin's folder, and the lock beside it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "checkpoint.json"
        self._lock = folder / "lock"

    def read(self) -> Entries:
        """Entries by claim uid; none if nothing was ever prepared here. Raises CheckpointError."""
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return {}
        return parse(text, str(self._file))

    @contextmanager
    def change(self) -> Iterator[Entries]:
        """Entries to change in place, alone on this node; stored when the block ends without an error.

        The block must not wait for anything: the other plugin, and kubelet behind it, stand still meanwhile.
        """
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            entries = dict(before)
            yield entries
            if entries != before:
                self._write(render(entries))

    def _write(self, text: str) -> None:
        scratch = self._file.with_suffix(".new")
        with scratch.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(self._file)
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def render(entries: Entries) -> str:
    """The file's text."""
    data = {uid: asdict(entry) for uid, entry in sorted(entries.items())}
    return json.dumps({"version": VERSION, "checksum": _checksum(data), "claims": data}, indent=1) + "\n"


def parse(text: str, name: str = "the checkpoint") -> Entries:
    """The entries of a file's text. Raises CheckpointError for anything but what `render` wrote."""
    way_out = "drain the node, remove the file, and start the plugin again"
    try:
        found = json.loads(text)
        version, checksum, data = found["version"], found["checksum"], found["claims"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{name} is damaged ({error!r}); {way_out}") from error
    if version != VERSION:
        raise CheckpointError(
            f"{name} has version {version}, this plugin knows {VERSION}; use the plugin that wrote it"
        )
    if checksum != _checksum(data):
        raise CheckpointError(f"{name} is damaged: its checksum does not fit; {way_out}")
    return {uid: _entry(entry) for uid, entry in data.items()}


def with_slot(entry: Entry, region_uid: str, slot: Slot) -> Entry:
    """The entry with the place of one region noted."""
    uses = tuple(replace(use, slot=slot) if use.region.uid == region_uid else use for use in entry.uses)
    return replace(entry, uses=uses)


def _checksum(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _entry(data: dict[str, Any]) -> Entry:
    return Entry(**(data | {"uses": tuple(_use(use) for use in data["uses"])}))


def _use(data: dict[str, Any]) -> Use:
    slot = data["slot"]
    parts = {"region": Region(**data["region"]), "share": Share(**data["share"])}
    return Use(**(data | parts | {"slot": Slot(**slot) if slot else None}))
