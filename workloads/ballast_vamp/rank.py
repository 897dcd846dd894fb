"""One rank moves pages: an order is prepared while the device works, and committed while it is idle.

Prepare writes what a move needs (host copies of units that leave, weights of units that come home) to memory that
nobody reads, so it can be dropped. Commit changes mappings only, in steps with inverses:

    synchronize     the device is idle; the engine's queue is in order, so every earlier step was launched before
    experts         unit by unit: unmap, map the other backing, at the same address
    cache           map the freed packs at the end of the cache's regions
    zero            old weights read as cache could be NaN, and 0 * NaN poisons attention
    reply

A failure before `zero` undoes everything by remapping. From `zero` on packs no longer hold weights: they stay spare,
and their units stay on the host, which is correct too. Capacity is what the table says; blocks are handed out by
the scheduler alone, when every rank has them. An order names a capacity, not a difference, so that it can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ballast_vamp import plan as plans
from ballast_vamp.journal import Journal, Unrecoverable
from ballast_vamp.moves import Moves
from ballast_vamp.pages import PageTable
from ballast_vamp.plan import Gain, Limits, Plan, Restore, Scores
from ballast_vamp.steps import Step
from ballast_vamp.store import Store
from ballast_vamp.vmm import VmmError

KEPT_SECONDS = 20.0  # a unit that came home stays that long, unless no other is left
SWAP_GAIN = Gain(times=2.0, least=3e-5)  # a swap of a few megabytes takes 1 ms, and pays for 30 s or so


class Direction(StrEnum):
    """What an order is about, as `vamp:repartition_total` has it."""

    GROW = "grow"
    SHRINK = "shrink"
    SWAP = "swap"


@dataclass(frozen=True)
class Order:
    """Bring the cache to `capacity` blocks, or as near as a chunk goes; for a swap it is left where it is."""

    direction: Direction
    capacity: int


@dataclass(frozen=True)
class Answer:
    """What a rank says to a prepare, commit or rollback. capacity: blocks that have memory on it, after a commit of
    what was prepared. changed: whether the order moves anything. handles: remapped, copied: bytes written."""

    ok: bool
    capacity: int
    message: str = ""
    changed: bool = False
    handles: int = 0
    copied: int = 0
    seconds: float = 0.0


@dataclass
class _Prepared:
    epoch: int
    plan: Plan
    handles: int
    slots: set[int] = field(default_factory=set)  # of the staging area, in use
    staged: list[tuple[int, int]] = field(default_factory=list)  # addresses and sizes mapped there


class Rank:
    """regions: address of each cache region's first block. fault: a step that fails, for tests."""

    def __init__(
        self,
        table: PageTable,
        store: Store,
        regions: Sequence[int],
        limits: Limits,
        fault: Step | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.table, self.store, self.limits = table, store, limits
        self.scores: Scores = np.zeros(len(table.units))
        self.moves = Moves(table, store, regions)
        self._fault, self._clock = fault, clock
        self._prepared: _Prepared | None = None
        self._came_home: dict[int, float] = {}

    # --- the protocol

    def prepare(self, epoch: int, order: Order) -> Answer:
        """Choose what to move and write what that needs. Nothing that the model reads is changed."""
        started = self._clock()
        if self._prepared is not None:
            self.rollback(self._prepared.epoch)
        plan = self._plan(order)
        handles = len(self.store.layers[0].rows) * plan.moves
        self._prepared = _Prepared(epoch, plan, handles)
        try:
            self._fail_at(Step.PREPARE)
            copied = self._write(self._prepared)
        except VmmError as error:
            self.rollback(epoch)
            return Answer(False, self.table.capacity(), f"prepare: {error}")
        return Answer(True, plan.capacity, "", plan.moves > 0, handles, copied, self._clock() - started)

    def commit(self, epoch: int) -> Answer:
        """Carry out what was prepared under this number. Raises journal.Unrecoverable if a failure cannot be undone."""
        started = self._clock()
        prepared = self._prepared
        if prepared is None or prepared.epoch != epoch:
            return Answer(False, self.table.capacity(), f"commit: epoch {epoch} is not prepared")
        if not prepared.plan.moves:
            self._prepared = None
            return Answer(True, self.table.capacity(), seconds=self._clock() - started)
        try:
            self._commit(prepared)
            self._fail_at(Step.REPLY)
        except VmmError as error:
            self.rollback(epoch)
            return Answer(False, self.table.capacity(), f"commit: {error}", seconds=self._clock() - started)
        self._prepared = None
        return Answer(True, self.table.capacity(), "", True, prepared.handles, 0, self._clock() - started)

    def rollback(self, epoch: int) -> Answer:
        """Forget what was prepared under this number and not committed. Raises Unrecoverable if that fails twice."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared.epoch == epoch:
            try:
                self._unwrite(prepared)
            except VmmError:
                self._unwrite_again(prepared)
        return Answer(True, self.table.capacity())

    def copy_ahead(self, budget: int) -> int:
        """Write host copies of the coldest units that have none, to empty host packs; returns the bytes written."""
        empty: dict[tuple[int, ...], list[int]] = {}
        for host in self.table.hosts:
            if host.of is None:
                empty.setdefault(host.sizes, []).append(host.id)
        written = 0
        for unit in plans.coldest(self.table, self.scores):
            if not any(empty.values()) or written >= budget:
                break
            free = empty.get(self.table.units[unit].sizes)
            if free and self.table.copy_of(unit) is None:
                self._copy_out(unit, free.pop())
                written += self.table.units[unit].bytes
        return written

    def forget_copies(self) -> None:
        """Weights were written anew: no copy of a unit at home is true any more, nor is what was prepared from one.
        Units on the host were written where they are."""
        if self._prepared is not None:
            self.rollback(self._prepared.epoch)
        self.store.vmm.synchronize()  # copies are made beside the work of the device, and must not begin before its end
        for host in self.table.hosts:
            if host.of is not None and not host.serving:
                self.table.drop_copy(host.id)

    # --- planning

    def _plan(self, order: Order) -> Plan:
        if order.direction is Direction.GROW:
            return plans.grow(self.table, order.capacity, self.scores, self.limits, self._kept())
        if order.direction is Direction.SHRINK:
            return plans.shrink(self.table, order.capacity, self.scores, self.limits)
        return plans.swap(self.table, self.scores, self.limits, SWAP_GAIN, self._kept())

    def next_grow(self, blocks: int) -> Plan:
        """What growing by some blocks would move now."""
        return plans.grow(self.table, self.table.capacity() + blocks, self.scores, self.limits, self._kept())

    def _kept(self) -> set[int]:
        now = self._clock()
        self._came_home = {unit: at for unit, at in self._came_home.items() if now - at < KEPT_SECONDS}
        return set(self._came_home)

    # --- prepare: writing to memory that nobody reads

    def _write(self, prepared: _Prepared) -> int:
        copied = 0
        for offload in prepared.plan.offloads:
            if offload.copy:
                self._copy_out(offload.unit, offload.host)
                copied += self.table.units[offload.unit].bytes
        if prepared.plan.reclaims:
            # A step that was launched before its request ended still writes to blocks that are parked by now.
            self.store.vmm.synchronize()
        for restore in prepared.plan.restores:
            host = self.table.copy_of(restore.unit)
            assert host is not None
            targets = self._writable(prepared, restore)
            for to, source, size in zip(targets, self.store.windows[host.id], host.sizes, strict=True):
                self.store.vmm.copy(to, source, size)
            copied += host.bytes
        return copied

    def _copy_out(self, unit: int, host: int) -> None:
        """Write a resident unit's weights to a host pack. The table learns of it when all of it was started."""
        self.table.drop_copy(host)
        for tensor, size in enumerate(self.table.units[unit].sizes):
            source = self.store.address(self.table.units[unit], tensor)
            self.store.vmm.copy(self.store.windows[host][tensor], source, size)
        self.table.keep_copy(unit, host)

    def _writable(self, prepared: _Prepared, restore: Restore) -> list[int]:
        """Addresses at which a pack can be written: in the cache, where its blocks are parked, or staged."""
        pack = self.table.packs[restore.pack]
        if pack.region is not None:
            return self.moves.lent_addresses(pack.region, self.table.lent[pack.region].index(restore.pack))
        addresses = self._staging(prepared, pack.sizes)
        for address, size, handle in zip(addresses, pack.sizes, self.store.packs[pack.id], strict=True):
            self.store.vmm.map(address, size, handle)  # new addresses: a kernel that runs cannot know them
            prepared.staged.append((address, size))
        return list(addresses)

    def _staging(self, prepared: _Prepared, sizes: tuple[int, ...]) -> tuple[int, ...]:
        free = (n for n, slot in enumerate(self.store.staging) if n not in prepared.slots and slot[0] == sizes)
        number = next(free, None)
        if number is None:  # a failure left more packs spare than are kept
            number = self.store.add_staging(sizes)
        prepared.slots.add(number)
        return self.store.staging[number][1]

    def _unwrite(self, prepared: _Prepared) -> None:
        """Take prepared memory back: nothing staged is mapped, and parked blocks hold zeros, not weights."""
        self.store.vmm.synchronize()
        self._unstage(prepared)
        for restore in prepared.plan.restores:
            pack = self.table.packs[restore.pack]
            if pack.region is not None:
                at = self.moves.lent_addresses(pack.region, self.table.lent[pack.region].index(pack.id))
                self.moves.zero(list(zip(at, pack.sizes, strict=True)))

    def _unwrite_again(self, prepared: _Prepared) -> None:
        try:
            self._unwrite(prepared)
        except VmmError as error:
            raise Unrecoverable(f"memory that was prepared cannot be taken back: {error}") from error

    def _unstage(self, prepared: _Prepared) -> None:
        while prepared.staged:
            self.store.vmm.unmap(*prepared.staged[-1])
            prepared.staged.pop()

    # --- commit: changing mappings of an idle device

    def _commit(self, prepared: _Prepared) -> None:
        plan, moved, lent = prepared.plan, Journal(), Journal()
        touched = [offload.unit for offload in plan.offloads] + [restore.unit for restore in plan.restores]
        self._fail_at(Step.SYNCHRONIZE)
        self.store.vmm.synchronize()
        try:
            self._fail_at(Step.EXPERT)
            for region in plan.reclaims:
                self.moves.reclaim(moved, region)
            for offload in plan.offloads:
                self.moves.offload(moved, offload.unit)
            for restore in plan.restores:
                self.moves.restore(moved, restore.unit, restore.pack)
            self._fail_at(Step.KV)
            written = [part for lend in plan.lends for part in self.moves.lend(lent, lend.pack, lend.region)]
        except VmmError:
            lent.undo()
            moved.undo()
            self.table.check_units(touched)
            raise
        if written:
            try:
                self._fail_at(Step.ZERO)
                self.moves.zero(written)
            except VmmError:
                self.store.vmm.synchronize()
                lent.undo()
                raise
        self._unstage(prepared)
        self._came_home.update((restore.unit, self._clock()) for restore in plan.restores)
        self.table.check_units(touched)

    def _fail_at(self, step: Step) -> None:
        if self._fault is step:
            raise VmmError(step, "an injected fault", memory=True)
