"""A CXLAttachment: the node's wish and our answer; deleted, the wish to be cut off.

The object's status says what the ledger says. A node that gives a region back takes its own finalizer off first, when
nothing on it uses the device any more; only then is the port unassigned. A node that is lost cannot do that: it is
fenced, cut off at the appliance without its consent, before its region is overwritten or given to anybody.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from ballast_api.cxlattachment import CXLAttachment, Purpose
from ballast_api.cxlblade import AttachmentState, LedgerAttachment, ReservationState
from ballast_cxl.controller import operations
from ballast_cxl.controller.world import Held, World
from ballast_cxl.fabric.interface import FabricError, Unreachable
from ballast_cxl.ledger import book
from ballast_cxl.metrics import FENCES
from ballast_cxl.names import FABRIC_FINALIZER, NODE_FINALIZER
from ballast_cxl.quantity import to_text
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_REGION
from ballast_operator.cluster.client import STATUS_MANAGER
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Key, Object, parse_time

log = logging.getLogger(__name__)

AGAIN_SECONDS = 2.0
PATIENT_SECONDS = 5.0
PLACE = ("generation", "blade", "port", "memoryId", "serial", "size")


@dataclass
class Attachments:
    """Looks after all CXLAttachments."""

    world: World

    async def reconcile(self, key: Key) -> float | None:
        obj = self.world.cache.get(CXL_ATTACHMENT, "", key.name)
        if obj is None:
            return None
        attachment = CXLAttachment.model_validate(obj)
        if attachment.metadata.deletion_timestamp:
            return await self._detach(obj, attachment)
        held = self.world.holding(attachment.spec.region.uid)
        if held and self._settled(held, attachment):
            return None
        return await self._attach(obj, attachment, held)

    def _settled(self, held: Held, attachment: CXLAttachment) -> bool:
        ours, status = book.port_of(held.entry, attachment.spec.node), attachment.status
        return (
            ours is not None
            and ours.state is AttachmentState.ASSIGNED
            and (status.phase, status.generation, status.port) == ("Assigned", ours.generation, ours.port)
            and status.serial is not None
        )

    async def _attach(self, obj: Object, attachment: CXLAttachment, held: Held | None) -> float | None:
        """Connect the node, or say why not. Raises what a later try may cure."""
        spec = attachment.spec
        try:
            obj = await self.world.add_finalizer(CXL_ATTACHMENT, obj, FABRIC_FINALIZER)
            held = held or await self.world.holding_now(spec.region.uid)
            if held is None and spec.purpose is Purpose.SCRUB:  # a leftover of ours
                await self.world.client.delete(CXL_ATTACHMENT, obj)
                return None
            if held is None:
                raise book.Refused("Deleting", f"no ledger knows a region with uid {spec.region.uid}")
            port = self._port(held, spec.node)
            scrub = spec.purpose is Purpose.SCRUB
            if not scrub:
                await self.world.quotas.connect(held.entry.namespace, attachment.metadata.name)
            held, link = await operations.attach(self.world, held, spec.node, port, scrub=scrub)
        except book.Refused as no:
            # A port or the last host may become free; a region on its way out does not come back.
            waits = no.reason in ("NoFreePort", "Composing", "QuotaExceeded") or spec.purpose is Purpose.SCRUB
            await self._say(obj, phase="Pending" if waits else "Refused", reason=no.reason, message=str(no))
            return PATIENT_SECONDS if waits else None
        except FabricError as error:
            reason = "ApplianceUnreachable" if isinstance(error, Unreachable) else "ComposeFailed"
            await self._say(obj, phase="Pending", reason=reason, message=str(error))
            raise
        ours = book.port_of(held.entry, spec.node)
        assert ours is not None
        await self._say(obj, phase="Assigned", **_place(held, ours, link.serial))
        return None

    def _port(self, held: Held, node: str) -> str:
        blade = held.blade
        if known := book.port_of(held.entry, node):
            return known.port
        if node not in operations.cabled(blade):
            raise book.Refused(
                "NoBlade", f"node {node} is not cabled to CXLBlade {blade.metadata.name}; see its spec.ports"
            )
        port = operations.free_port(blade, node)
        if port is None:
            raise book.Refused(
                "NoFreePort",
                f"no free port of CXLBlade {blade.metadata.name} leads to node {node}; each carries another region, so "
                "free one of them or cable another",
            )
        return port

    async def _detach(self, obj: Object, attachment: CXLAttachment) -> float | None:
        """Cut the node off once it lets go, or is lost; then let the object go."""
        node, finalizers = attachment.spec.node, obj["metadata"].get("finalizers", [])
        lost = not self.world.nodes.alive(node)
        if NODE_FINALIZER in finalizers and not lost:
            await self._say(obj, phase="Detaching", **await self._whereabouts(attachment))
            return PATIENT_SECONDS
        fence = NODE_FINALIZER in finalizers
        uid = attachment.spec.region.uid
        held = self.world.holding(uid)
        if held is None or not book.port_of(held.entry, node):  # that nothing is connected is asked for, not believed
            held = await self.world.holding_now(uid)
        if held and book.port_of(held.entry, node):
            try:
                await operations.detach(self.world, held, node, fence=fence)
            except Unreachable as error:
                if not await self._give_up(obj, held, error):
                    raise
            if fence:
                FENCES.labels("done").inc()
        if held:
            if attachment.spec.purpose is Purpose.USE:  # no other is counted
                await self.world.quotas.disconnect(held.entry.namespace, attachment.metadata.name)
            self.world.queue.add(Key(CXL_REGION.kind, held.entry.namespace, held.entry.name))
        await self.world.drop_finalizers(CXL_ATTACHMENT, obj, FABRIC_FINALIZER, *([NODE_FINALIZER] if lost else []))
        return None

    async def _whereabouts(self, attachment: CXLAttachment) -> Object:
        """Where the device is, if the node has it and the object does not say so any more: the node could not take it
        down then, and the region would be on its way out for ever. Anybody may have written the status."""
        node, status = attachment.spec.node, attachment.status
        if not status.node.device or status.serial:
            return {}
        held = await self.world.holding_now(attachment.spec.region.uid)
        ours = book.port_of(held.entry, node) if held else None
        if held is None or ours is None or (link := await operations.linked(self.world, held, ours.port)) is None:
            return {}
        return _place(held, ours, link.serial)

    async def _give_up(self, obj: Object, held: Held, error: Exception) -> bool:
        """Into quarantine with the blocks, when a node could not be cut off for too long; False while there is time."""
        since = parse_time(obj["metadata"]["deletionTimestamp"])
        if self.world.clock() - since < timedelta(seconds=self.world.settings.fence_seconds):
            await self._say(obj, phase="Detaching", reason="FenceFailed", message=str(error))
            return False
        entry, node = held.entry, obj["spec"]["node"]
        if entry.state is not ReservationState.QUARANTINED:
            FENCES.labels("failed").inc()
        message = f"FenceFailed: node {node} could not be cut off: {error}"
        await self.world.store.change(held.blade.metadata.name, lambda b: book.quarantine(b.status, entry.uid, message))
        log.error("CXLRegion %s/%s goes into quarantine: %s", entry.namespace, entry.name, message)
        return True

    async def _say(self, obj: Object, **status: object) -> None:
        """Write our part of the status, if it is new; the node's part is the node's.

        What is not written is taken away, so it is for the object as it was read alone: another controller may have
        said more by now. Raises Busy then.
        """
        before = {name: value for name, value in obj.get("status", {}).items() if name != "node"}
        # Where the device is stays said until the object goes: the node needs it to take the device down.
        status = {name: before[name] for name in PLACE if name in before} | status
        if before == status:
            return
        meta = obj["metadata"]
        body = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {name: meta[name] for name in ("name", "uid", "resourceVersion")},
            "status": status,
        }
        try:
            self.world.learn(await self.world.client.apply(body, subresource="status", manager=STATUS_MANAGER))
        except ApiError as error:
            if error.conflict:
                raise book.Busy(f"CXLAttachment {meta['name']} is not as it was read any more", 0.0) from error
            if not error.not_found:  # gone meanwhile
                raise


def _place(held: Held, ours: LedgerAttachment, serial: str | None) -> Object:
    """What an object says of where the device is: PLACE."""
    return {
        "generation": ours.generation,
        "blade": held.blade.metadata.name,
        "port": ours.port,
        "memoryId": held.entry.memory_id,
        "serial": serial,
        "size": to_text(held.size),
    }
