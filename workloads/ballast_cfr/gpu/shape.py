"""How a game is put on the GPU: which regime, how many blocks and threads, and what lies in shared memory."""

from dataclasses import dataclass, replace
from typing import Any

from ballast_cfr.errors import BadInputError
from ballast_cfr.gpu.layout import WARP, Side

ONE, CLUSTER, GRID = "one", "cluster", "grid"

# Left of the 227 KiB that a block may have on compute capability 9.0, after the descriptors.
SHARED_BYTES = 227 * 1024 - 2048

# What goes into shared memory first: what every stage waits for, then what is read and written most.
_ORDER = ["v", "g", "sigma", "regret", "x", "row", "item", "set", "below", "above", "column", "value", "tie", "average"]


@dataclass(frozen=True)
class Shape:
    """regime: `one` block, one `cluster` of blocks, or the whole `grid`. push: every plan goes straight into every
    block's shared memory. sets: a thread works on an information set, not a lane on a slot. mixed: plans, values and
    payoffs in float32. shared: bytes of shared memory that a block may take. cut: by player, the level below which
    subtrees are divided; None: by the model of plan.py."""

    regime: str
    blocks: int
    threads: int
    push: bool = False
    mixed: bool = False
    sets: bool = False
    shared: int = SHARED_BYTES
    cut: tuple[int | None, int | None] = (None, None)

    def __str__(self) -> str:
        extra = "".join(f" {name}" for name in ("push", "mixed", "sets") if getattr(self, name))
        cut = "" if self.cut == (None, None) else f" cut {self.cut[0]},{self.cut[1]}"
        return f"{self.regime} {self.blocks}x{self.threads}{extra}{cut}"


def bytes_of_column(sides: tuple[Side, Side]) -> int:
    """Bytes of the narrowest index of a sequence."""
    return 2 if max(side.slots for side in sides) < 0xFFFF else 4


def bytes_of(side: Side, name: str, shape: Shape, column: int) -> int:
    """Bytes of one array of the largest share."""
    real = 4 if shape.mixed else 8
    sizes = side.sizes
    size, count = {
        "item": (16 * WARP, sizes["warps"]),
        "set": (4, sizes["infosets"]),
        "below": (4, sizes["slots"] + 1),
        "above": (4, sizes["slots"]),
        "row": (8, sizes["rows"]),
        "tie": (8, sizes["infosets"]),
        "value": (real, sizes["entries"]),
        "column": (column, sizes["entries"]),
        "regret": (8, sizes["slots"]),
        "average": (8, sizes["slots"]),
        "sigma": (real, sizes["slots"]),
        "x": (real, sizes["slots"] + 1),
        "g": (real, sizes["g"]),
        "v": (real, sizes["v"]),
        "pushed": (real, side.slots + 1),
    }[name]
    return size * count


def place(sides: tuple[Side, Side], shape: Shape) -> tuple[dict[str, int], int]:
    """Byte offsets in shared memory by macro name, -1 for what stays outside; and the bytes taken."""
    offsets = {f"AT_{name}_{player}": -1 for name in (*_ORDER, "pushed") for player in (0, 1)}
    used = 0
    column = bytes_of_column(sides)
    absent = ("item",) if shape.sets else ("set", "below", "above")
    for name in [*(["pushed"] if shape.push else []), *(name for name in _ORDER if name not in absent)]:
        sizes = [-(-bytes_of(side, name, shape, column) // 16) * 16 for side in sides]
        if used + sum(sizes) <= shape.shared:
            for player in (0, 1):
                offsets[f"AT_{name}_{player}"] = used
                used += sizes[player]
        elif name == "pushed":
            raise BadInputError(
                f"shape {shape}: plans take {sum(sizes)} bytes of shared memory and {shape.shared} are there; "
                "choose a shape without push"
            )
    return offsets, used


def macros(sides: tuple[Side, Side], shape: Shape, alternating: bool) -> tuple[dict[str, Any], int]:
    """What kernels/memory.cu wants defined, and the bytes of shared memory."""
    offsets, used = place(sides, shape)
    common = {
        "NB": shape.blocks,
        "NT": shape.threads,
        "REGIME": {ONE: 0, CLUSTER: 1, GRID: 2}[shape.regime],
        "MAXL": max(1, *(side.levels for side in sides)),
        "ALTERNATE": int(alternating),
        "PUSH": int(shape.push),
        "SETS": int(shape.sets),
        "REAL": "float" if shape.mixed else "double",
        "COLUMN": {2: "unsigned short", 4: "unsigned int"}[bytes_of_column(sides)],
        "SHARED_BYTES": used,
        "CUT(P)": f"(P == 0 ? {int(sides[0].trunk > 0)} : {int(sides[1].trunk > 0)})",
        "TRUNK(P)": f"(P == 0 ? {sides[0].trunk} : {sides[1].trunk})",
        "CUT_ROOTS(P)": f"(P == 0 ? {sides[0].all_roots} : {sides[1].all_roots})",
        "ANY_CUT": int(sides[0].trunk + sides[1].trunk > 0),
        "LONGS": int(any(len(side.arrays["longs"]) for side in sides)),
        "MOST": max(side.most for side in sides),
    }
    for player, side in enumerate(sides):
        common[f"ROOTS_{player}"] = side.roots
        common[f"SLOTS_{player}"] = side.slots
    return {**common, **offsets}, used


def candidates(
    slots: int, entries: int, multiprocessors: int, largest_cluster: int, mixed: bool = False
) -> list[Shape]:
    """Shapes worth trying for a game of this many slots and entries; a short measurement decides among them."""
    size = slots + entries
    found = []
    if size < 4_000:
        found += [Shape(ONE, 1, threads) for threads in (32, 128, 512)]
        found += [Shape(ONE, 1, threads, sets=True) for threads in (32, 128, 256)]
    if 1_000 < size < 60_000:
        found += [Shape(CLUSTER, blocks, 256, push=True) for blocks in (4, 6, 8)] + [Shape(CLUSTER, 8, 512, push=True)]
        found += [Shape(CLUSTER, blocks, 256, push=True, sets=True) for blocks in (2, 4, 8)]
        found += [Shape(ONE, 1, 512, sets=True)]
    if 100_000 < size < 1_000_000 and largest_cluster >= 16:
        found += [Shape(CLUSTER, 16, 1024), Shape(CLUSTER, 16, 512, sets=True)]
    if size > 60_000:
        found += [Shape(GRID, multiprocessors, threads) for threads in (384, 512, 768)]
        found += [Shape(GRID, multiprocessors, threads, sets=True) for threads in (256, 384, 512, 768)]
    return [replace(shape, mixed=mixed) for shape in found]
