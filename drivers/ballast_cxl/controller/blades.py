"""A CXLBlade against its appliance: its geometry, memory that nobody owns, memory that is lost, owners that are gone.

The ledger is what was meant, the appliance is what is so. Where they differ, the difference is written down, and after
a while something is done about it: a region whose memory is gone is lost; an entry whose region is gone is released;
memory that no ledger knows is reported or, if the installation says so, overwritten and freed.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from ballast_api.conditions import Reason, Type
from ballast_api.cxlblade import CXLBlade, CXLBladeStatus, Drift, Geometry, Reservation, ReservationState
from ballast_cxl.controller.release import Release
from ballast_cxl.controller.world import Held, World
from ballast_cxl.fabric.interface import FabricError, Inventory
from ballast_cxl.grid import Grid
from ballast_cxl.ledger import book
from ballast_cxl.metrics import DRIFT, LEAKED
from ballast_cxl.names import FINALIZER
from ballast_cxl.quantity import to_text
from ballast_cxl.resources import CXL_BLADE, CXL_REGION
from ballast_operator.objects import Key, Object, digest, format_time, parse_time
from ballast_operator.observe.conditions import Answer, merge

log = logging.getLogger(__name__)

RELEASE_SECONDS = 3.0


@dataclass
class Blades:
    """Looks after all CXLBlades."""

    world: World
    _looked: dict[str, float] = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)  # uid of an entry: since when its region is gone

    def __post_init__(self) -> None:
        self.release = Release(self.world)

    async def reconcile(self, key: Key) -> float | None:
        obj = self.world.cache.get(CXL_BLADE, "", key.name)
        if obj is None:
            self._looked.pop(key.name, None)
            return None
        blade = CXLBlade.model_validate(obj)
        if blade.metadata.deletion_timestamp and not blade.status.reservations:
            await self.world.drop_finalizers(CXL_BLADE, obj, FINALIZER)
            return None
        if blade.metadata.deletion_timestamp is None:
            await self.world.add_finalizer(CXL_BLADE, obj, FINALIZER)  # the ledger must outlive what it lists
        pause = self._until_due(blade)
        if pause <= 0:
            self._looked[key.name] = self.world.monotonic()
            await self._look(key.name)
            pause = float(self.world.settings.sweep_seconds)
        busy = await self._release_ownerless(key.name)
        return min(pause, RELEASE_SECONDS) if busy else pause

    def _until_due(self, blade: CXLBlade) -> float:
        """Seconds until the appliance is to be asked again; each change of the ledger brings us here, and few ask."""
        if blade.status.observed_generation != blade.metadata.generation:
            return 0.0
        last = self._looked.get(blade.metadata.name)
        return 0.0 if last is None else last + self.world.settings.sweep_seconds - self.world.monotonic()

    async def _look(self, name: str) -> None:
        """Compare ledger and appliance, and write down what came of it."""
        blade = await self.world.store.read(name)
        try:
            seen = await (await self.world.fabrics.of(blade)).look()
            grid = seen.grid
        except FabricError as error:
            answer = Answer(Type.READY, False, Reason.APPLIANCE_UNREACHABLE, str(error))
            await self.world.store.change(name, lambda b: self._said(b, b.status, [answer]))
            raise
        before = {entry.uid: entry.memory_id for entry in blade.status.reservations if not entry.operation}
        await self.world.store.change(name, lambda b: self._compared(b, seen, grid, before))
        await self._adopt_leaks(name, seen)

    def _compared(
        self, blade: CXLBlade, seen: Inventory, grid: Grid, before: Mapping[str, str | None]
    ) -> CXLBladeStatus:
        """The ledger after a look at its appliance. before: memory by entry, as the ledger had it before the look; what
        was composed since then is not missing from it."""
        status = blade.status
        found = Geometry(channels=grid.channels, blocks_per_channel=grid.rows, block_size=to_text(grid.block_bytes))
        if status.geometry is None:
            status = status.model_copy(update={"geometry": found})
        if status.geometry != found:
            message = (
                f"the appliance tells of {grid.channels} x {grid.rows} blocks of {to_text(grid.block_bytes)}, not of "
                "those that the ledger was begun with; nothing is placed here until it does again"
            )
            return self._said(blade, status, [Answer(Type.READY, False, Reason.GEOMETRY_CHANGED, message)])
        status = book.lapsed(status, self.world.clock() - timedelta(seconds=self.world.settings.operation_seconds))
        for entry in status.reservations:
            if before.get(entry.uid) == entry.memory_id and self._lost(entry, seen):
                log.error("blade %s has forgotten memory %s of %s", blade.metadata.name, entry.memory_id, entry.name)
                status = book.forgotten(status, entry.uid, entry.memory_id)
        status = status.model_copy(update={"drift": self._drift(status, seen)})
        ready = Answer(Type.READY, True, Reason.READY, "the appliance answers, and has what the ledger says")
        return self._said(blade, status, [ready, self._degraded(blade, status)])

    def _lost(self, entry: Reservation, seen: Inventory) -> bool:
        """Whether the appliance lacks memory that it should have; not while somebody is at work on it."""
        if entry.memory_id is None or entry.operation or entry.state is not ReservationState.COMPOSED:
            return False
        memory = seen.memory(entry.memory_id)
        return memory is None or memory.blocks != frozenset(seen.ids(entry.blocks))

    def _drift(self, status: CXLBladeStatus, seen: Inventory) -> list[Drift]:
        """Memory that no entry knows. One that is being composed is known by its blocks."""
        numbers, held = seen.numbers(), book.held(status)
        known = {entry.memory_id for entry in status.reservations}
        before = {drift.memory_id: drift for drift in status.drift}
        found = []
        for memory in seen.memories:
            blocks = sorted(numbers[block] for block in memory.blocks)
            ours = any(set(entry.blocks) == set(blocks) for entry in status.reservations)
            if memory.id in known or ours:
                continue
            overlap = " and has blocks that the ledger gave to somebody" if held & set(blocks) else ""
            frees = self.world.settings.leaks == "Free" and not overlap
            message = f"no region has it{overlap}; " + (
                "it is overwritten and freed when it is old enough" if frees else "free it at the appliance"
            )
            since = before[memory.id].since if memory.id in before else format_time(self.world.clock())
            found.append(Drift(memory_id=memory.id, blocks=blocks, since=since, message=message))
        return found

    def _degraded(self, blade: CXLBlade, status: CXLBladeStatus) -> Answer:
        name = blade.metadata.name
        lost = [entry for entry in status.reservations if entry.state is ReservationState.LOST]
        quarantined = [entry for entry in status.reservations if entry.state is ReservationState.QUARANTINED]
        LEAKED.labels(name).set(len(status.drift))
        DRIFT.labels(name).set(len(status.drift) + len(lost))
        if status.drift:
            memories = ", ".join(drift.memory_id for drift in status.drift[:5])
            return Answer(Type.DEGRADED, True, Reason.DRIFT, f"the appliance has memory that no region has: {memories}")
        if lost:
            names = ", ".join(f"{entry.namespace}/{entry.name}" for entry in lost[:5])
            return Answer(Type.DEGRADED, True, Reason.MEMORY_LOST, f"the appliance has forgotten the memory of {names}")
        if quarantined:
            names = ", ".join(f"{entry.namespace}/{entry.name}" for entry in quarantined[:5])
            return Answer(Type.DEGRADED, True, Reason.QUARANTINED, f"blocks of {names} are in quarantine")
        return Answer(Type.DEGRADED, False, Reason.HEALTHY, "nothing is wrong with it")

    def _said(self, blade: CXLBlade, status: CXLBladeStatus, answers: list[Answer]) -> CXLBladeStatus:
        """The ledger with conditions, whose times stay while the answers do."""
        before: list[Object] = [c.model_dump(by_alias=True, mode="json") for c in status.conditions]
        merged = merge(before, answers, blade.metadata.generation, self.world.clock())
        whole = status.model_dump(by_alias=True, exclude_none=True, mode="json")
        whole |= {"conditions": merged, "observedGeneration": blade.metadata.generation}
        return CXLBladeStatus.model_validate(whole)

    async def _adopt_leaks(self, name: str, seen: Inventory) -> None:
        """Take memory that has long been nobody's, to overwrite and free it, if the installation says so."""
        if self.world.settings.leaks != "Free":
            return
        old = self.world.clock() - timedelta(seconds=self.world.settings.leak_seconds)
        blade = await self.world.store.read(name)
        for drift in blade.status.drift:
            if parse_time(drift.since) > old or seen.memory(drift.memory_id) is None:
                continue
            await self.world.store.change(name, lambda b, d=drift: self._adopted(b, d))  # type: ignore[misc]

    def _adopted(self, blade: CXLBlade, drift: Drift) -> CXLBladeStatus:
        uid = f"orphan-{digest([blade.metadata.uid, drift.memory_id])}"
        try:
            status = book.adopt(
                blade.status,
                uid=uid,
                namespace=self.world.settings.lease_namespace,
                memory_id=drift.memory_id,
                blocks=drift.blocks,
                message="Drift: memory that no region had",
            )
        except book.Overlap:
            return blade.status
        log.warning(
            "memory %s of blade %s has no owner; it is overwritten and freed", drift.memory_id, blade.metadata.name
        )
        return status.model_copy(update={"drift": [d for d in status.drift if d.memory_id != drift.memory_id]})

    async def _release_ownerless(self, name: str) -> bool:
        """Drive entries whose region is gone, and those that an administrator lets go; True while there are some."""
        blade = next((b for b in self.world.blades() if b.metadata.name == name), None)
        if blade is None:
            return False
        busy = False
        for entry in blade.status.reservations:
            if entry.state is ReservationState.QUARANTINED:
                if entry.uid in blade.spec.release_quarantined or _orphan(entry, self.world):
                    await self.release.let_go(Held(blade, entry))
                    busy = True
            elif await self._ownerless(entry):
                await self.release.step(entry.uid, retain=entry.retain)
                busy = True
        return busy

    async def _ownerless(self, entry: Reservation) -> bool:
        """Whether the entry's region has been gone for long enough, by the API server itself."""
        known = self.world.cache.get(CXL_REGION, entry.namespace, entry.name)
        if known and known["metadata"]["uid"] == entry.uid:
            self._gone.pop(entry.uid, None)
            return False
        since = self._gone.setdefault(entry.uid, self.world.monotonic())
        retired = entry.state is ReservationState.SCRUBBING
        if not retired and self.world.monotonic() - since < self.world.settings.leak_seconds:
            return False
        stored = await self.world.client.get(CXL_REGION, entry.namespace, entry.name)
        return stored is None or stored["metadata"]["uid"] != entry.uid


def _orphan(entry: Reservation, world: World) -> bool:
    """Whether the entry was memory without an owner, which this installation frees."""
    return (
        entry.uid.startswith("orphan-") and world.settings.leaks == "Free" and (entry.message or "").startswith("Drift")
    )
