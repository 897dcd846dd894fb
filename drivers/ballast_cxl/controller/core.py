"""Which part looks after which object, and whom a change concerns."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from ballast_api.cxlattachment import CXLAttachment
from ballast_api.cxlblade import Drain, ReservationState
from ballast_cxl.controller.attachments import Attachments
from ballast_cxl.controller.blades import Blades
from ballast_cxl.controller.claims import Claims
from ballast_cxl.controller.quotas import QuotaSums
from ballast_cxl.controller.regions import Regions, claimed
from ballast_cxl.controller.world import World
from ballast_cxl.ledger import book
from ballast_cxl.names import CLAIM_UID, DRIVER
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_BLADE, CXL_REGION, CXL_TENANT_QUOTA, RESOURCE_CLAIM
from ballast_cxl.slices.publish import Publisher
from ballast_operator.cluster.cache import Cache
from ballast_operator.objects import Key, Object, owner_key
from ballast_operator.watched import Watched, own_key

SOON_SECONDS = 0.5
COMING = ("Pending", "Reserved", "Composing")


@dataclass
class Controller:
    """The region controller's part of the core's contract."""

    world: World

    def __post_init__(self) -> None:
        self.publisher = Publisher(self.world)
        self.world.nodes.changed = self._node_changed
        self.world.concerned = self._concerned
        parts: dict[str, Callable[[Key], Awaitable[float | None]]] = {
            CXL_REGION.kind: Regions(self.world, self.publisher).reconcile,
            CXL_ATTACHMENT.kind: Attachments(self.world).reconcile,
            CXL_BLADE.kind: Blades(self.world).reconcile,
            CXL_TENANT_QUOTA.kind: QuotaSums(self.world).reconcile,
            RESOURCE_CLAIM.kind: Claims(self.world).reconcile,
        }
        self._parts = parts

    @property
    def cache(self) -> Cache:
        return self.world.cache

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object right; seconds after which to look again, or None. Raises what a later try may cure."""
        try:
            return await self._parts[key.kind](key)
        except book.Busy as busy:
            return max(SOON_SECONDS, busy.seconds)

    def watched(self) -> list[Watched]:
        """What to watch, ledgers first: nobody decides anything before they are known."""
        return [
            Watched(CXL_BLADE, self._of_blade, always=True),
            Watched(CXL_ATTACHMENT, self._of_attachment, always=True),
            Watched(RESOURCE_CLAIM, self._of_claim, always=True),
            Watched(CXL_REGION, self._of_region, always=True),
            Watched(CXL_TENANT_QUOTA, self._of_quota, always=True),
        ]

    def _concerned(self, obj: Object) -> list[Key]:
        found = next((w for w in self.watched() if w.resource.kind == obj["kind"]), None)
        return list(found.keys(obj)) if found else []

    def _of_blade(self, obj: Object) -> list[Key]:
        """The blade; regions of which it says something bad, and all that it evicts; and who waits for a ledger, or for
        a port."""
        self.publisher.changed()
        entries = (obj.get("status") or {}).get("reservations", [])
        evicts = obj["spec"].get("drain") == Drain.NO_EXECUTE.value
        bad = (ReservationState.LOST.value, ReservationState.QUARANTINED.value)
        stuck = [Key(CXL_REGION.kind, e["namespace"], e["name"]) for e in entries if evicts or e["state"] in bad]
        asked = {attachment["spec"]["region"]["uid"] for attachment in self.cache.all(CXL_ATTACHMENT)}
        return [*own_key(obj), *stuck, *self._coming(), *turns(obj, asked), *self._held_up(entries)]

    def _of_attachment(self, obj: Object) -> list[Key]:
        region = obj["spec"]["region"]
        return [*own_key(obj), Key(CXL_REGION.kind, region["namespace"], region["name"])]

    def _of_claim(self, obj: Object) -> list[Key]:
        """Claims that were given something of ours, or had been; and a region whose claim it is."""
        made_for = any(
            (region["metadata"].get("labels") or {}).get(CLAIM_UID) == obj["metadata"]["uid"]
            for region in self.cache.all(CXL_REGION)
        )
        keys = own_key(obj) if made_for or driven(obj) else []
        if keys:
            self.publisher.changed()
        owner = owner_key(obj)
        return [*keys, owner] if owner and owner.kind == CXL_REGION.kind else keys

    def _of_region(self, obj: Object) -> list[Key]:
        """The region; and the claim that it was made for."""
        self.publisher.changed()
        keys = own_key(obj)
        for owner in obj["metadata"].get("ownerReferences", []) if claimed(obj) else []:
            keys.append(Key(RESOURCE_CLAIM.kind, obj["metadata"]["namespace"], owner["name"]))
        return keys

    def _of_quota(self, obj: Object) -> list[Key]:
        return [*own_key(obj), *self._coming()]

    def _held_up(self, entries: list[Object]) -> list[Key]:
        """Attachments that wait for another node's turn, of regions that nobody is at work on."""
        free = {entry["uid"] for entry in entries if not entry.get("operation")}
        return [
            key
            for obj in self.cache.all(CXL_ATTACHMENT)
            if obj["spec"]["region"]["uid"] in free and not settled(obj)
            for key in own_key(obj)
        ]

    def _coming(self) -> list[Key]:
        """Regions that any ledger may help on."""
        return [
            key
            for obj in self.cache.all(CXL_REGION)
            if (obj.get("status") or {}).get("phase") in COMING
            for key in own_key(obj)
        ]

    def _node_changed(self, node: str) -> None:
        """A node is lost or back: its attachments, and their regions, are to be looked at."""
        for obj in self.cache.all(CXL_ATTACHMENT):
            if CXLAttachment.model_validate(obj).spec.node == node:
                for key in self._of_attachment(obj):
                    self.world.queue.add(key)


def turns(blade: Object, asked: Collection[str]) -> list[Key]:
    """Regions whose turn it is to be overwritten: as many as there are free ports, in the ledger's order.

    asked: uids of those that have asked for a port, and need no waking.
    """
    entries = (blade.get("status") or {}).get("reservations", [])
    used = {attachment["port"] for entry in entries for attachment in entry.get("attachments", [])}
    free = sum(port["name"] not in used for port in blade["spec"].get("ports", []))
    idle = [
        entry
        for entry in entries
        if entry["state"] == ReservationState.SCRUBBING.value
        and not entry.get("zeroed")
        and not entry.get("attachments")
        and not entry.get("operation")
    ]
    fresh = [entry for entry in idle if entry["uid"] not in asked]
    return [Key(CXL_REGION.kind, e["namespace"], e["name"]) for e in fresh[: max(0, free - len(idle) + len(fresh))]]


def settled(attachment: Object) -> bool:
    """Whether an attachment is what it can be."""
    phase = (attachment.get("status") or {}).get("phase")
    return not attachment["metadata"].get("deletionTimestamp") and phase in ("Assigned", "Refused")


def driven(claim: Object) -> bool:
    """Whether a claim has a device of ours by the scheduler's account."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return any(result["driver"] == DRIVER for result in allocation.get("devices", {}).get("results", []))
