"""From a region that nobody wants to free blocks: drain, detach or fence, overwrite, take apart.

It is driven by the ledger's entry, not by the object, so it goes on when the object is gone. What cannot be proven
(that every node is cut off, that every byte is zero) ends in quarantine: the blocks are nobody's until an administrator
lets them go.
"""

from dataclasses import dataclass
from datetime import timedelta

from ballast_api.cxlattachment import Purpose
from ballast_api.cxlblade import ReservationState
from ballast_cxl.controller import operations
from ballast_cxl.controller.scrub import PATIENT_SECONDS, Scrubber
from ballast_cxl.controller.world import Held, World
from ballast_cxl.ledger import book
from ballast_cxl.resources import CXL_ATTACHMENT
from ballast_operator.objects import Object, parse_time

AGAIN_SECONDS = 3.0
TURN_SECONDS = 30.0  # the ledger's change wakes whose turn it is; this is for turns that somebody let pass
RETAINED = "Retained: the region was deleted with reclaimPolicy Retain"


@dataclass(frozen=True)
class Step:
    """Where a release stands. done: no ledger knows the region any more. again: seconds until the next look."""

    phase: str
    reason: str
    message: str
    again: float = AGAIN_SECONDS
    done: bool = False


@dataclass
class Release:
    """Drives one entry on its way out."""

    world: World

    def __post_init__(self) -> None:
        self.scrubber = Scrubber(self.world)

    async def step(self, uid: str, *, retain: bool = False) -> Step:
        """The next thing to do. retain: keep its bytes, once nobody is connected. Raises what a later try may cure.

        What is next is judged by the ledger as last seen. That may be old, so every change says what it takes for
        granted, and the ledger refuses it where that is not so any more. Only that a region is gone is asked for.
        """
        held = self.world.holding(uid) or await self.world.holding_now(uid)
        if held and self.scrubber.waits(held):
            return Step("Scrubbing", "Scrubbing", "it waits for a port to a healthy node", again=TURN_SECONDS)
        if held is None:
            return Step("Released", "Deleting", "its blocks are free", done=True)
        state = held.entry.state
        if state is ReservationState.QUARANTINED:
            reason = "Retained" if held.entry.message == RETAINED else "Quarantined"
            return Step("Quarantined", reason, held.entry.message or "its blocks are kept from everybody")
        if state is ReservationState.RESERVED:
            freed = await operations.free(self.world, held)
            return Step("Detaching", "Deleting", "it was not composed yet", again=0.0, done=freed)
        if state is not ReservationState.SCRUBBING:
            return await self._detach(held, retain)
        return await self._scrub(held)

    async def _detach(self, held: Held, retain: bool) -> Step:
        """Wait for the nodes to give it back; ask for those that are lost."""
        attachments = await self.world.attachments_now(held.entry.uid)
        using = [a for a in attachments if a.metadata.deletion_timestamp is None and a.spec.purpose is Purpose.USE]
        for attachment in using:
            if not self.world.nodes.alive(attachment.spec.node) or attachment.status.phase == "Refused":
                meta: Object = {"metadata": {"name": attachment.metadata.name, "uid": attachment.metadata.uid}}
                await self.world.client.delete(CXL_ATTACHMENT, meta)
        if using:
            nodes = ", ".join(a.spec.node for a in using)
            message = f"in use on {nodes}; it goes when the pods there have ended"
            return Step("Draining", "Draining", message, PATIENT_SECONDS)
        if attachments or held.entry.attachments:
            nodes = ", ".join(sorted({a.spec.node for a in attachments} | set(operations.in_use_by(held))))
            await self._cut_off_strays(held, {a.spec.node for a in attachments})
            return Step("Detaching", "Detaching", f"{nodes or 'a node'} is being cut off")
        if retain and held.entry.state is ReservationState.COMPOSED:
            await self.quarantine(held, RETAINED)
            return Step("Quarantined", "Retained", "its bytes are kept")
        now, uid = self.world.clock(), held.entry.uid
        await self.world.store.change(held.blade.metadata.name, lambda b: book.retire(b.status, uid, now))
        return Step("Scrubbing", "Scrubbing", "waiting for a node to overwrite it", again=0.0)

    async def _cut_off_strays(self, held: Held, known: set[str]) -> None:
        """Connections in the ledger whose CXLAttachment is gone, as when somebody took its finalizers off."""
        for attachment in held.entry.attachments:
            if attachment.node not in known:
                fence = not self.world.nodes.alive(attachment.node)
                await operations.detach(self.world, held, attachment.node, fence=fence)

    async def _scrub(self, held: Held) -> Step:
        if held.entry.zeroed:
            if await self.scrubber.end(held):
                freed = await operations.free(self.world, held)
                return Step("Released", "Deleting", "its blocks are free", again=0.0, done=freed)
            return Step("Scrubbing", "Scrubbing", "it is zeros; the node that did it is being cut off")
        if await self._forgotten(held):
            return Step("Scrubbing", "MemoryLost", "composed anew, to be overwritten", again=0.0)
        try:
            again = await self.scrubber.step(held)
        except book.Refused as no:
            if no.reason != "ScrubFailed":
                raise
            await self.quarantine(held, f"ScrubFailed: {no}")
            await self.scrubber.end(held)
            return Step("Quarantined", "ScrubFailed", str(no))
        return Step("Scrubbing", "Scrubbing", "its bytes are being overwritten with zeros", again)

    async def _forgotten(self, held: Held) -> bool:
        """Compose it anew if the appliance lost it: what was in the blocks may still be there."""
        memory, uid, name = held.entry.memory_id, held.entry.uid, held.blade.metadata.name
        if memory is not None:
            if held.entry.attachments or not await operations.lost(self.world, held):
                return False
            await self.world.store.change(name, lambda b: book.forgotten(b.status, uid, memory))
        await operations.compose(self.world, held)
        return True

    async def quarantine(self, held: Held, message: str) -> None:
        """Keep the blocks from everybody."""
        uid = held.entry.uid
        await self.world.store.change(held.blade.metadata.name, lambda b: book.quarantine(b.status, uid, message))

    async def let_go(self, held: Held) -> None:
        """An administrator says that a reservation in quarantine may go: it is fenced once more, and overwritten."""
        for attachment in held.entry.attachments:
            held = await operations.detach(self.world, held, attachment.node, fence=True)
        now, uid = self.world.clock(), held.entry.uid
        name = held.blade.metadata.name
        await self.world.store.change(name, lambda b: book.retire(b.status, uid, now, let_go=True))

    def overdue(self, deleted: str, seconds: float) -> bool:
        """Whether a deletion has taken so long."""
        return self.world.clock() - parse_time(deleted) > timedelta(seconds=seconds)
