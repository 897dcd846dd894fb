"""Where every page lies: the one table that says what backs the experts, what backs the cache, and what is spare.

Pages move in packs: the device memory behind one unit of experts, one handle for each weight tensor. A pack is at home
(behind its unit's addresses), lent to the cache, or spare. A unit without a pack is served from a host pack, at the
same addresses. Four moves exist, two and two each other's inverse, and `check` holds after each:

    offload  unit: pack -> host pack, the pack becomes spare      restore  its inverse
    lend     a spare pack to the end of a cache region            reclaim  its inverse, from the end
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ballast_vamp.geometry import Region, Unit

Sizes = tuple[int, ...]


class Broken(AssertionError):
    """The table would say something that cannot be: a defect of VAMP, never a condition of the machine."""


@dataclass
class Pack:
    """Device memory of one unit's size. Exactly one of: home of `unit`, lent to `region`, spare (both None)."""

    id: int
    sizes: Sizes
    unit: int | None = None
    region: int | None = None

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    @property
    def spare(self) -> bool:
        return self.unit is None and self.region is None


@dataclass
class HostPack:
    """Host memory of one unit's size. of: the unit whose weights it holds; serving: whether it backs that unit now."""

    id: int
    sizes: Sizes
    of: int | None = None
    serving: bool = False

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


