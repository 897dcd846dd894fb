"""Expert weights and host copies in memory of our own: every unit behind handles of its own, at addresses that stay.

tensor of a layer   |pad|  base (a remainder that never moves)  | unit | unit | ... | unit |
                        ^ the tensor's first byte, chosen so that units begin on pages
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ballast_vamp.geometry import Layer, Unit
from ballast_vamp.pages import Sizes
from ballast_vamp.vmm import Handle, Vmm, Where


@dataclass
class Store:
    """tensors: address of each weight tensor, [layer][tensor]. packs, hosts: handles of each, by number.

    windows: addresses at which each host pack can always be written. staging: sizes and addresses for spare packs.
    """

    vmm: Vmm
    layers: Sequence[Layer]
    units: Sequence[Unit]
    tensors: list[tuple[int, ...]] = field(default_factory=list)
    packs: list[tuple[Handle, ...]] = field(default_factory=list)
    hosts: list[tuple[Handle, ...]] = field(default_factory=list)
    windows: list[tuple[int, ...]] = field(default_factory=list)
    staging: list[tuple[Sizes, tuple[int, ...]]] = field(default_factory=list)

    def house(self, layer: int) -> tuple[int, ...]:
        """Make the memory of one layer, the next one in order; returns its tensors' addresses, nothing written yet."""
        mine = [unit for unit in self.units if unit.layer == layer]
        shape = self.layers[layer]
        bases = tuple(self._tensor(shape.experts * row, [unit.first * row for unit in mine]) for row in shape.rows)
        self.tensors.append(bases)
        for unit in mine:
            handles = []
            for tensor, size in enumerate(unit.sizes):
                handle = self.vmm.create(size, Where.DEVICE)
                self.vmm.map(self.address(unit, tensor), size, handle)
                handles.append(handle)
            self.packs.append(tuple(handles))
        return bases

    def _tensor(self, size: int, starts: Sequence[int]) -> int:
        """Reserve a tensor whose first unit begins on a page; memory for what lies before it is made here."""
        page = self.vmm.granularity
        before = min(starts, default=size)
        pad = -before % page
        whole = -(-(pad + size) // page) * page
        address = self.vmm.reserve(whole)
        if before + pad:
            self.vmm.map(address, before + pad, self.vmm.create(before + pad, Where.DEVICE))
        return address + pad

    def address(self, unit: Unit, tensor: int) -> int:
        """Where a unit's rows of a tensor lie."""
        return self.tensors[unit.layer][tensor] + unit.first * self.layers[unit.layer].rows[tensor]

    def add_spare(self, sizes: Sizes) -> None:
        """One more pack, at home nowhere, and addresses at which one such pack can be written."""
        self.packs.append(tuple(self.vmm.create(size, Where.DEVICE) for size in sizes))
        self.add_staging(sizes)

    def add_staging(self, sizes: Sizes) -> int:
        """Addresses at which one more pack of these sizes can be written; returns their number."""
        self.staging.append((sizes, tuple(self.vmm.reserve(size) for size in sizes)))
        return len(self.staging) - 1

    def add_host(self, sizes: Sizes) -> None:
        """One more host pack, with its window. Slow (0.3 s/GiB: its pages are pinned), so it is done at load time."""
        handles, windows = [], []
        for size in sizes:
            handle, window = self.vmm.create(size, Where.HOST), self.vmm.reserve(size)
            self.vmm.map(window, size, handle)
            handles.append(handle)
            windows.append(window)
        self.hosts.append(tuple(handles))
        self.windows.append(tuple(windows))


def host_sizes(units: Sequence[Unit], coldest: Sequence[int], budget: int) -> list[Sizes]:
    """Sizes of host packs that a budget pays for, so that the coldest units can all have one."""
    sizes, left = [], budget
    for unit in coldest:
        if units[unit].bytes > left:
            break
        left -= units[unit].bytes
        sizes.append(units[unit].sizes)
    return sizes
