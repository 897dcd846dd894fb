"""Overwriting a region that nobody has any more, on one node, before anybody else gets its blocks.

The region is connected to one healthy node alone, whose plugin writes zeros over all of it, flushes, reads all of it
back and reports. Only a report for this very connection, of as many bytes as the region has, counts. A node that is
lost in the middle is fenced, and the next one begins anew.
"""

import logging
from dataclasses import dataclass
from datetime import timedelta

from ballast_api.cxlattachment import CXLAttachment, NodeScrub, Purpose
from ballast_api.cxlblade import ReservationState
from ballast_cxl.controller import operations
from ballast_cxl.controller.world import Held, World
from ballast_cxl.ledger import book
from ballast_cxl.metrics import SCRUB_BYTES
from ballast_cxl.names import FABRIC_FINALIZER, attachment_name
from ballast_cxl.resources import CXL_ATTACHMENT
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object, parse_time

log = logging.getLogger(__name__)

AGAIN_SECONDS = 3.0
PATIENT_SECONDS = 10.0  # where what a node says will wake us


@dataclass
class Scrubber:
    """Drives the overwriting of one region on; it is over when the ledger says zeroed."""

    world: World

    def waits(self, held: Held) -> bool:
        """Whether nothing can be done for it until a port becomes free. The change of the ledger then wakes as many as
        there are free ports; asking the API server and the appliance meanwhile, for each of many, would hold those up
        that have one."""
        entry = held.entry
        idle = entry.state is ReservationState.SCRUBBING and not entry.zeroed and not entry.attachments
        asked = bool(self.world.attachments(entry.uid))
        return idle and not asked and not self._late(held) and self._node(held, set()) is None

    async def step(self, held: Held) -> float:
        """The next thing to do, and the seconds after which to look again. Raises Refused when it takes too long."""
        entry = held.entry
        attachments = self.world.attachments(entry.uid) or await self.world.attachments_now(entry.uid)
        ours = next((a for a in attachments if a.spec.purpose is Purpose.SCRUB), None)
        if ours is None:
            self._refuse_when_late(held, "no healthy node with a free port overwrites it")
            node = self._node(held, {a.spec.node for a in attachments})
            if node:
                await self._ask(held, node)
            return AGAIN_SECONDS
        if ours.metadata.deletion_timestamp:
            return AGAIN_SECONDS
        if (generation := self._proof(held, ours)) is not None:
            name = held.blade.metadata.name
            await self.world.store.change(name, lambda b: book.zeroed(b.status, entry.uid, generation))
            SCRUB_BYTES.inc(held.size)
            log.info("CXLRegion %s/%s is zeros: %d bytes on %s", entry.namespace, entry.name, held.size, ours.spec.node)
            return 0.0
        if self._failed(held, ours) or not self.world.nodes.alive(ours.spec.node):
            log.warning("node %s did not overwrite %s: %s", ours.spec.node, entry.name, ours.status.node.message)
            await self.world.client.delete(CXL_ATTACHMENT, _meta(ours))
        self._refuse_when_late(held, ours.status.node.message or ours.status.message or "the node is not done")
        return PATIENT_SECONDS

    async def end(self, held: Held) -> bool:
        """Let the node go after the work; True when no CXLAttachment of the region is left."""
        uid = held.entry.uid
        attachments = self.world.attachments(uid) or await self.world.attachments_now(uid)
        for attachment in attachments:
            if attachment.metadata.deletion_timestamp is None:
                await self.world.client.delete(CXL_ATTACHMENT, _meta(attachment))
        return not attachments and not held.entry.attachments

    def _proof(self, held: Held, attachment: CXLAttachment) -> int | None:
        """The present connection's generation, if by it the node wrote and read every byte."""
        report = self._report(held, attachment)
        return report.generation if report and report.bytes == report.verified == held.size else None

    def _failed(self, held: Held, attachment: CXLAttachment) -> bool:
        """Whether the node is done with the present connection, and it is no proof."""
        return self._report(held, attachment) is not None and self._proof(held, attachment) is None

    def _report(self, held: Held, attachment: CXLAttachment) -> NodeScrub | None:
        """What the node said of the present connection."""
        port, report = book.port_of(held.entry, attachment.spec.node), attachment.status.node.scrub
        if port and report and report.generation == port.generation == attachment.status.generation:
            return report
        return None

    def _node(self, held: Held, but: set[str]) -> str | None:
        """A node that is cabled, healthy and has a free port that nobody else was promised."""
        free = operations.free_ports(held.blade) - self.world.promised(held.blade)
        candidates = [node for node in sorted(free) if node not in but and self.world.nodes.alive(node)]
        if not candidates:
            return None
        return candidates[held.entry.generation % len(candidates)]  # spread over the nodes

    async def _ask(self, held: Held, node: str) -> None:
        entry = held.entry
        body: Object = {
            "apiVersion": CXL_ATTACHMENT.api_version,
            "kind": CXL_ATTACHMENT.kind,
            "metadata": {"name": attachment_name(entry.uid, node), "finalizers": [FABRIC_FINALIZER]},
            "spec": {
                "region": {"namespace": entry.namespace, "name": entry.name, "uid": entry.uid},
                "node": node,
                "purpose": Purpose.SCRUB.value,
            },
        }
        try:
            self.world.learn(await self.world.client.create(body))
        except ApiError as error:
            if not error.conflict:  # somebody else did, or an old one is on its way out
                raise

    def _late(self, held: Held) -> bool:
        since, limit = held.entry.retired, timedelta(seconds=self.world.settings.scrub_seconds)
        return since is not None and self.world.clock() - parse_time(since) > limit

    def _refuse_when_late(self, held: Held, why: str) -> None:
        limit = self.world.settings.scrub_seconds
        if self._late(held):
            raise book.Refused("ScrubFailed", f"not overwritten with zeros within {limit} s: {why}")


def _meta(attachment: CXLAttachment) -> Object:
    return {"metadata": {"name": attachment.metadata.name, "uid": attachment.metadata.uid}}
