"""What a solve's payoffs and chances come to on the GPU: the matrices' values and the tie thresholds of both players.

For each instance it is one stretch of memory, filled on the CPU and copied at once: other payoffs over the same game
then cost one pass over them and one copy.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.game import Floats
from ballast_cfr.gpu.device import Buffer, Pinned
from ballast_cfr.gpu.layout import Side
from ballast_cfr.solve import revalue_kernels as kernels
from ballast_cfr.solve.layout import index

_VALUES = ("value", "row0_value")
NAMES = (*_VALUES, "tie")


class Payoffs:
    """Of all instances. real: what values are held in; ulps: tie thresholds in units of the magnitudes."""

    def __init__(self, sides: tuple[Side, Side], real: Any, ulps: float, instances: int) -> None:
        self.ulps = ulps
        self.entry = [dict(zip(_VALUES, map(_entries, (side.entry, side.row0_entry)), strict=True)) for side in sides]
        self.infoset = [index(side.infoset) for side in sides]
        self.at: dict[tuple[int, str], int] = {}
        parts: dict[tuple[int, str], tuple[Any, int]] = {}
        self.size = 0
        for player, side in enumerate(sides):
            for name, dtype, many in (
                ("value", np.dtype(real), len(side.entry)),
                ("row0_value", np.dtype(real), len(side.row0_entry)),
                ("tie", np.dtype(np.float64), len(side.infoset)),
            ):
                self.at[player, name], parts[player, name] = self.size, (dtype, many)
                self.size += -(-many * dtype.itemsize // 16) * 16
        self.dtypes = {name: dtype for (_, name), (dtype, _) in parts.items()}
        self.staged = Pinned(self.size)
        self.arrays: dict[tuple[int, str], NDArray[Any]] = {
            key: self.staged.bytes[self.at[key] : self.at[key] + many * dtype.itemsize].view(dtype)
            for key, (dtype, many) in parts.items()
        }
        self.buffer = Buffer(self.size * instances)
        self.instances = instances

    def put(self, values: tuple[Floats, Floats], magnitudes: tuple[Floats, Floats], instance: int) -> None:
        """Write the values (nnz,) of both players' matrices and the magnitudes (I,) of one instance."""
        for player in (0, 1):
            for name, entry in self.entry[player].items():
                kernels.arrange(values[player], entry, self.arrays[player, name])
            kernels.thresholds(magnitudes[player], self.ulps, self.infoset[player], self.arrays[player, "tie"])
        self.buffer.write(self.staged.bytes, instance * self.size)

    def pointer(self, player: int, name: str) -> int:
        """Where the first instance's array begins."""
        return self.buffer.pointer + self.at[player, name]

    def stride(self, name: str) -> int:
        """How far apart two instances' arrays are, in elements."""
        return 0 if self.instances == 1 else self.size // int(self.dtypes[name].itemsize)


def _entries(entry: NDArray[np.int64]) -> NDArray[np.uint32]:
    return index(np.where(entry < 0, kernels.NOWHERE, entry))
