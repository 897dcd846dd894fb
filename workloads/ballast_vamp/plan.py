"""Which pages to move: coldest experts first, over all layers, within floors and caps. Pure: a table in, a plan out.

Coldness is given as the expected seconds per second that serving a unit from the host would cost (`scores`), so the
order is by cost per byte freed. Layers are not treated alike: the coldest expert of all goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast_vamp.pages import HostPack, PageTable, Sizes

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """chunk: bytes moved in one commit at most. offload: bytes of experts on the host at most."""

    chunk: int
    offload: int
    reserve: int  # spare packs that are kept for swaps


@dataclass(frozen=True)
class Gain:
    """When a swap pays. least: seconds a second."""

    times: float
    least: float

    def worth(self, hot: float, cold: float) -> bool:
        return hot > self.times * cold and hot - cold > self.least


@dataclass(frozen=True)
class Offload:
    """Serve `unit` from host pack `host`, written first where `copy` says so."""

    unit: int
    host: int
    copy: bool


@dataclass(frozen=True)
class Restore:
    """Serve `unit` from `pack`, which is written first. pack may still be lent when the plan is made."""

    unit: int
    pack: int


@dataclass(frozen=True)
class Lend:
    pack: int
    region: int


@dataclass(frozen=True)
class Plan:
    """Moves in the order of their fields. capacity: blocks with memory afterwards."""

    capacity: int
    reclaims: tuple[int, ...] = ()
    offloads: tuple[Offload, ...] = ()
    lends: tuple[Lend, ...] = ()
    restores: tuple[Restore, ...] = ()

    @property
    def moves(self) -> int:
        """Packs that are mapped or unmapped."""
        return len(self.reclaims) + len(self.offloads) + len(self.lends) + len(self.restores)


class Hosts:
    """Host packs still to be had while a plan is made: a unit's own copy, an empty pack, or the hottest unit's copy."""

    def __init__(self, table: PageTable, scores: Scores) -> None:
        self._table, self._scores = table, scores
        self._taken: set[int] = set()
        self._empty: dict[Sizes, Iterator[HostPack]] = {}
        self._copies: dict[Sizes, Iterator[HostPack]] = {}

    def take(self, unit: int) -> Offload | None:
        """A host pack for a unit, None if there is none."""
        own = self._table.copy_of(unit)
        if own is not None and own.id not in self._taken:
            self._taken.add(own.id)
            return Offload(unit, own.id, copy=False)
        sizes = self._table.units[unit].sizes
        host = next(self._packs(self._empty, sizes, self._unwritten), None)
        if host is None:
            host = next((h for h in self._packs(self._copies, sizes, self._written) if h.id not in self._taken), None)
        if host is None:
            return None
        self._taken.add(host.id)
        return Offload(unit, host.id, copy=True)

    def _packs(
        self, known: dict[Sizes, Iterator[HostPack]], sizes: Sizes, find: Callable[[Sizes], Iterator[HostPack]]
    ) -> Iterator[HostPack]:
        """A large model has thousands of packs, and a plan takes a few: they are looked for when they are needed."""
        if sizes not in known:
            known[sizes] = find(sizes)
        return known[sizes]

    def _unwritten(self, sizes: Sizes) -> Iterator[HostPack]:
        return (host for host in self._table.hosts if host.of is None and host.sizes == sizes)

    def _written(self, sizes: Sizes) -> Iterator[HostPack]:
        """Copies of what is least likely to leave come first."""
        copies = [
            (self._scores[host.of] / host.bytes, host)
            for host in self._table.hosts
            if host.of is not None and not host.serving and host.sizes == sizes
        ]
        return (host for _, host in sorted(copies, key=lambda scored: scored[0], reverse=True))


def coldest(table: PageTable, scores: Scores, kept: Collection[int] = ()) -> Iterator[int]:
    """Resident units, coldest byte first; those in `kept` come after all others."""
    per_byte = scores / table.bytes
    late: list[int] = []
    for unit in np.argsort(per_byte, kind="stable").tolist():
        if table.home[unit] is None:
            continue
        if unit in kept:
            late.append(unit)
        else:
            yield unit
    yield from late


class _Filling:
    """Regions as they fill while a plan is made. blocks: that have memory, of each."""

    def __init__(self, table: PageTable) -> None:
        self._regions = table.regions
        self.lent = [table.lent_bytes(region) for region in range(len(table.regions))]
        self.blocks = [region.blocks(lent) for region, lent in zip(table.regions, self.lent, strict=True)]

    def add(self, region: int, size: int) -> None:
        self.lent[region] += size
        self.blocks[region] = self._regions[region].blocks(self.lent[region])

    def capacity(self) -> int:
        return min(self.blocks)

    def lowest(self) -> int:
        return self.blocks.index(min(self.blocks))

    def fits(self, region: int, size: int) -> bool:
        at = self._regions[region]
        return at.backed + self.lent[region] + size <= at.limit


def grow(table: PageTable, target: int, scores: Scores, limits: Limits, kept: Collection[int] = ()) -> Plan:
    """Offload the coldest units until `target` blocks have memory, or as near to it as the limits allow.

    Spare packs beyond the reserve are lent first. Moves that would not raise the capacity are left out.
    """
    filling, hosts = _Filling(table), Hosts(table, scores)
    spares = [pack.id for pack in table.spares()][limits.reserve :]
    cold, room = coldest(table, scores, kept), limits.offload - table.offloaded_bytes()
    offloads: list[Offload] = []
    lends: list[Lend] = []
    moved, useful, capacity = 0, (0, 0), filling.capacity()
    while capacity < target and moved < limits.chunk:
        region = filling.lowest()
        offload, pack = None, next((p for p in spares if filling.fits(region, table.packs[p].bytes)), None)
        if pack is not None:
            spares.remove(pack)
        else:
            offload = _next_offload(table, cold, hosts, filling, region, room)
            if offload is None:
                break
            home = table.home[offload.unit]
            assert home is not None
            pack, room = home, room - table.units[offload.unit].bytes
            offloads.append(offload)
        lends.append(Lend(pack, region))
        filling.add(region, table.packs[pack].bytes)
        moved += table.packs[pack].bytes
        if filling.capacity() > capacity:
            capacity, useful = filling.capacity(), (len(offloads), len(lends))
    return Plan(capacity, offloads=tuple(offloads[: useful[0]]), lends=tuple(lends[: useful[1]]))


def _next_offload(
    table: PageTable, cold: Iterator[int], hosts: Hosts, filling: _Filling, region: int, room: int
) -> Offload | None:
    for unit in cold:
        size = table.units[unit].bytes
        if size > room:
            return None
        if filling.fits(region, size) and (offload := hosts.take(unit)) is not None:
            return offload
    return None


def shrink(table: PageTable, target: int, scores: Scores, limits: Limits) -> Plan:
    """Take memory that blocks from `target` on do not need back, and bring the hottest units home with it."""
    reclaims: list[int] = []
    moved = 0
    free: list[int] = [pack.id for pack in table.spares()][limits.reserve :]
    lent = [list(packs) for packs in table.lent]
    filling = _Filling(table)
    for region, packs in enumerate(lent):
        at = table.regions[region]
        while packs and moved < limits.chunk:
            size = table.packs[packs[-1]].bytes
            if at.blocks(filling.lent[region] - size) < target:
                break
            filling.add(region, -size)
            free.append(packs.pop())
            moved += size
            reclaims.append(region)
    return Plan(filling.capacity(), reclaims=tuple(reclaims), restores=_bring_home(table, free, scores))


def _bring_home(table: PageTable, free: Sequence[int], scores: Scores) -> tuple[Restore, ...]:
    """The hottest units on the host, each with a free pack of its size."""
    by_size: dict[tuple[int, ...], list[int]] = {}
    for pack in free:
        by_size.setdefault(table.packs[pack].sizes, []).append(pack)
    away = sorted(table.offloaded(), key=lambda unit: -scores[unit] / table.units[unit].bytes)
    restores = []
    for unit in away:
        packs = by_size.get(table.units[unit].sizes)
        if packs:
            restores.append(Restore(unit, packs.pop()))
    return tuple(restores)


def swap(table: PageTable, scores: Scores, limits: Limits, gain: Gain, kept: Collection[int] = ()) -> Plan:
    """Exchange hot units on the host for cold ones at home, as many as there are spare packs, cache untouched.

    A pair is worth it if the hot unit costs more than `gain.times` the cold one, and `gain.least` more.
    """
    hosts, cold = Hosts(table, scores), coldest(table, scores, kept)
    spares: dict[tuple[int, ...], list[int]] = {}
    for pack in table.spares():
        spares.setdefault(pack.sizes, []).append(pack.id)
    away = sorted(table.offloaded(), key=lambda unit: -scores[unit] / table.units[unit].bytes)
    restores, offloads, moved = [], [], 0
    for hot in away:
        unit = table.units[hot]
        if moved + unit.bytes > limits.chunk or not spares.get(unit.sizes):
            break
        leaves = next((u for u in cold if table.units[u].sizes == unit.sizes), None)
        if leaves is None or leaves in kept or not gain.worth(scores[hot], scores[leaves]):
            break
        offload = hosts.take(leaves)
        if offload is None:
            break
        restores.append(Restore(hot, spares[unit.sizes].pop()))
        offloads.append(offload)
        moved += unit.bytes
    return Plan(table.capacity(), offloads=tuple(offloads), restores=tuple(restores))
