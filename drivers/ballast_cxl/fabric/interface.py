"""What a blade can be asked. Four verbs that change something, and one look that says what is so.

None of the verbs is idempotent at the appliances there are, and an answer may be lost. So a verb returns nothing: its
caller writes its wish down first, calls, and looks. What the look says counts, not what the call said.
"""

from collections.abc import Collection, Mapping, Sequence
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


@dataclass(frozen=True)
class Inventory:
    """All of a blade at one time."""

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
        """By its id, whole: at some appliances one id may be a part of another."""
        return next((memory for memory in self.memories if memory.id == name), None)

    def made_of(self, ids: Collection[str]) -> Memory | None:
        """The memory that has exactly these blocks."""
        return next((memory for memory in self.memories if memory.blocks == frozenset(ids)), None)

    def holders(self, ids: Collection[str]) -> list[Memory]:
        """Memories that have any of these blocks."""
        return [memory for memory in self.memories if not memory.blocks.isdisjoint(ids)]

    def link(self, memory: str, port: str) -> Link | None:
        return next((link for link in self.links if (link.memory, link.port) == (memory, port)), None)


class Fabric(Protocol):
    """One blade. Every method raises Unreachable or Declined."""

    async def look(self) -> Inventory:
        """What is so now."""

    async def compose(self, blocks: Sequence[str]) -> None:
        """Make one memory of exactly these resource blocks, connected to nobody."""

    async def assign(self, memory: str, port: str) -> None:
        """Connect a memory to a port."""

    async def unassign(self, memory: str, port: str) -> None:
        """Cut a port off from a memory."""

    async def free(self, memory: str) -> None:
        """Take a memory that nobody is connected to apart."""

    async def close(self) -> None:
        """Let go of connections."""
