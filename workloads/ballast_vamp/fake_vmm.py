"""A device's virtual memory without a device: the driver's rules, enforced, and memory that remembers what it holds.

It is what runs on machines without a GPU (every block is then really allocated, and only the bookkeeping moves), and
what tests drive: it knows which handles live, refuses what the driver refuses, and fails where it is told to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ballast_vamp.vmm import VmmError, Where

ZEROS = "zeros"


class Misuse(AssertionError):
    """A call that the driver would refuse or that would harm a running kernel: a defect of the caller."""


@dataclass(eq=False)
class Memory:
    """A handle. holds: what was last written to it, as a whole."""

    size: int
    where: Where
    holds: Any = None
    released: bool = False


def _never(_: str) -> None:
    return None


@dataclass
class FakeVmm:
    """fail(call) may raise VmmError before a call does anything. room: bytes of device memory, None for no limit."""

    granularity: int = 4096
    fail: Callable[[str], None] = _never
    ranges: dict[int, int] = field(default_factory=dict)
    mapped: dict[int, tuple[int, Memory]] = field(default_factory=dict)
    alive: set[Memory] = field(default_factory=set)
    busy: bool = False  # work was started that nobody has waited for
    _next: int = 1 << 40
    _reserved: list[int] = field(default_factory=list)
    _order: list[int] = field(default_factory=list)  # addresses of `mapped`, sorted

    def reserve(self, size: int) -> int:
        self.fail("reserve")
        self._whole(size)
        address, self._next = self._next, self._next + size + self.granularity
        self.ranges[address] = size
        self._reserved.append(address)  # addresses only rise
        return address

    def create(self, size: int, where: Where) -> Memory:
        self.fail("create")
        self._whole(size)
        memory = Memory(size, where)
        self.alive.add(memory)
        return memory

    def release(self, handle: Memory) -> None:
        if handle.released:
            raise Misuse("a handle was released twice")
        handle.released = True
        self.alive.remove(handle)

    def map(self, address: int, size: int, handle: Memory) -> None:
        self.fail("map")
        if handle.released or handle.size != size:
            raise Misuse(f"{size} bytes were mapped from a handle of {handle.size}, released: {handle.released}")
        place = bisect_right(self._reserved, address) - 1
        start = self._reserved[place] if place >= 0 else 0
        if place < 0 or address + size > start + self.ranges[start]:
            raise Misuse(f"address {address:#x} with {size} bytes was never reserved")
        place = bisect_right(self._order, address)
        before = self._order[place - 1] if place else None
        if (before is not None and before + self.mapped[before][0] > address) or (
            place < len(self._order) and self._order[place] < address + size
        ):
            raise Misuse(f"address {address:#x} is mapped already")
        self._order.insert(place, address)
        self.mapped[address] = (size, handle)

    def unmap(self, address: int, size: int) -> None:
        self.fail("unmap")
        if self.mapped.get(address, (0,))[0] != size:
            raise Misuse(f"{size} bytes at {address:#x} were not mapped as a whole")
        if self.busy:
            raise Misuse("a mapping was taken away while the device works")
        del self.mapped[address]
        del self._order[bisect_right(self._order, address) - 1]

    def copy(self, to: int, source: int, size: int) -> None:
        self.fail("copy")
        self._at(to, size).holds = self._at(source, size).holds
        self.busy = True

    def zero(self, address: int, size: int) -> None:
        """Unlike a copy it may cover several mappings, whole ones."""
        self.fail("zero")
        end = address + size
        while address < end:
            size = self.mapped.get(address, (end - address,))[0]
            self._at(address, size).holds = ZEROS
            address += size
        if address > end:
            raise Misuse(f"zeros up to {end:#x} end within a mapping")
        self.busy = True

    def synchronize(self) -> None:
        self.fail("synchronize")
        self.busy = False

    def _at(self, address: int, size: int) -> Memory:
        if address not in self.mapped or self.mapped[address][0] != size:
            raise Misuse(f"{size} bytes at {address:#x} are not mapped as a whole")
        return self.mapped[address][1]

    def _whole(self, size: int) -> None:
        if size <= 0 or size % self.granularity:
            raise Misuse(f"{size} bytes are not whole pages of {self.granularity}")

    def read(self, address: int, size: int) -> Any:
        """What the memory behind an address holds."""
        return self._at(address, size).holds

    def write(self, address: int, size: int, value: Any) -> None:
        """Put something recognisable into the memory behind an address."""
        self._at(address, size).holds = value


def out_of_memory(call: str) -> VmmError:
    """What the driver says when memory is short."""
    return VmmError(call, "CUDA_ERROR_OUT_OF_MEMORY", memory=True)
