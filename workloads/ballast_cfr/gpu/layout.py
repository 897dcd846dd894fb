"""A player's arrays as the GPU's blocks read them: share after share, with indices that count within a share."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.payoff import Csr
from ballast_cfr.compile.treeplex import Treeplex
from ballast_cfr.gpu.plan import Division, Share
from ballast_cfr.solve.kernels import ROW_CHUNK

Longs = NDArray[np.int64]
Array = NDArray[Any]

WARP = 32
LIMIT = 0xFFFF  # local indices have 16 bits

# The structs of kernels/memory.cu, and its flags.
ITEM = np.dtype(
    [
        *((name, "<u2") for name in ("slot", "infoset", "kid", "kids")),
        ("above", "<u4"),
        *((name, "u1") for name in ("lane", "count", "flags", "live")),
    ]
)
ROW = np.dtype([("entry", "<u4"), ("to", "<u4")])
LOCKED, DEAD, HAS_ROW, BUSY = 1, 2, 4, 8
SET_FLAGS, BELOW_FLAGS, COUNT_SHIFT = 24, 16, 16  # where flags, and a number of actions, lie in what SETS reads
FOREIGN, NOWHERE, LENGTH_SHIFT = 1 << 24, 1 << 25, 26
FIXED = 17  # numbers in a descriptor before its levels


@dataclass(frozen=True, eq=False)
class Side:
    """One player. slot: (S,) the treeplex's slot of each slot here; infoset: (I,) likewise. entry: (entries,) which of
    the matrix's entries each one here is, -1 for padding. arrays: by the names in kernels/memory.cu."""

    slot: Longs
    infoset: Longs
    entry: Longs
    row0_entry: Longs
    arrays: dict[str, Array]
    sizes: dict[str, int]  # of the largest share
    roots: int  # of the whole treeplex
    all_roots: int  # of the subtrees that the blocks hold
    g: int  # slots and partial sums
    v: int  # information sets, and for the trunk the roots below it
    trunk: int  # slots of the trunk, 0 if there is none
    levels: int
    most: int  # actions of an information set

    @property
    def slots(self) -> int:
        return len(self.slot)


def order(division: Division, plex: Treeplex) -> tuple[Longs, Longs]:
    """Information sets, and slots, in the order in which the shares hold them."""
    infoset = np.concatenate([share.infosets for share in division.shares])
    return infoset, _slots_of(plex, infoset)


def _slots_of(plex: Treeplex, infosets: Longs) -> Longs:
    first = plex.first.astype(np.int64)
    counts = first[infosets + 1] - first[infosets]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(first[infosets] - (ends - counts), counts) + np.arange(total))


def number(slot: Longs) -> Longs:
    """(S + 1,) what the GPU calls each of the treeplex's sequences."""
    result = np.zeros(len(slot) + 1, dtype=np.int64)
    result[slot + 1] = np.arange(len(slot)) + 1
    return result


@dataclass(frozen=True, eq=False)
class Tree:
    """A share's information sets and slots, as they are counted in it. edges: where levels begin, and the end; first,
    counts: (I,) first slot and actions; of_slot: (S,) information set; kid: (S + 1,) first information set below each
    slot; below the trunk come the subtrees' roots, counted on; above: (S,) sequence above, in level 0 as the whole game
    counts; flags: (S,) HAS_ROW."""

    edges: list[int]
    first: Longs
    counts: Longs
    of_slot: Longs
    kid: Longs
    above: Longs
    flags: Longs

    @classmethod
    def of(cls, builder: "_Builder", share: Share, slots: Longs) -> "Tree":
        """From the treeplex."""
        plex, infosets = builder.plex, share.infosets
        local = np.zeros(plex.slots + 1, dtype=np.int64)
        local[slots + 1] = np.arange(len(slots)) + 1
        counts = builder.first[infosets + 1] - builder.first[infosets]
        edges = np.cumsum([0, *map(len, share.levels)]).tolist()
        roots = edges[1] if len(edges) > 1 else 0
        of_slot = np.repeat(np.arange(len(infosets)), counts)
        above = plex.parent[infosets]
        top = np.arange(len(infosets)) < roots
        some = builder.start[slots + 2] > builder.start[slots + 1]
        return cls(
            edges=edges,
            first=np.cumsum(counts) - counts,
            counts=counts,
            of_slot=of_slot,
            kid=np.concatenate([[0], np.cumsum(builder.below[slots + 1])]) + roots,
            above=np.where(top, builder.own[above], local[above])[of_slot],
            flags=np.where(some, HAS_ROW, 0),
        )


