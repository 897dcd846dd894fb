"""A blade as a grid: channels across, rows down. Block number = row * channels + channel.

A region on an appliance that wants contiguity takes whole rows, an equal run of them on every channel; elsewhere it
takes any blocks.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ballast_api.cxlblade import Geometry
from ballast_cxl.quantity import to_bytes


@dataclass(frozen=True)
class Grid:
    """channels x rows blocks of block_bytes each."""

    channels: int
    rows: int
    block_bytes: int

    @classmethod
    def of(cls, geometry: Geometry) -> "Grid":
        return cls(geometry.channels, geometry.blocks_per_channel, to_bytes(geometry.block_size))

    @property
    def count(self) -> int:
        return self.channels * self.rows

    @property
    def row_bytes(self) -> int:
        return self.channels * self.block_bytes

    @property
    def bytes(self) -> int:
        return self.count * self.block_bytes

    def number(self, channel: int, row: int) -> int:
        return row * self.channels + channel

    def rows_of(self, blocks: Iterable[int]) -> set[int]:
        """Rows that the blocks touch."""
        return {block // self.channels for block in blocks}

    def blocks_of(self, rows: Iterable[int]) -> list[int]:
        """All blocks of some rows, in order."""
        return [block for row in sorted(rows) for block in range(row * self.channels, (row + 1) * self.channels)]
