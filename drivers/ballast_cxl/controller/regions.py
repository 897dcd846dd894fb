"""A CXLRegion: quota, blocks, memory, claim, device; and back.

Each reconcile does the next thing that is not done yet. What is done is read from the ledger, never from the object's
own status, which only tells people.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from ballast_api.cxlblade import CXLBlade, CXLBladeStatus, Drain, ReservationState
from ballast_api.cxlregion import CXLRegion, ReclaimPolicy
from ballast_cxl.controller import choice, operations, status
from ballast_cxl.controller.release import Release, Step
from ballast_cxl.controller.report import Reporter
from ballast_cxl.controller.world import Held, World
from ballast_cxl.fabric.interface import FabricError, Unreachable
from ballast_cxl.grid import Grid
from ballast_cxl.ledger import book
from ballast_cxl.metrics import ATTACHMENTS, PREVENTED
from ballast_cxl.names import CLAIM_UID, DRIVER, FINALIZER, REGION_CLASS
from ballast_cxl.resources import CXL_REGION, RESOURCE_CLAIM
from ballast_cxl.slices.publish import Publisher
from ballast_operator.cluster.apply import Applier
from ballast_operator.cluster.errors import ChildConflict
from ballast_operator.desired.names import Names
from ballast_operator.objects import Key, Object, format_time, parse_time
from ballast_operator.reconciler import parse

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
SOON_SECONDS = 2.0


@dataclass
class Regions:
    """Looks after all CXLRegions."""

    world: World
    publisher: Publisher

    def __post_init__(self) -> None:
        self.release = Release(self.world)
        self.applier = Applier(self.world.client, self.world.cache)
        self.reporter = Reporter(self.world.client, self.world.cache, self.world.clock)

    async def reconcile(self, key: Key) -> float | None:
        obj = self.world.cache.get(CXL_REGION, key.namespace, key.name)
        if obj is None:
            self.applier.forget(key)
            self.reporter.forget(key)
            with suppress(KeyError):
                ATTACHMENTS.remove(key.namespace, key.name)
            return None
        region, faults = parse(CXLRegion, obj)
        if region is None:
            await self._report(key, obj, None, status.Trouble("InvalidSpec", "; ".join(faults)))
            return None
        if region.metadata.deletion_timestamp:
            return await self._release(key, obj, region)
        return await self._bring_up(key, obj, region)

    async def _bring_up(self, key: Key, obj: Object, region: CXLRegion) -> float | None:
        """The next thing to do for a region that is wanted."""
        held, trouble, again, failure = self.world.holding(region.metadata.uid), None, None, None
        fresh = False
        try:
            await self.world.add_finalizer(CXL_REGION, obj, FINALIZER)
            if held is None:
                held, fresh = await self._reserve(region)
            held = await self._noted(held, region)
            if held.entry.state is ReservationState.RESERVED:
                held = await operations.compose(self.world, held, begun=fresh)
            if not claimed(obj):
                await self.applier.converge(obj, key, [claim_for(region)])
            if evicting(held):
                await self._drop_claim(key, region, allocated=True)
        except book.Busy as busy:
            again = max(SOON_SECONDS, busy.seconds)
        except book.Refused as no:
            trouble, again = status.Trouble(no.reason, str(no)), AGAIN_SECONDS
        except ChildConflict as no:
            trouble, again = status.Trouble("ChildConflict", str(no)), AGAIN_SECONDS
        except FabricError as error:
            reason = "ApplianceUnreachable" if isinstance(error, Unreachable) else "ComposeFailed"
            trouble, failure = status.Trouble(reason, str(error)), error
        held = self.world.holding(region.metadata.uid) or held
        await self._report(key, obj, region, trouble, held)
        if failure is not None:
            raise failure
        return again

    async def _reserve(self, region: CXLRegion) -> tuple[Held, bool]:
        """Charge the quota and take blocks of one blade, by compare-and-swap; and whether it was we who took them.

        Raises Refused.
        """
        meta = region.metadata
        wish = choice.wish_of(region, meta.annotations, meta.labels.get(CLAIM_UID))
        blades = choice.candidates(region, wish, self.world.blades())
        waiting: book.Refused | None = None
        for blade in blades:
            taken = choice.blocks(blade, blade.status, wish)
            if taken is None:
                continue
            assert blade.status.geometry is not None
            size = len(taken) * Grid.of(blade.status.geometry).block_bytes
            await self.world.quotas.charge(meta.namespace, meta.uid, meta.name, size)
            try:
                return await self._take(blade.metadata.name, region, wish)
            except book.Refused as no:
                PREVENTED.inc()
                await self.world.quotas.refund(meta.namespace, meta.uid)
                if isinstance(no, book.Overlap) and wish.device:
                    raise
                waiting = no
        raise waiting or book.Refused("InsufficientCapacity", choice.full(region, wish.size, blades))

    async def _take(self, blade: str, region: CXLRegion, wish: choice.Wish) -> tuple[Held, bool]:
        meta, actor, fresh = region.metadata, self.world.actor(), False

        def step(found: CXLBlade) -> CXLBladeStatus:
            nonlocal fresh
            fresh = book.find(found.status, meta.uid) is None
            if not fresh:
                return found.status
            taken = choice.blocks(found, found.status, wish)
            if taken is None:
                raise book.Refused("InsufficientCapacity", choice.full(region, wish.size, [found]))
            return book.reserve(
                found.status,
                actor,
                uid=meta.uid,
                namespace=meta.namespace,
                name=meta.name,
                blocks=taken,
                claim=wish.claim,
                retain=retained(region),
            )

        written = await self.world.store.change(blade, step)
        entry = book.find(written.status, meta.uid)
        assert entry is not None
        return Held(written, entry), fresh

    async def _noted(self, held: Held, region: CXLRegion) -> Held:
        """The entry with the region's present reclaimPolicy."""
        uid, wanted = region.metadata.uid, retained(region)
        if held.entry.retain == wanted:
            return held
        written = await self.world.store.change(held.blade.metadata.name, lambda b: book.retain(b.status, uid, wanted))
        entry = book.find(written.status, uid)
        assert entry is not None
        return Held(written, entry)

    async def _release(self, key: Key, obj: Object, region: CXLRegion) -> float | None:
        """The next thing to do for a region that was deleted."""
        if FINALIZER not in obj["metadata"].get("finalizers", []):
            return None
        uid, failure = region.metadata.uid, None
        await self._drop_claim(key, region)
        try:
            step = await self.release.step(uid, retain=retained(region))
        except book.Busy as busy:
            return max(SOON_SECONDS, busy.seconds)
        except (FabricError, book.Refused) as error:
            step, failure = Step("Detaching", _reason(error), str(error)), error
        if step.done:
            await self.world.quotas.refund(key.namespace, uid)
            await self.world.drop_finalizers(CXL_REGION, obj, FINALIZER)
            return None
        kept = step.reason == "Retained"
        if kept or await self._overdue(obj, step):
            await self.world.drop_finalizers(CXL_REGION, obj, FINALIZER)
            return None
        await self._report(key, obj, region, None, self.world.holding(uid), step)
        if failure is not None and not isinstance(failure, book.Refused):
            raise failure
        return step.again

    async def _overdue(self, obj: Object, step: Step) -> bool:
        """Whether the object has been on its way out for too long; its blocks then stay, in quarantine."""
        since, limit = obj["metadata"]["deletionTimestamp"], self.world.settings.deletion_seconds
        if not self.release.overdue(since, limit):
            return False
        held = await self.world.holding_now(obj["metadata"]["uid"])
        if held and held.entry.state is not ReservationState.QUARANTINED:
            await self.release.quarantine(held, f"{step.reason}: not freed within {limit} s: {step.message}")
        return True

    async def _drop_claim(self, key: Key, region: CXLRegion, *, allocated: bool = False) -> None:
        """Take the region's own claim back; pods that use it keep it until they end. allocated: only if one does."""
        found = self.world.cache.get(RESOURCE_CLAIM, key.namespace, key.name)
        owners = (found or {}).get("metadata", {}).get("ownerReferences", [])
        ours = any(owner["uid"] == region.metadata.uid for owner in owners)
        if not found or not ours or found["metadata"].get("deletionTimestamp"):
            return
        if not allocated or (found.get("status") or {}).get("allocation"):
            await self.world.client.delete(RESOURCE_CLAIM, found)

    async def _report(
        self,
        key: Key,
        obj: Object,
        region: CXLRegion | None,
        trouble: status.Trouble | None,
        held: Held | None = None,
        step: Step | None = None,
    ) -> None:
        uid = obj["metadata"]["uid"]
        attachments = self.world.attachments(uid)
        deadline = None
        if since := obj["metadata"].get("deletionTimestamp"):
            seconds = self.world.settings.deletion_seconds
            deadline = format_time(parse_time(since) + timedelta(seconds=seconds))
        view = status.View(
            region=region,
            generation=obj["metadata"]["generation"],
            previous=obj.get("status") or {},
            now=self.world.clock(),
            held=held,
            attachments=attachments,
            lost={a.spec.node for a in attachments if not self.world.nodes.alive(a.spec.node)},
            claim=self.world.cache.get(RESOURCE_CLAIM, key.namespace, key.name),
            published=self.publisher.offers(uid) or claimed(obj),
            trouble=trouble,
            step=step,
            deadline=deadline,
        )
        found = status.of(view)
        ATTACHMENTS.labels(key.namespace, key.name).set(found["attached"])
        await self.reporter.report(obj, found)


