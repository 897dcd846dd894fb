"""What all parts of the controller share: what the watches said, the ledgers, the appliances, the nodes, the clock."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ballast_api.cxlattachment import CXLAttachment
from ballast_api.cxlblade import CXLBlade, Reservation
from ballast_cxl.controller.liveness import Nodes
from ballast_cxl.controller.settings import Settings
from ballast_cxl.fabric.connect import Fabrics
from ballast_cxl.fabric.shared import Shared
from ballast_cxl.grid import Grid
from ballast_cxl.ledger import book
from ballast_cxl.ledger.quota import Quotas
from ballast_cxl.ledger.store import Store
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_BLADE
from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.cluster.lease import own_name
from ballast_operator.objects import Key, Object
from ballast_operator.queue import Queue
from ballast_operator.resources import Resource

ATTEMPTS = 8


@dataclass(frozen=True)
class Held:
    """A ledger entry and the blade that it is on."""

    blade: CXLBlade
    entry: Reservation

    @property
    def size(self) -> int:
        """Bytes of the entry's blocks."""
        geometry = self.blade.status.geometry
        assert geometry is not None
        return len(self.entry.blocks) * Grid.of(geometry).block_bytes


@dataclass
class World:
    """Everything outside of one object. concerned: whom to look after when an object changed."""

    client: Client
    cache: Cache
    queue: Queue[Key]
    settings: Settings
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    name: str = field(default_factory=lambda: own_name(os.environ))
    concerned: Callable[[Object], Iterable[Key]] = lambda _: ()
    _blades: dict[str, tuple[str, CXLBlade]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = Store(self.client, self.learn, lambda name: self.cache.get(CXL_BLADE, "", name))
        self._ledgers = Shared(lambda: self.client.list(CXL_BLADE))
        self.quotas = Quotas(self.client)
        self.nodes = Nodes(self.client, self.settings.drivers_namespace, self.settings.node_lost_seconds)
        self.fabrics = Fabrics(
            self.client, self.settings.lease_namespace, self.settings.call_seconds, self.settings.rest_seconds
        )

    def learn(self, obj: Object) -> None:
        """Take in what the API server answered, and have those looked after whom it concerns: the watch will not, since
        it tells us nothing new then."""
        if self.cache.put(obj):
            self._tell(obj)

    def _tell(self, obj: Object) -> None:
        for key in self.concerned(obj):
            self.queue.add(key)

    def actor(self) -> book.Actor:
        """This process, now."""
        return book.Actor(self.name, self.clock(), self.settings.operation_seconds)

    def blades(self) -> list[CXLBlade]:
        """All blades as last seen, by name. Parsed once for each version."""
        found = []
        for obj in self.cache.all(CXL_BLADE):
            name, version = obj["metadata"]["name"], str(obj["metadata"].get("resourceVersion"))
            known = self._blades.get(name)
            if known is None or known[0] != version:
                known = (version, CXLBlade.model_validate(obj))
                self._blades[name] = known
            found.append(known[1])
        return sorted(found, key=lambda blade: blade.metadata.name)

    def holding(self, uid: str) -> Held | None:
        """The ledger entry of a region, as last seen."""
        return _holding(self.blades(), uid)

    async def holding_now(self, uid: str) -> Held | None:
        """The ledger entry of a region, as the API server has it: for before something is given up. An entry never
        moves to another blade, so the one that had it is read first, and all of them only if it has it no longer."""
        if known := self.holding(uid):
            stored = await self.client.get(CXL_BLADE, None, known.blade.metadata.name)
            if stored and (held := _holding([CXLBlade.model_validate(stored)], uid)):
                return held
        return _holding([CXLBlade.model_validate(obj) for obj in await self._ledgers.now()], uid)

    def attachments(self, uid: str) -> list[CXLAttachment]:
        """CXLAttachments of a region as last seen, by node."""
        return _of_region(self.cache.all(CXL_ATTACHMENT), uid)

    def promised(self, blade: CXLBlade) -> Counter[str]:
        """By node, how many regions of the blade wait to be connected there, as last seen."""
        entries = {entry.uid: entry for entry in blade.status.reservations}
        return Counter(
            obj["spec"]["node"]
            for obj in self.cache.all(CXL_ATTACHMENT)
            if (entry := entries.get(obj["spec"]["region"]["uid"]))
            and not book.port_of(entry, obj["spec"]["node"])
            and not obj["metadata"].get("deletionTimestamp")
            and (obj.get("status") or {}).get("phase") != "Refused"
        )

    async def attachments_now(self, uid: str) -> list[CXLAttachment]:
        """CXLAttachments of a region, as the API server has them. It picks them out: each step of a region's end asks,
        and a thousand regions that end have a thousand of them."""
        listed = await self.client.list(CXL_ATTACHMENT, fields=f"spec.region.uid={uid}")
        for obj in listed:
            self.learn(obj)
        return _of_region(listed, uid)

    async def add_finalizer(self, resource: Resource, obj: Object, finalizer: str) -> Object:
        """Say that the object must not go before we let it. The object as it is then, or as given if it says so."""
        if finalizer in obj["metadata"].get("finalizers", []):
            return obj
        return await self._edit(resource, obj, lambda names: [*names, finalizer])

    async def drop_finalizers(self, resource: Resource, obj: Object, *finalizers: str) -> None:
        """Let the object go."""
        await self._edit(resource, obj, lambda names: [name for name in names if name not in finalizers])

    async def _edit(self, resource: Resource, obj: Object, change: Callable[[list[str]], list[str]]) -> Object:
        """Change the list of finalizers by compare-and-swap, since others put theirs there too. The object as it is
        then; as given if it is gone."""
        meta, attempt = obj["metadata"], 0
        while True:
            attempt += 1
            stored = await self.client.get(resource, meta.get("namespace"), meta["name"])
            if stored is None or stored["metadata"]["uid"] != meta["uid"]:
                return obj
            names = stored["metadata"].get("finalizers", [])
            wanted = list(dict.fromkeys(change(names)))
            if wanted == names:
                return stored
            stored["metadata"]["finalizers"] = wanted
            try:
                written = await self.client.update(resource, stored)
            except ApiError as error:
                if error.not_found:
                    return obj
                if not error.conflict or attempt == ATTEMPTS:
                    raise
                continue
            if wanted or not stored["metadata"].get("deletionTimestamp"):
                self.learn(written)
            elif self.cache.drop(written):  # gone by that, which a watch that has just begun would not tell
                self._tell(written)
            return written


def _holding(blades: list[CXLBlade], uid: str) -> Held | None:
    for blade in blades:
        if entry := book.find(blade.status, uid):
            return Held(blade, entry)
    return None


def _of_region(objects: list[Object], uid: str) -> list[CXLAttachment]:
    found = [CXLAttachment.model_validate(obj) for obj in objects if obj["spec"]["region"]["uid"] == uid]
    return sorted(found, key=lambda attachment: attachment.spec.node)
