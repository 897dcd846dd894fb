"""Which blocks a region gets: a buddy extent where blocks must be consecutive, any free blocks where they need not.

Extents are runs of 2^k rows that begin at a multiple of 2^k (Knowlton 1965), so that what is free is always describable
by the same tree that is offered to the scheduler. Among the extents that fit, the one is taken whose parent is most
used already: it keeps the large ones whole.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from ballast_cxl.grid import Grid


@dataclass(frozen=True, order=True)
class Extent:
    """`rows` consecutive rows from `first` on."""

    rows: int
    first: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.first + self.rows))


def tree(rows: int) -> list[Extent]:
    """All buddy extents of a blade with so many rows, smallest first. A last odd part has extents of its own."""
    found = []
    size = 1
    while size <= rows:
        found += [Extent(size, first) for first in range(0, rows - size + 1, size)]
        size *= 2
    return found


def rows_needed(grid: Grid, size: int) -> int:
    """Rows of the smallest buddy extent with so many bytes."""
    rows = max(1, -(-size // grid.row_bytes))
    return 1 << (rows - 1).bit_length()


def free_extents(grid: Grid, held: Iterable[int]) -> list[Extent]:
    """Buddy extents without a held block, smallest first."""
    used = grid.rows_of(held)
    return [extent for extent in tree(grid.rows) if used.isdisjoint(extent)]


def contiguous(grid: Grid, size: int, held: Iterable[int]) -> list[int] | None:
    """Blocks of the extent that fits a size best, or None if there is none free."""
    used = grid.rows_of(held)
    rows = rows_needed(grid, size)
    fitting = [extent for extent in tree(grid.rows) if extent.rows == rows and used.isdisjoint(extent)]
    if not fitting:
        return None
    best = min(fitting, key=lambda extent: (_whole_around(extent, used, grid.rows), extent.first))
    return grid.blocks_of(best)


def scattered(grid: Grid, size: int, held: Set[int]) -> list[int] | None:
    """So many free blocks as a size needs, lowest rows first and so over all channels, or None."""
    wanted = max(1, -(-size // grid.block_bytes))
    free = [block for block in range(grid.count) if block not in held]
    return free[:wanted] if len(free) >= wanted else None


def largest(grid: Grid, held: Set[int], contiguity: bool) -> int:
    """Bytes of the largest region that could be placed now."""
    if not contiguity:
        return (grid.count - len(held)) * grid.block_bytes
    return max((extent.rows for extent in free_extents(grid, held)), default=0) * grid.row_bytes


def _whole_around(extent: Extent, used: Set[int], rows: int) -> int:
    """Rows of the largest free extent around one: what taking it would break."""
    size = extent.rows
    while size * 2 <= rows:
        first = extent.first // (size * 2) * size * 2
        if first + size * 2 > rows or not used.isdisjoint(range(first, first + size * 2)):
            break
        size *= 2
    return size
