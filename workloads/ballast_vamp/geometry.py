"""How weights and cache divide into pages: units of experts that move alone, and regions that grow at their end.

An expert layer holds `experts` rows in each of its weight tensors (w13 and w2). A unit is a run of rows that starts and
ends on a page in every tensor, so the smallest has lcm(row, page) / row rows. A driver call costs the same for any
size (67 us a handle on an H200), so experts known to be cold lie together at the end and form larger units there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ballast_vamp.reasons import Disabled, Reason

LARGEST_SHARE = 8  # a unit of more than an eighth of a layer's experts cannot be called cold


@dataclass(frozen=True)
class Layer:
    """Expert weights of one layer on one rank. rows: bytes of one expert in each weight tensor."""

    experts: int
    rows: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return self.experts * sum(self.rows)


@dataclass(frozen=True)
class Unit:
    """Experts that move together: slots [first, first + count) of a layer. sizes: bytes in each weight tensor."""

    id: int
    layer: int
    first: int
    count: int
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class Region:
    """A part of the cache that holds every block once: block b is bytes [b * block_bytes, (b + 1) * block_bytes).

    backed: bytes that have memory of their own from the start. limit: bytes that can be backed at all.
    """

    block_bytes: int
    backed: int
    limit: int

    def blocks(self, more: int) -> int:
        """Whole blocks that have memory when `more` bytes follow those backed from the start."""
        return min(self.backed + more, self.limit) // self.block_bytes


def smallest_unit(layer: Layer, page: int) -> int:
    """Rows of the smallest unit of a layer. Raises Disabled where that is too large a part of it."""
    rows = math.lcm(*(page // math.gcd(page, row) for row in layer.rows))
    if rows * LARGEST_SHARE > layer.experts:
        raise Disabled(
            Reason.UNSUPPORTED_BACKEND,
            f"experts of {layer.rows} bytes fill whole pages of {page} bytes only {rows} at a time, "
            f"of {layer.experts} in a layer; such weights cannot be moved in small parts",
        )
    return rows


def units(layers: Sequence[Layer], page: int, tail: int = 0, large: int = 0) -> list[Unit]:
    """Divide layers into units, from each layer's end, so that a remainder is left at its hot start: it never moves,
    since what asks the driver about a tensor asks about its first byte, which has to be the device's.

    tail: slots at the end of each layer known to be cold. large: bytes of a unit wanted there.
    """
    made: list[Unit] = []
    for index, layer in enumerate(layers):
        small = smallest_unit(layer, page)
        wide = max(small, min(large // sum(layer.rows), layer.experts // LARGEST_SHARE) // small * small)
        end, cuts = layer.experts, []
        while end > small:
            count = wide if end - wide >= max(layer.experts - tail, small) else small
            cuts.append((end - count, count))
            end -= count
        for first, count in reversed(cuts):
            sizes = tuple(row * count for row in layer.rows)
            made.append(Unit(len(made), index, first, count, sizes))
    return made


@dataclass(frozen=True)
class Part:
    """A run of blocks in an allocation of the cache: block b begins at start + b * block_bytes."""

    start: int
    block_bytes: int


def lay_out(
    parts: Sequence[Part], physical: int, virtual: int, page: int
) -> tuple[list[tuple[int, int]], list[Region]]:
    """Divide one allocation, itself page-aligned, into what has memory from the start and what may get it later.

    Returns extents (offset, bytes) to back at once, and a Region for each part, whose first byte is the part's start.
    A part that begins within a page shares it with the end of the part before; such a page is backed from the start,
    and the last block or two that would need it stay unused.
    """
    extents, regions, covered = [], [], 0
    for part in parts:
        first, end = max(part.start // page * page, covered), part.start + virtual * part.block_bytes
        backed = -(-(part.start + physical * part.block_bytes) // page) * page
        limit = max(end // page * page, backed)
        if backed > first:
            extents.append((first, backed - first))
            covered = backed
        regions.append(Region(part.block_bytes, backed - part.start, limit - part.start))
    return extents, regions
