"""The two passes of a scrub. It may die anywhere and begin anew: only a whole second pass counts as proof."""

from dataclasses import dataclass
from typing import Protocol

from ballast_cxl.host import HostError

WINDOW = 64 << 20
"""Bytes that are mapped at a time."""


class Memory(Protocol):
    """A region's bytes. Offsets and sizes in bytes, within the region and in whole windows, but for the last."""

    @property
    def size(self) -> int: ...

    def zero(self, offset: int, size: int) -> None:
        """Write zeros; they have reached the device when this returns."""

    def first_nonzero(self, offset: int, size: int) -> int | None:
        """Offset of the first byte that is not zero as the device has it, never as a cache remembers it."""


@dataclass(frozen=True)
class Result:
    """bytes: written with zeros; verified: read back as zeros, from the first on; both equal means that it is clean."""

    bytes: int
    verified: int
    message: str = ""


def scrub(memory: Memory) -> Result:
    """Zero the whole region, then read all of it back.

    All writing comes before any reading: what a late write-back of one window brings into another is then seen.
    """
    if memory.size <= 0:
        raise HostError(f"a region of {memory.size} bytes cannot be scrubbed")
    for offset, size in _windows(memory.size):
        memory.zero(offset, size)
    for offset, size in _windows(memory.size):
        at = memory.first_nonzero(offset, size)
        if at is not None:
            return Result(memory.size, at, f"byte {at} of {memory.size} is not zero after the scrub")
    return Result(memory.size, memory.size)


def _windows(total: int) -> list[tuple[int, int]]:
    return [(offset, min(WINDOW, total - offset)) for offset in range(0, total, WINDOW)]
