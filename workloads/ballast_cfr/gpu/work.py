"""What the threads of a GPU are told to work on, for each instance: solves of a batch differ in what is held."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.gpu.device import Buffer, buffer
from ballast_cfr.gpu.layout import (
    BELOW_FLAGS,
    BUSY,
    DEAD,
    FIXED,
    HAS_ROW,
    LOCKED,
    SET_FLAGS,
    WARP,
    Side,
)

Live = NDArray[np.bool_] | None  # which actions are left; None: all, held to a strategy


class Work:
    """Arrays by the names of kernels/memory.cu. counts: how far apart two instances' are."""

    def __init__(self, side: Side, instances: int, *names: str) -> None:
        self.side = side
        self.arrays: dict[str, NDArray[Any]] = {name: np.tile(side.arrays[name], (instances, 1)) for name in names}
        self.buffers: dict[str, Buffer] = {name: buffer(array) for name, array in self.arrays.items()}
        self.counts = {name: array.shape[1] for name, array in self.arrays.items()}

    def write(self, name: str, instance: int, a: int, b: int) -> None:
        """Copy a part of one instance's array to the GPU."""
        array = self.arrays[name]
        self.buffers[name].write(array[instance, a:b], (instance * array.shape[1] + a) * array.itemsize)


class Items(Work):
    """A lane works on a slot."""

    def __init__(self, side: Side, instances: int) -> None:
        super().__init__(side, instances, "item")

    def hold(self, where: int, many: int, live: Live, instance: int) -> None:
        """Hold the information set whose actions are at `where` among the slots of `side`."""
        descriptor = self.side.arrays["descriptor"]
        row = descriptor[_share(descriptor, where)]
        a, b = row[5] * WARP, (row[5] + row[FIXED + row[2]]) * WARP
        items = self.arrays["item"][instance, a:b]
        first = int(np.flatnonzero((items["slot"] == where - row[4]) & (items["flags"] & BUSY > 0))[0])
        mine = items[first : first + many]
        kept = mine["flags"] & (HAS_ROW | BUSY)
        if live is None:
            mine["flags"] = kept | LOCKED
        else:
            mine["flags"] = kept | np.where(live, 0, DEAD)
            mine["live"] = live.sum()
        self.write("item", instance, int(a) + first, int(a) + first + many)


class Sets(Work):
    """A thread works on an information set."""

    def __init__(self, side: Side, instances: int) -> None:
        super().__init__(side, instances, "set", "below")
        self.buffers["above"] = buffer(side.arrays["above"])

    def hold(self, where: int, many: int, live: Live, instance: int) -> None:
        """As for Items."""
        descriptor = self.side.arrays["descriptor"]
        share = _share(descriptor, where)
        row, at = descriptor[share], where + share  # a share has one more of `below` than slots
        sets, below = self.arrays["set"][instance], self.arrays["below"][instance]
        inside = slice(int(row[3]), int(row[3] + row[0]))
        infoset = int(row[3]) + int(np.flatnonzero(sets[inside] & 0xFFFF == where - row[4])[0])
        dead = np.zeros(many, dtype=bool) if live is None else ~live
        flag = LOCKED if live is None else DEAD if dead.any() else 0
        sets[infoset] = sets[infoset] & (1 << SET_FLAGS) - 1 | flag << SET_FLAGS
        kept = below[at : at + many] & ~np.uint32(DEAD << BELOW_FLAGS)
        below[at : at + many] = kept | np.where(dead, DEAD << BELOW_FLAGS, 0).astype(np.uint32)
        self.write("set", instance, infoset, infoset + 1)
        self.write("below", instance, at, at + many)


def _share(descriptor: NDArray[Any], where: int) -> int:
    """Whose slot it is."""
    return int(np.searchsorted(descriptor[:, 4], where, side="right")) - 1