class _Builder:
    """Appends the shares of one player, block after block."""

    def __init__(self, plex: Treeplex, csr: Csr, division: Division, own: Longs, other: Longs, sets: bool) -> None:
        self.plex, self.csr, self.division, self.own, self.other, self.by_set = plex, csr, division, own, other, sets
        self.first = plex.first.astype(np.int64)
        self.start = csr.start.astype(np.int64)
        self.below = np.bincount(plex.parent, minlength=plex.slots + 1)
        self.parts: dict[str, list[Array]] = {}
        self.at = dict.fromkeys(("infosets", "slots", "warps", "rows", "longs", "roots", "entries", "g", "v"), 0)
        self.sizes: dict[str, int] = {}
        self.foreign = _spread(self, division)

    def put(self, **arrays: Array) -> None:
        for name, array in arrays.items():
            self.parts.setdefault(name, []).append(array)

    def share(self, share: Share, block: int, most_levels: int) -> None:
        slots = _slots_of(self.plex, share.infosets)
        roots = len(share.levels[0]) if share.levels and not share.trunk else 0
        tree = Tree.of(self, share, slots)
        made, ladders = self.sets(tree) if self.by_set else self.items(tree)
        rows, longs, entries, partial = self.rows(slots, share.trunk, self.foreign[block])
        at = self.at
        fixed = [
            len(share.infosets),
            len(slots),
            len(share.levels),
            at["infosets"],
            at["slots"],
            at["warps"],
            at["rows"],
        ]
        fixed += [
            len(rows),
            at["longs"],
            len(longs),
            at["roots"],
            int(share.trunk),
            at["entries"],
            len(entries),
            at["g"],
        ]
        levels = np.zeros((len(ladders), most_levels + 1), dtype=np.int64)
        levels[:, : len(ladders[0])] = ladders
        descriptor = np.array([[*fixed, roots, at["v"], *levels.ravel()]])
        self.put(descriptor=descriptor, row=rows, longs=longs, entry=entries, **made)
        warps = 0 if self.by_set else ladders[0][-1]
        added = {
            "infosets": len(share.infosets), "slots": len(slots), "warps": warps, "rows": len(rows),
            "longs": len(longs), "roots": roots, "entries": len(entries), "g": len(slots) + partial,
            "v": len(share.infosets) + (self.division.roots if share.trunk else 0),
        }  # fmt: skip
        for name, count in added.items():
            self.at[name] += count
            self.sizes[name] = max(self.sizes.get(name, 0), count)

    def items(self, tree: Tree) -> tuple[dict[str, Array], list[list[int]]]:
        """A lane for each slot: information sets of a level packed into warps, those with most actions first. Returns
        the arrays, and the first warp of each level, and the end."""
        infosets, counts = len(tree.counts), tree.counts
        warp, lane, ladder = np.zeros(infosets, dtype=np.int64), np.zeros(infosets, dtype=np.int64), [0]
        for a, b in pairwise(tree.edges):
            order = a + np.argsort(-counts[a:b], kind="stable")
            warp[order], lane[order], used = _pack(counts[order].tolist(), ladder[-1])
            ladder.append(used)
        of_slot = tree.of_slot
        within = np.arange(len(of_slot)) - tree.first[of_slot]
        made = np.zeros(ladder[-1] * WARP, dtype=ITEM)
        made["lane"] = np.arange(len(made)) % WARP
        made["count"] = made["live"] = 1
        place = (warp[of_slot] * WARP) + lane[of_slot] + within
        made["slot"][place] = np.arange(len(of_slot))
        made["infoset"][place] = of_slot
        made["kid"][place] = tree.kid[:-1]
        made["kids"][place] = np.diff(tree.kid)
        made["above"][place] = tree.above
        made["lane"][place] = lane[of_slot]
        made["count"][place] = counts[of_slot]
        made["live"][place] = counts[of_slot]
        made["flags"][place] = BUSY | tree.flags
        return {"item": made}, [ladder]

    def sets(self, tree: Tree) -> tuple[dict[str, Array], list[list[int]]]:
        """A thread for each information set. Returns the arrays; and the first information set of each level, and the
        end, then the same of slots."""
        made = {
            "set": tree.first | tree.counts << COUNT_SHIFT,
            "below": tree.kid | np.append(tree.flags, 0) << BELOW_FLAGS,
            "above": tree.above,
        }
        slots = np.append(tree.first, len(tree.of_slot))
        return {name: array.astype(np.uint32) for name, array in made.items()}, [tree.edges, slots[tree.edges].tolist()]

    def rows(self, slots: Longs, trunk: bool, foreign: Longs) -> tuple[Array, Array, Longs, int]:
        """Rows in parts of at most 16 entries, parts by falling length, 32 of them side by side. Returns the parts, the
        long rows, the entries and how many partial sums there are."""
        trunk_slots = _slots_of(self.plex, self.division.shares[0].infosets) if len(foreign) else foreign
        own = np.zeros(0, dtype=np.int64) if trunk else slots
        sequence = np.concatenate([own, trunk_slots[foreign]]) + 1
        target = np.concatenate([np.arange(len(own)), foreign | FOREIGN])
        lengths = self.start[sequence + 1] - self.start[sequence]
        some = lengths > 0
        sequence, target, lengths = sequence[some], target[some], lengths[some]
        parts = -(-lengths // ROW_CHUNK)
        long = parts > 1
        row = np.repeat(np.arange(len(lengths)), parts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
        size = np.minimum(lengths[row] - within * ROW_CHUNK, ROW_CHUNK)
        partial = np.cumsum(long[row]) - 1
        to = np.where(long[row], len(slots) + partial, target[row])
        order = np.argsort(-size, kind="stable")
        padded = -(-len(row) // WARP) * WARP
        made = np.zeros(padded, dtype=ROW)
        made["to"] = NOWHERE
        made["to"][: len(row)] = to[order] | size[order] << LENGTH_SHIFT
        width = np.zeros(padded, dtype=np.int64)
        width[: len(row)] = size[order]
        width = width.reshape(-1, WARP)[:, 0]
        slice_start = (np.cumsum(width) - width) * WARP
        made["entry"] = np.repeat(slice_start, WARP) + np.arange(padded) % WARP
        entries = np.full(int(width.sum()) * WARP, -1, dtype=np.int64)
        begin = self.start[sequence][row] + within * ROW_CHUNK
        each = np.repeat(np.arange(len(row)), size[order])
        step = np.arange(len(each)) - np.repeat(np.cumsum(size[order]) - size[order], size[order])
        entries[made["entry"][each] + step * WARP] = begin[order][each] + step
        rows = np.flatnonzero(long)
        part0 = np.cumsum(parts[rows]) - parts[rows]
        return made, np.stack([target[rows], part0, parts[rows]], axis=1), entries, int(parts[rows].sum())

    def finish(self, slot: Longs, infoset: Longs) -> Side:
        joined = {name: np.concatenate(parts) for name, parts in self.parts.items()}
        entry = joined.pop("entry")
        column = self.csr.column.astype(np.int64)
        joined["column"] = np.where(entry < 0, 0, self.other[column[entry]]) if len(column) else np.zeros(len(entry))
        row0 = np.arange(int(self.start[1]))
        joined["row0_column"] = self.other[column[row0]]
        trunk = self.division.shares[0] if self.division.cut else None
        return Side(
            slot=slot,
            infoset=infoset,
            entry=entry,
            row0_entry=row0,
            arrays=joined,
            sizes=self.sizes,
            roots=len(trunk.levels[0]) if trunk else self.division.roots,
            all_roots=self.at["roots"],
            g=self.at["g"],
            v=self.at["v"],
            trunk=len(_slots_of(self.plex, trunk.infosets)) if trunk else 0,
            levels=max(len(share.levels) for share in self.division.shares),
            most=int(np.diff(self.first).max(initial=1)),
        )


def _spread(builder: _Builder, division: Division) -> list[Longs]:
    """Which of the trunk's slots each block takes the rows of: about equally many entries each, none for block 0."""
    blocks = len(division.shares)
    none = np.zeros(0, dtype=np.int64)
    if not division.cut:
        return [none] * blocks
    sequence = _slots_of(builder.plex, division.shares[0].infosets) + 1
    work = np.cumsum(builder.start[sequence + 1] - builder.start[sequence])
    to = 1 + (work - 1) * (blocks - 1) // max(int(work[-1]), 1)
    return [none, *(np.flatnonzero(to == block) for block in range(1, blocks))]


def _pack(counts: list[int], warp: int) -> tuple[list[int], list[int], int]:
    """Information sets with these numbers of actions, one after the other into warps from number `warp` on: warp and
    first lane of each, and the next free warp."""
    warps, lanes, used = [], [], 0
    for count in counts:
        if used + count > WARP:
            warp, used = warp + 1, 0
        warps.append(warp)
        lanes.append(used)
        used += count
    return warps, lanes, warp + (used > 0)


def build(
    plexes: tuple[Treeplex, Treeplex],
    matrices: tuple[Csr, Csr],
    divisions: tuple[Division, Division],
    sets: bool = False,
) -> tuple[Side, Side]:
    """Both players' arrays, for lanes on slots or for threads on information sets."""
    orders = [order(division, plex) for division, plex in zip(divisions, plexes, strict=True)]
    numbers = [number(slot) for _, slot in orders]
    most = max(1, *(len(share.levels) for division in divisions for share in division.shares))
    sides = []
    for player in (0, 1):
        own, other = numbers[player], numbers[1 - player]
        builder = _Builder(plexes[player], matrices[player], divisions[player], own, other, sets)
        for block, share in enumerate(divisions[player].shares):
            builder.share(share, block, most)
        infoset, slot = orders[player]
        sides.append(builder.finish(slot, infoset))
    return sides[0], sides[1]
