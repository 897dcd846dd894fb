"""What a blade can be asked. Four verbs that change something, and looks that say what is so.

None of the verbs is idempotent at the appliances there are, and an answer may be lost. So a verb proves nothing: its
caller writes its wish down first, calls, and looks. What the look says counts, not what the call said; that may say
where to look.

A look is at what concerns its caller alone: one memory, or the connections, of which there are as many as ports in
use. Each begins after it was asked for, though several who ask at the same time may share one; nobody is ever told
what was so before he asked. Only the blocks, which are hardware, are remembered for a while.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ballast_cxl.grid import Grid


class FabricError(OSError):
    """An appliance did not do what it was asked."""


class Unreachable(FabricError):
    """No answer, or one that says nothing about the request: it may or may not have been carried out."""


class Declined(FabricError):
    """A definite no: nothing was changed by the request. status: HTTP code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Block:
    """One resource block. id: the appliance's; row: its place on its channel; memory: which memory holds it."""

    id: str
    channel: int
    row: int
    bytes: int


@dataclass(frozen=True)
class Memory:
    """Composed memory. blocks: ids of its resource blocks."""

    id: str
    blocks: frozenset[str]


@dataclass(frozen=True)
class Link:
    """A memory that is connected to a port. serial: of the memory device that the host sees, 16 hexadecimal digits."""

    id: str
    memory: str
    port: str
    serial: str


def made_of(memories: Iterable[Memory], blocks: Collection[str]) -> Memory | None:
    """The memory that has exactly these blocks."""
    return next((memory for memory in memories if memory.blocks == frozenset(blocks)), None)


def link_of(links: Iterable[Link], memory: str, port: str) -> Link | None:
    """The connection of a memory to a port, by whole ids: at some appliances one id may be a part of another."""
    return next((link for link in links if (link.memory, link.port) == (memory, port)), None)


@dataclass(frozen=True)
class Inventory:
    """All of a blade."""

    blocks: Sequence[Block]
    memories: Sequence[Memory]
    links: Sequence[Link]

    @property
    def grid(self) -> Grid:
        """Channels, rows and block size. Raises FabricError for a blade that is no full grid of equal blocks."""
        channels = {block.channel for block in self.blocks}
        rows = {block.row for block in self.blocks}
        sizes = {block.bytes for block in self.blocks}
        if len(sizes) != 1 or len(self.blocks) != len(channels) * len(rows) or max(channels) + 1 != len(channels):
            raise FabricError(
                f"the blade has {len(self.blocks)} blocks of {len(sizes)} sizes on {len(channels)} channels, which is "
                "no grid of equal blocks; such a blade cannot be used"
            )
        return Grid(len(channels), len(rows), sizes.pop())

    def numbers(self) -> Mapping[str, int]:
        """Number of each block by the appliance's id."""
        grid = self.grid
        return {block.id: grid.number(block.channel, block.row) for block in self.blocks}

    def ids(self, numbers: Collection[int]) -> list[str]:
        """The appliance's ids of some blocks, in order of their numbers."""
        by_number = {number: name for name, number in self.numbers().items()}
        return [by_number[number] for number in sorted(numbers)]

    def memory(self, name: str) -> Memory | None:
        return next((memory for memory in self.memories if memory.id == name), None)


class Fabric(Protocol):
    """One blade. Every method raises Unreachable or Declined."""

    async def look(self) -> Inventory:
        """All that is so now; for comparing, since it costs as much as there is on the blade."""

    async def ids(self, numbers: Collection[int]) -> list[str]:
        """The appliance's ids of some blocks, in order of their numbers."""

    async def memories(self) -> Sequence[Memory]:
        """All memories of the blade."""

    async def memory(self, name: str) -> Memory | None:
        """One memory, by its whole id."""

    async def links(self) -> Sequence[Link]:
        """All connections of the blade."""

    async def compose(self, blocks: Sequence[str]) -> str | None:
        """Make one memory of exactly these resource blocks, connected to nobody; the id that was told, if one was."""

    async def assign(self, memory: str, port: str) -> None:
        """Connect a memory to a port."""

    async def unassign(self, link: Link) -> None:
        """Cut a port off from a memory: this connection, which a look showed, and no other."""

    async def free(self, memory: str) -> None:
        """Take a memory that nobody is connected to apart."""

    async def close(self) -> None:
        """Let go of connections."""
