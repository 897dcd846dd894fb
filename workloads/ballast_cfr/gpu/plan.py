"""Dividing a treeplex among thread blocks.

Below some level, every subtree belongs to one block, which then works through it without asking the others; what lies
above that level is the trunk, which block 0 works on alone. Blocks so meet twice in half an iteration, however deep
the game is, instead of once a level.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.treeplex import Treeplex
from ballast_cfr.game import Floats

Longs = NDArray[np.int64]

# Model of a half iteration, measured on one H200: nanoseconds for a slot or an entry of its row in one block, and for
# two meetings of blocks in one cluster, or on the whole grid.
_WORK = 0.5
_MEETING = {"cluster": 800.0, "grid": 2200.0}


@dataclass(frozen=True, eq=False)
class Share:
    """What one block holds of one player: information sets by level, as the treeplex counts them."""

    levels: tuple[Longs, ...]
    trunk: bool

    @cached_property
    def infosets(self) -> Longs:
        return np.concatenate([*self.levels, np.zeros(0, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Division:
    """A player's treeplex, divided. cut: the level from which on subtrees are divided; 0: there is no trunk. roots: how
    many information sets lie in the cut level."""

    shares: tuple[Share, ...]
    cut: int
    roots: int


def divide(plex: Treeplex, row_entries: Longs, blocks: int, regime: str, cut: int | None = None) -> Division:
    """Divide among blocks, at the level `cut`, or at the one that is best by the model. row_entries: (S,) length of
    each slot's row."""
    levels = plex.levels()
    if blocks == 1 or not levels:
        whole = Share(tuple(np.arange(a, b) for a, b in levels), False)
        rest = tuple(Share((), False) for _ in range(blocks - 1))
        return Division((whole, *rest), 0, levels[0][1] if levels else 0)
    work = _work(plex, row_entries)
    at = range(len(levels)) if cut is None else (min(cut, len(levels) - 1),)
    options = [_option(plex, levels, work, level, blocks, regime) for level in at]
    _, cut, owner = min(options, key=lambda option: option[0])
    shares = []
    for block in range(blocks):
        trunk = cut > 0 and block == 0
        inside = [np.arange(a, b) for a, b in (levels[:cut] if trunk else levels[cut:])]
        mine = inside if trunk else [level[owner[level] == block] for level in inside]
        while mine and not len(mine[-1]):
            mine.pop()
        shares.append(Share(tuple(mine), trunk))
    return Division(tuple(shares), cut, levels[cut][1] - levels[cut][0])


def _work(plex: Treeplex, row_entries: Longs) -> Floats:
    """(I,) work in each information set itself."""
    each = 2.0 + row_entries
    return np.asarray(np.add.reduceat(each, plex.first[:-1])) + 2.0


def _option(
    plex: Treeplex, levels: list[tuple[int, int]], work: Floats, cut: int, blocks: int, regime: str
) -> tuple[float, int, Longs]:
    """Cost by the model, the cut, and the block of each information set from the cut on."""
    a, b = levels[cut]
    root = np.full(plex.infosets, -1, dtype=np.int64)
    root[a:b] = np.arange(b - a)
    for start, stop in levels[cut + 1 :]:
        root[start:stop] = root[plex.of_slot[plex.parent[start:stop] - 1]]
    below = root >= 0
    weight = np.bincount(root[below], weights=work[below], minlength=b - a).astype(np.float64)
    block_of_root = _balance(weight, blocks - (cut > 0)) + (cut > 0)
    owner = np.where(below, block_of_root[root], 0)
    largest = float(np.bincount(block_of_root, weights=weight).max())
    trunk = float(work[:a].sum())
    cost = _WORK * (largest + trunk) + (_MEETING[regime] if cut else 0.0)
    return cost, cut, owner


def _balance(weight: Floats, blocks: int) -> Longs:
    """A block for each of the weights, in order, such that the heaviest block is as light as can be."""
    total = np.cumsum(weight)
    low, high = max(float(weight.max()), float(total[-1]) / blocks), float(total[-1])
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_edges(total, middle)) - 1 <= blocks else (middle, high)
    edges = _edges(total, high)
    result = np.zeros(len(weight), dtype=np.int64)
    for block, (start, stop) in enumerate(pairwise(edges)):
        result[start:stop] = min(block, blocks - 1)
    return result


def _edges(total: Floats, most: float) -> list[int]:
    """Where to cut so that no part weighs more than `most`. total: running sums."""
    edges, done = [0], 0.0
    while edges[-1] < len(total):
        stop = max(int(np.searchsorted(total, done + most * (1 + 1e-12), side="right")), edges[-1] + 1)
        edges.append(stop)
        done = float(total[stop - 1])
    return edges
