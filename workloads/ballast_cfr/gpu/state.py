"""What the GPU holds of a solve: both players' arrays, for one instance or a batch of them over one game."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.game import Floats
from ballast_cfr.gpu.device import Buffer, buffer
from ballast_cfr.gpu.layout import Side
from ballast_cfr.gpu.payoffs import NAMES, Payoffs
from ballast_cfr.gpu.work import Items, Sets

_POINTERS = [
    "descriptor",
    "item",
    "set",
    "below",
    "above",
    "tie",
    "row",
    "value",
    "column",
    "longs",
    "regret",
    "average",
    "sigma",
    "plan",
    "g",
    "v",
    "cut",
    "trunk",
]
_STRIDES = ["state", "plan", "value", "tie", "item", "row0", "set", "below", "g", "v", "cut", "trunk"]

ARRAYS = np.dtype(
    [*((name, "u8") for name in _POINTERS), ("entry0_end", "u4"), ("row0_value", "u8"), ("row0_column", "u8")],
    align=True,
)
PROBLEM = np.dtype(
    [
        ("player", ARRAYS, 2),
        *((name, "u8") for name in ("weight", "positive", "negative", "looks", "found", "status", "barrier")),
        *((name, "f8") for name in ("predict", "target", "shift")),
        *((name, "u4") for name in ("iterations", "n_looks")),
        *((f"stride_{name}", "u4", 2) for name in _STRIDES),
    ],
    align=True,
)


class SideState:
    """One player's buffers. What instances may differ in has a row for each of them."""

    def __init__(self, program: Program, player: int, side: Side, column: int, payoffs: Payoffs):
        self.side, self.payoffs, self.player = side, payoffs, player
        self.instances = instances = payoffs.instances
        self.real = payoffs.dtypes["value"]
        self.plex = program.plex[player]
        arrays = side.arrays
        self.buffers: dict[str, Buffer] = {}
        for name in ("descriptor", "longs"):
            self.buffers[name] = buffer(arrays[name].astype(np.uint32))
        for name in ("column", "row0_column"):
            self.buffers[name] = buffer(arrays[name].astype(f"u{column}"))
        self.buffers["row"] = buffer(arrays["row"])
        self.work = (Sets if "set" in arrays else Items)(side, instances)
        slots = side.slots
        self.counts = {
            "regret": slots, "average": slots, "sigma": slots, "plan": slots + 1, "g": side.g, "v": side.v,
            "cut": side.all_roots, "trunk": side.trunk,
        }  # fmt: skip
        for name, count in self.counts.items():
            self.buffers[name] = Buffer(count * instances * np.dtype(self.dtype_of(name)).itemsize)
        for name in ("g", "v", "cut", "trunk"):
            self.buffers[name].fill(0xFF)  # not a number, should anything read what nothing wrote
        self.start = np.tile(1.0 / np.diff(self.plex.first)[self.plex.of_slot], (instances, 1))
        self.buffers |= self.work.buffers
        self.counts |= self.work.counts
        self.reset()

    def reset(self) -> None:
        """Back to no regrets and the uniform strategy, or what is locked."""
        slots = self.side.slots
        zeros = np.zeros((self.instances, slots))
        self.put("regret", zeros)
        self.put("average", zeros)
        self.put("sigma", self.start)
        self.realise()

    def realise(self) -> None:
        """The plans of the strategies as they are, in the order and roundings of the kernels."""
        sigma = self.get("sigma")
        x = np.ones((self.instances, self.side.slots + 1), dtype=self.real)
        first, parent = self.plex.first, self.plex.parent
        for start, stop in self.plex.levels():
            a, b = first[start], first[stop]
            above = np.repeat(parent[start:stop], np.diff(first[start : stop + 1]))
            x[:, a + 1 : b + 1] = x[:, above] * sigma[:, a:b]
        ordered = np.ones_like(x)
        ordered[:, 1:] = x[:, self.side.slot + 1]
        self.buffers["plan"].write(ordered)

    def dtype_of(self, name: str) -> Any:
        return np.float64 if name in ("regret", "average") else self.real

    def put(self, name: str, values: NDArray[Any], instance: int | None = None) -> None:
        """Write a state array, (instances, S) or (S,) of one, in the treeplex's order."""
        ordered = np.ascontiguousarray(values[..., self.side.slot], dtype=self.dtype_of(name))
        self.buffers[name].write(ordered, 0 if instance is None else instance * ordered.nbytes)

    def get(self, name: str) -> NDArray[Any]:
        """A state array, (instances, S), in the treeplex's order."""
        slots = self.side.slots
        ordered = self.buffers[name].read(self.dtype_of(name), self.instances * slots).reshape(self.instances, slots)
        result = np.empty_like(ordered)
        result[:, self.side.slot] = ordered
        return result

    def hold(self, infoset: int, live: NDArray[np.bool_] | None, sigma: Floats, instance: int) -> None:
        """Lock one information set of the treeplex to `sigma`, or, with `live` (actions,), forbid the others of its
        actions, which the average forgets; its regrets become 0."""
        a, b = (int(k) for k in self.plex.first[infoset : infoset + 2])
        where = int(np.flatnonzero(self.side.slot == a)[0])
        self.work.hold(where, b - a, live, instance)
        self.start[instance, a:b] = sigma
        at = instance * self.side.slots + where
        self.buffers["sigma"].write(sigma.astype(self.real), at * self.real.itemsize)
        self.buffers["regret"].write(np.zeros(b - a), at * 8)
        if live is not None:
            average = self.buffers["average"]
            average.write(average.read(np.float64, b - a, at * 8) * live, at * 8)

    def describe(self, to: Any) -> None:
        """Fill in the struct `Arrays` of kernels/memory.cu."""
        for name in (*_POINTERS, "row0_value", "row0_column"):
            if name in NAMES:
                to[name] = self.payoffs.pointer(self.player, name)
            elif name in self.buffers:
                to[name] = self.buffers[name].pointer
        to["entry0_end"] = len(self.side.row0_entry)

    def stride(self, name: str) -> int:
        """How far apart two instances' arrays are."""
        array = {"state": "regret", "row0": "row0_value"}.get(name, name)
        if array in NAMES:
            return self.payoffs.stride(array)
        return 0 if self.instances == 1 else self.counts.get(array, 0)


def problem(sides: tuple[SideState, SideState], rest: dict[str, Any]) -> NDArray[Any]:
    """The kernel's argument, as bytes."""
    made = np.zeros(1, dtype=PROBLEM)
    for player, side in enumerate(sides):
        side.describe(made["player"][0, player])
    for name, value in rest.items():
        made[name] = value
    for name in _STRIDES:
        made[f"stride_{name}"] = [[side.stride(name) for side in sides]]
    return made