def retained(region: CXLRegion) -> bool:
    """Whether the region's bytes are kept until an administrator lets them go."""
    return region.spec.reclaim_policy is ReclaimPolicy.RETAIN


def claimed(obj: Object) -> bool:
    """Whether a region was made for a claim, which then is how pods get it."""
    return CLAIM_UID in (obj["metadata"].get("labels") or {})


def evicting(held: Held) -> bool:
    """Whether a device taint evicts the region's pods. The scheduler looks at no taint of what is allocated already, so
    the pods' successors would be bound to it and evicted again, for ever; a claim that is on its way out stops them."""
    return held.entry.state is ReservationState.LOST or held.blade.spec.drain is Drain.NO_EXECUTE


def claim_for(region: CXLRegion) -> Object:
    """The ResourceClaim by which pods of the namespace get the region, with the one selector that policy accepts."""
    meta = Names(CXLRegion.kind, region.metadata).metadata("claim") | {"name": region.metadata.name}
    request = {
        "name": "region",
        "exactly": {
            "deviceClassName": REGION_CLASS,
            "selectors": [{"cel": {"expression": selector(region.metadata.namespace, region.metadata.name)}}],
        },
    }
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": meta,
        "spec": {"devices": {"requests": [request]}},
    }


def selector(namespace: str, name: str) -> str:
    """The selector of a region. The admission policy knows no other."""
    of = f'device.attributes["{DRIVER}"]'
    return f'{of}.namespace == "{namespace}" && {of}.name == "{name}"'


def _reason(error: Exception) -> str:
    if isinstance(error, book.Refused):
        return error.reason
    return "ApplianceUnreachable" if isinstance(error, Unreachable) else "ComposeFailed"
