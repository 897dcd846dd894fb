"""Stand-ins for tests: a rank on a fake device whose memory says what it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ballast_vamp import geometry, pages
from ballast_vamp.fake_vmm import ZEROS, FakeVmm, out_of_memory
from ballast_vamp.geometry import Layer, Region
from ballast_vamp.plan import Limits
from ballast_vamp.rank import Rank
from ballast_vamp.steps import Step
from ballast_vamp.store import Store, host_sizes
from ballast_vamp.vmm import Where

PAGE = 16


class FailOnce:
    """Fails the n-th driver call from when it was armed, once."""

    def __init__(self) -> None:
        self.left: int | None = None

    def __call__(self, call: str) -> None:
        if self.left is None or call in ("reserve", "create"):
            return
        self.left -= 1
        if self.left <= 0:
            self.left = None
            raise out_of_memory(call)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Machine:
    """A rank, what it stands on, and what its memory must hold."""

    rank: Rank
    vmm: FakeVmm
    fail: FailOnce
    clock: Clock
    regions: list[int]
    made: int = field(init=False)

    def __post_init__(self) -> None:
        self.made = len(self.vmm.alive)

    def check(self, parked_from: int) -> None:
        """Every expert reads its own weights, every block that is handed out keeps its content, nothing leaked."""
        table, store = self.rank.table, self.rank.store
        table.check()
        for unit in table.units:
            for tensor, size in enumerate(unit.sizes):
                assert self.vmm.read(store.address(unit, tensor), size) == ("weights", unit.id, tensor)
        for index, region in enumerate(table.regions):
            address = self.regions[index] + region.backed
            for pack in table.lent[index]:
                for size in table.packs[pack].sizes:
                    holds = self.vmm.read(address, size)
                    assert holds in (ZEROS, "cache"), f"region {index} holds {holds}"
                    begins = (address - self.regions[index]) // region.block_bytes
                    assert holds == "cache" or begins >= parked_from or holds == ZEROS
                    address += size
        assert len(self.vmm.alive) == self.made, "handles were made or lost"
        lent = sum(len(packs) for packs in table.lent)
        away, spare = len(table.offloaded()), len(table.spares())
        assert lent + spare == away + len(store.packs) - len(table.units)


def machine(
    layers: int = 3,
    experts: int = 16,
    rows: tuple[int, ...] = (2 * PAGE, PAGE),
    regions: int = 2,
    block_bytes: int = PAGE,
    physical: int = 10,
    virtual: int = 60,
    spares: int = 2,
    hosts: int = 1 << 30,
    limits: Limits | None = None,
    fault: Step | None = None,
    scores: Callable[[int], float] = float,
) -> Machine:
    """A small rank: units of one expert, blocks of one page, unless told otherwise. scores: of a unit, by number."""
    fail, clock = FailOnce(), Clock()
    vmm = FakeVmm(granularity=PAGE, fail=fail)
    shape = [Layer(experts, rows)] * layers
    units = geometry.units(shape, PAGE)
    store = Store(vmm, shape, units)
    for layer in range(layers):
        store.house(layer)
    for unit in units:
        for tensor, size in enumerate(unit.sizes):
            vmm.write(store.address(unit, tensor), size, ("weights", unit.id, tensor))
    for _ in range(spares):
        store.add_spare(units[0].sizes)
    sizes = host_sizes(units, range(len(units)), hosts)
    for host in sizes:
        store.add_host(host)
    shapes, bases = [], []
    for _ in range(regions):
        base = vmm.reserve(virtual * block_bytes)
        vmm.map(base, physical * block_bytes, vmm.create(physical * block_bytes, Where.DEVICE))
        shapes.append(Region(block_bytes, physical * block_bytes, virtual * block_bytes))
        bases.append(base)
    table = pages.table(units, shapes, [units[0].sizes] * spares, sizes)
    total = sum(layer.bytes for layer in shape)
    rank = Rank(table, store, bases, limits or Limits(1 << 30, total // 2, spares), fault, clock)
    rank.scores = np.array([scores(unit.id) for unit in units])
    return Machine(rank, vmm, fail, clock, bases)
