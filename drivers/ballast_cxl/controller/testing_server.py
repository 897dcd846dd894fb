"""An API server of dictionaries, and a clock: what the simulated controllers read from and write to.

Every call stops before and after its effect until the test lets it go on.
"""

import asyncio
import copy
import random
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from ballast_operator.cluster.errors import ApiError
from ballast_operator.cluster.faults import CrashAfter
from ballast_operator.objects import Object, format_time
from ballast_operator.resources import Resource, resource_of

T = TypeVar("T")


class Turns:
    """Whose turn it is: every call waits here, and the test releases one at a time."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def release(self) -> bool:
        """Let any one of those that wait go on; False if nobody waits."""
        self._waiting = [turn for turn in self._waiting if not turn.done()]
        if not self._waiting:
            return False
        turn = self._waiting.pop(self._rng.randrange(len(self._waiting)))
        turn.set_result(None)
        return True


class Server:
    """An API server: resource versions, compare-and-swap, finalizers, owners that take their children along."""

    def __init__(self, clock: "Clock", rng: random.Random) -> None:
        self.clock, self.rng = clock, rng
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.version = 100
        self.log: list[tuple[str, Object]] = []  # what watches would tell

    @staticmethod
    def key(resource: Resource, namespace: str | None, name: str) -> tuple[str, str, str]:
        return resource.kind, (namespace or "") if resource.namespaced else "", name

    def put(self, obj: Object) -> Object:
        self.version += 1
        stored = copy.deepcopy(obj)
        meta = stored["metadata"]
        meta.setdefault("uid", str(uuid.UUID(int=self.rng.getrandbits(128))))
        meta.setdefault("generation", 1)
        meta.setdefault("creationTimestamp", format_time(self.clock.now()))
        meta["resourceVersion"] = str(self.version)
        key = self.key(resource_of(stored), meta.get("namespace"), meta["name"])
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.objects.pop(key, None)
            self.log.append(("DELETED", stored))
            self._collect(meta["uid"])
        else:
            self.objects[key] = stored
            self.log.append(("MODIFIED", stored))
        return copy.deepcopy(stored)

    def delete(self, resource: Resource, namespace: str | None, name: str) -> bool:
        known = self.objects.get(self.key(resource, namespace, name))
        if known is None:
            return False
        marked = copy.deepcopy(known)
        marked["metadata"].setdefault("deletionTimestamp", format_time(self.clock.now()))
        self.put(marked)
        return True

    def all(self, kind: str) -> list[Object]:
        return [obj for (known, _, _), obj in self.objects.items() if known == kind]

    def _collect(self, owner: str) -> None:
        for obj in list(self.objects.values()):
            if any(o["uid"] == owner for o in obj["metadata"].get("ownerReferences", [])):
                meta = obj["metadata"]
                self.delete(resource_of(obj), meta.get("namespace"), meta["name"])


@dataclass
class Clock:
    """Time that passes when the test says so."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + timedelta(seconds=self.seconds)


@dataclass
class SimulatedClient:
    """What the controller uses of `Client`, a turn before and after each call."""

    server: Server
    turns: Turns
    faults: CrashAfter = field(default_factory=CrashAfter)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        await self.turns.wait()
        return copy.deepcopy(self.server.objects.get(self.server.key(resource, namespace, name)))

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> list[Object]:
        await self.turns.wait()
        return [
            copy.deepcopy(obj)
            for obj in self.server.all(resource.kind)
            if (namespace is None or obj["metadata"].get("namespace") == namespace) and selected(obj, fields)
        ]

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        await self.turns.wait()
        meta = obj["metadata"]
        if self.server.key(resource_of(obj), meta.get("namespace"), meta["name"]) in self.server.objects:
            raise ApiError(409, "AlreadyExists", f"{meta['name']} already exists")
        return await self._done(self.server.put(obj))

    async def update(self, resource: Resource, obj: Object, subresource: str | None = None) -> Object:
        await self.turns.wait()
        meta = obj["metadata"]
        known = self.server.objects.get(self.server.key(resource, meta.get("namespace"), meta["name"]))
        if known is None:
            raise ApiError(404, "NotFound", f"{meta['name']} not found")
        if known["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise ApiError(409, "Conflict", f"{meta['name']} has been modified")
        if subresource:
            return await self._done(self.server.put(known | {"status": obj["status"]}))
        return await self._done(self.server.put(obj | {"status": known.get("status", {})}))

    async def apply(self, obj: Object, *, subresource: str | None = None, manager: str = "") -> Object:
        await self.turns.wait()
        meta = obj["metadata"]
        known = self.server.objects.get(self.server.key(resource_of(obj), meta.get("namespace"), meta["name"]))
        if subresource is None:
            return await self._done(
                self.server.put(obj if known is None else known | obj | {"metadata": known["metadata"]})
            )
        if known is None or meta.get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            raise ApiError(404, "NotFound", f"{meta['name']} not found")
        if meta.get("resourceVersion", known["metadata"]["resourceVersion"]) != known["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", f"{meta['name']} has been modified")
        kept = {"node": known["status"]["node"]} if "node" in known.get("status", {}) else {}
        return await self._done(self.server.put(known | {"status": kept | obj["status"]}))

    async def delete(self, resource: Resource, obj: Object, *, propagation: str = "Background") -> bool:
        await self.turns.wait()
        meta = obj["metadata"]
        known = self.server.objects.get(self.server.key(resource, meta.get("namespace"), meta["name"]))
        if known is None or known["metadata"]["uid"] != meta["uid"]:
            return False
        return await self._done(self.server.delete(resource, meta.get("namespace"), meta["name"]))

    async def _done(self, answer: T) -> T:
        await self.turns.wait()
        return copy.deepcopy(answer)


def selected(obj: Object, fields: str) -> bool:
    """Whether a field selector such as `spec.node=n1` takes the object."""
    if not fields:
        return True
    path, _, wanted = fields.partition("=")
    for name in path.split("."):
        obj = obj[name]
    return str(obj) == wanted
