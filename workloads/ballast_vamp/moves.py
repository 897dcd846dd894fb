"""The moves of pages, each a change of mappings and of the table's books together, with its inverse in a journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ballast_vamp.journal import Journal
from ballast_vamp.pages import PageTable
from ballast_vamp.store import Store
from ballast_vamp.vmm import Handle


class Moves:
    """On an idle device only. regions: address of each cache region's first block."""

    def __init__(self, table: PageTable, store: Store, regions: Sequence[int]) -> None:
        self._table, self._store, self.regions = table, store, regions

    def _remap(self, journal: Journal, address: int, size: int, old: Handle | None, new: Handle | None) -> None:
        """Exchange the memory behind an address; None is no memory."""
        vmm = self._store.vmm
        if old is not None:
            journal.do(lambda: vmm.unmap(address, size), lambda: vmm.map(address, size, old))
        if new is not None:
            journal.do(lambda: vmm.map(address, size, new), lambda: vmm.unmap(address, size))

    def offload(self, journal: Journal, unit: int) -> None:
        """Serve a unit from its host copy: its pack is spare then."""
        table = self._table
        pack, host = table.home[unit], table.copy_of(unit)
        assert pack is not None
        assert host is not None
        for tensor, size in enumerate(table.units[unit].sizes):
            old, new = self._store.packs[pack][tensor], self._store.hosts[host.id][tensor]
            self._remap(journal, self._store.address(table.units[unit], tensor), size, old, new)
        journal.do(lambda: table.offload(unit), lambda: table.restore(unit, pack))

    def restore(self, journal: Journal, unit: int, pack: int) -> None:
        """Serve a unit from a spare pack that holds its weights."""
        table = self._table
        host = table.copy_of(unit)
        assert host is not None
        for tensor, size in enumerate(table.units[unit].sizes):
            old, new = self._store.hosts[host.id][tensor], self._store.packs[pack][tensor]
            self._remap(journal, self._store.address(table.units[unit], tensor), size, old, new)
        journal.do(lambda: table.restore(unit, pack), lambda: table.offload(unit))

    def lend(self, journal: Journal, pack: int, region: int) -> list[tuple[int, int]]:
        """Map a spare pack at the end of a region; returns addresses and sizes of what was added."""
        journal.do(lambda: self._table.lend(pack, region), lambda: self._table.reclaim(region))
        at, sizes = self.lent_addresses(region, len(self._table.lent[region]) - 1), self._table.packs[pack].sizes
        for address, size, handle in zip(at, sizes, self._store.packs[pack], strict=True):
            self._remap(journal, address, size, None, handle)
        return list(zip(at, sizes, strict=True))

    def reclaim(self, journal: Journal, region: int) -> None:
        """Unmap the last pack of a region, which is spare then."""
        pack = self._table.lent[region][-1]
        at = self.lent_addresses(region, len(self._table.lent[region]) - 1)
        for address, size, handle in zip(at, self._table.packs[pack].sizes, self._store.packs[pack], strict=True):
            self._remap(journal, address, size, handle, None)
        journal.do(lambda: self._table.reclaim(region), lambda: self._table.lend(pack, region))

    def lent_addresses(self, region: int, place: int) -> list[int]:
        """Addresses of the parts of the pack at a place in a region."""
        table = self._table
        before = table.lent_bytes(region) - sum(table.packs[pack].bytes for pack in table.lent[region][place:])
        address, found = self.regions[region] + table.regions[region].backed + before, []
        for size in table.packs[table.lent[region][place]].sizes:
            found.append(address)
            address += size
        return found

    def zero(self, parts: Sequence[tuple[int, int]]) -> None:
        """Write zeros to addresses and sizes, and wait for it."""
        for address, size in joined(parts):
            self._store.vmm.zero(address, size)
        self._store.vmm.synchronize()


def joined(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Addresses and sizes, where one ends at which another begins as one."""
    found: list[tuple[int, int]] = []
    for address, size in sorted(parts):
        if found and sum(found[-1]) == address:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((address, size))
    return found