@dataclass
class PageTable:
    """State of one rank. Packs `0 .. len(units) - 1` start at home of the unit of the same number, the rest spare."""

    units: Sequence[Unit]
    regions: Sequence[Region]
    packs: list[Pack]
    hosts: list[HostPack]
    bytes: NDArray[np.float64] = field(init=False)
    home: list[int | None] = field(init=False)
    host: dict[int, int] = field(init=False)
    lent: list[list[int]] = field(init=False)
    away: set[int] = field(init=False, default_factory=set)
    spare: set[int] = field(init=False)
    _lent_bytes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """bytes: of each unit. home: pack behind each unit. host: host pack with a copy of a unit. lent: packs of each
        region, in order. away: units served from the host. spare: packs. The last two are kept for speed: a large model
        has tens of thousands of units."""
        self.bytes = np.array([unit.bytes for unit in self.units], dtype=np.float64)
        self.spare = {pack.id for pack in self.packs if pack.spare}
        self.home = [None] * len(self.units)
        for pack in self.packs:
            if pack.unit is not None:
                self.home[pack.unit] = pack.id
        self.host = {host.of: host.id for host in self.hosts if host.of is not None}
        self.lent = [[] for _ in self.regions]
        self._lent_bytes = [0 for _ in self.regions]

    # --- questions

    def capacity(self) -> int:
        """Blocks that have memory in every region."""
        return min(region.blocks(self.lent_bytes(index)) for index, region in enumerate(self.regions))

    def lent_bytes(self, region: int) -> int:
        return self._lent_bytes[region]

    def offloaded(self) -> list[int]:
        """Units served from the host."""
        return sorted(self.away)

    def offloaded_bytes(self) -> int:
        return sum(self.units[unit].bytes for unit in self.away)

    def spares(self) -> list[Pack]:
        return [self.packs[pack] for pack in sorted(self.spare)]

    def copy_of(self, unit: int) -> HostPack | None:
        """The host pack that holds a unit's weights, serving or not."""
        host = self.host.get(unit)
        return None if host is None else self.hosts[host]

    # --- moves

    def keep_copy(self, unit: int, host: int) -> None:
        """A host pack now holds a unit's weights; what it held before, of a unit at home, is forgotten."""
        pack = self.hosts[host]
        if pack.serving:
            raise Broken(f"host pack {host} serves unit {pack.of} and cannot be written")
        if pack.sizes != self.units[unit].sizes:
            raise Broken(f"host pack {host} has another size than unit {unit}")
        if unit in self.host:
            raise Broken(f"unit {unit} has a copy already")
        if pack.of is not None:
            del self.host[pack.of]
        pack.of = unit
        self.host[unit] = host

    def drop_copy(self, host: int) -> None:
        """A host pack holds nothing that counts: it is about to be written."""
        pack = self.hosts[host]
        if pack.serving:
            raise Broken(f"host pack {host} serves unit {pack.of} and cannot be dropped")
        if pack.of is not None:
            del self.host[pack.of]
            pack.of = None

    def offload(self, unit: int) -> int:
        """Serve a unit from its host copy; returns its pack, which is then spare."""
        home, host = self.home[unit], self.copy_of(unit)
        if home is None or host is None:
            raise Broken(f"unit {unit} needs a pack and a host copy to be offloaded")
        assert home is not None
        assert host is not None
        host.serving = True
        self.packs[home].unit = None
        self.home[unit] = None
        self.away.add(unit)
        self.spare.add(home)
        return home

    def restore(self, unit: int, pack: int) -> None:
        """Serve a unit from a spare pack that holds its weights. Its host copy is kept."""
        held, host = self.packs[pack], self.copy_of(unit)
        if self.home[unit] is not None or not held.spare:
            raise Broken(f"unit {unit} is at home already or pack {pack} is not spare")
        if held.sizes != self.units[unit].sizes:
            raise Broken(f"pack {pack} has another size than unit {unit}")
        assert host is not None
        host.serving = False
        held.unit = unit
        self.home[unit] = pack
        self.away.discard(unit)
        self.spare.discard(pack)

    def lend(self, pack: int, region: int) -> int:
        """Give a spare pack to the end of a region; returns the byte of the region at which it begins."""
        held = self.packs[pack]
        if not held.spare:
            raise Broken(f"pack {pack} is not spare")
        start = self.regions[region].backed + self.lent_bytes(region)
        if start + held.bytes > self.regions[region].limit:
            raise Broken(f"region {region} has no room for pack {pack}")
        held.region = region
        self.spare.discard(pack)
        self.lent[region].append(pack)
        self._lent_bytes[region] += held.bytes
        return start

    def reclaim(self, region: int) -> tuple[int, int]:
        """Take the last pack of a region back; returns it and the byte at which it began."""
        if not self.lent[region]:
            raise Broken(f"region {region} has nothing lent to it")
        pack = self.lent[region].pop()
        self._lent_bytes[region] -= self.packs[pack].bytes
        self.packs[pack].region = None
        self.spare.add(pack)
        return pack, self.regions[region].backed + self.lent_bytes(region)

    # --- invariants

    def check_units(self, units: Iterable[int]) -> None:
        """Raise Broken unless each of these units has exactly one backing."""
        for unit in units:
            pack, host = self.home[unit], self.copy_of(unit)
            served = host is not None and host.serving
            if (pack is not None) == served:
                raise Broken(f"unit {unit} is backed by pack {pack} and by the host: {served}")
            if pack is not None and self.packs[pack].unit != unit:
                raise Broken(f"pack {pack} is not at home of unit {unit}")

    def check(self) -> None:
        """Raise Broken unless every unit has exactly one backing and every pack and host pack exactly one place."""
        self.check_units(range(len(self.units)))
        if self.away != {unit for unit, pack in enumerate(self.home) if pack is None}:
            raise Broken("units away are miscounted")
        if self.spare != {pack.id for pack in self.packs if pack.spare}:
            raise Broken("spare packs are miscounted")
        for region, packs in enumerate(self.lent):
            if any(self.packs[pack].region != region for pack in packs):
                raise Broken(f"region {region} holds a foreign pack")
            lent = sum(self.packs[pack].bytes for pack in packs)
            if lent != self.lent_bytes(region):
                raise Broken(f"bytes lent to region {region} are miscounted")
            end = self.regions[region].backed + lent
            if packs and end > self.regions[region].limit:
                raise Broken(f"region {region} is backed beyond its end")
        placed = [pack for pack in self.home if pack is not None] + [pack for packs in self.lent for pack in packs]
        if len(placed) != len(set(placed)):
            raise Broken("a pack is in two places")
        if len(placed) + len(self.spares()) != len(self.packs):
            raise Broken("a pack is nowhere")
        if any(self.hosts[host].of != unit for unit, host in self.host.items()):
            raise Broken("a copy is of another unit")


def table(
    units: Sequence[Unit], regions: Sequence[Region], spares: Sequence[Sizes], hosts: Sequence[Sizes]
) -> PageTable:
    """A table with every unit at home, `spares` packs beside them, and empty host packs of the sizes given."""
    packs = [Pack(unit.id, unit.sizes, unit=unit.id) for unit in units]
    packs += [Pack(len(units) + n, sizes) for n, sizes in enumerate(spares)]
    return PageTable(units, regions, packs, [HostPack(n, sizes) for n, sizes in enumerate(hosts)])
