"""Bytes of blocks: where they are while no region has them, and how they come and go with regions.

A region's file is its blocks end to end. Files are sparse: what was never written, or is zero, takes no memory, so a
blade of many TiB can be emulated on a small machine.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20


@dataclass(frozen=True)
class Bytes:
    """root: folder of the appliance. size: bytes of one block."""

    root: Path
    size: int

    def region(self, memory: str) -> Path:
        return self.root / "regions" / memory

    def out(self, memory: str, blocks: Sequence[str]) -> None:
        """Make the file of a region, with what is in its blocks."""
        file = self.region(memory)
        if file.exists():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        with new.open("wb") as target:
            target.truncate(self.size * len(blocks))
            for index, block in enumerate(blocks):
                if (kept := self._kept(block)).exists():
                    with kept.open("rb") as source:
                        copy(source.fileno(), 0, target.fileno(), index * self.size, self.size)
        new.chmod(0o666)  # as a device that any user of the pod may open
        new.rename(file)

    def back(self, memory: str, blocks: Sequence[str]) -> None:
        """Keep what a region's blocks hold, and remove its file."""
        file = self.region(memory)
        if not file.exists():
            return
        with file.open("rb") as source:
            for index, block in enumerate(blocks):
                kept = self._kept(block)
                kept.parent.mkdir(parents=True, exist_ok=True)
                with kept.open("wb") as target:
                    wrote = copy(source.fileno(), index * self.size, target.fileno(), 0, self.size)
                if not wrote:
                    kept.unlink()
        file.unlink()

    def _kept(self, block: str) -> Path:
        return self.root / "blocks" / block


def copy(source: int, at: int, target: int, to: int, count: int) -> int:
    """Copy the bytes that are not zero; how many chunks that were."""
    chunks = 0
    for start, end in written(source, at, at + count):
        for place in range(start, end, CHUNK):
            data = os.pread(source, min(CHUNK, end - place), place)
            if data.count(0) != len(data):
                os.pwrite(target, data, to + place - at)
                chunks += 1
    return chunks


def written(file: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of a file that are no holes."""
    place = start
    while place < end:
        try:
            begin = os.lseek(file, place, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        if begin >= end:
            return
        place = min(end, os.lseek(file, begin, os.SEEK_HOLE))
        yield begin, place
