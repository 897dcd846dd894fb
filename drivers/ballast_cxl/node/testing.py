"""A cluster in memory for tests of the node plugin: an API server of dictionaries, a controller, an emulated fabric.

The API server keeps what matters here as the real one does: resource versions and compare-and-swap, finalizers, status
as a part of its own, watches. The controller does the control side's part of an attachment and nothing else.
"""

import asyncio
import copy
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ballast_cxl.names import FABRIC_FINALIZER, region_device
from ballast_cxl.node.attachments import MANAGER
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_BLADE, CXL_REGION, RESOURCE_CLAIM
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object
from ballast_operator.resources import Resource, resource_of

SIZE = 1 << 20


class Server:
    """Objects by resource and name. `calls` holds every write, as `create CXLAttachment NAME`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.version = 0
        self.calls: list[str] = []
        self.watchers: list[asyncio.Queue[tuple[str, Object]]] = []
        self.down = False

    def key(self, resource: Resource, namespace: str | None, name: str) -> tuple[str, str, str]:
        return resource.kind, namespace or "", name

    def put(self, obj: Object) -> Object:
        """Store as the newest version, and tell."""
        self.version += 1
        stored = copy.deepcopy(obj)
        meta = stored["metadata"]
        meta.setdefault("uid", str(uuid.uuid4()))
        meta["resourceVersion"] = str(self.version)
        key = self.key(resource_of(stored), meta.get("namespace"), meta["name"])
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.objects.pop(key, None)
            self._tell("DELETED", stored)
        else:
            kind = "MODIFIED" if key in self.objects else "ADDED"
            self.objects[key] = stored
            self._tell(kind, stored)
        return copy.deepcopy(stored)

    def _tell(self, kind: str, obj: Object) -> None:
        for queue in self.watchers:
            queue.put_nowait((kind, copy.deepcopy(obj)))


class FakeClient:
    """What the plugin uses of `Client`."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def _check(self) -> None:
        if self.server.down:
            raise TimeoutError

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        self._check()
        return copy.deepcopy(self.server.objects.get(self.server.key(resource, namespace, name)))

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> list[Object]:
        self._check()
        wanted = dict(part.split("=") for part in labels.split(",") if part)
        return [
            copy.deepcopy(obj)
            for (kind, where, _), obj in self.server.objects.items()
            if kind == resource.kind
            and namespace in (None, where)
            and wanted.items() <= (obj["metadata"].get("labels") or {}).items()
            and (not fields or fields == f"spec.node={obj['spec'].get('node')}")
        ]

    async def watch(self, resource: Resource, fields: str = "") -> AsyncIterator[tuple[str, Object]]:
        self._check()
        queue: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        self.server.watchers.append(queue)
        try:
            while True:
                kind, obj = await queue.get()
                if obj["kind"] == resource.kind and fields == f"spec.node={obj['spec'].get('node')}":
                    yield kind, obj
        finally:
            self.server.watchers.remove(queue)

    async def create(self, obj: Object) -> Object:
        self._check()
        meta = obj["metadata"]
        self.server.calls.append(f"create {obj['kind']} {meta['name']}")
        if self.server.key(resource_of(obj), meta.get("namespace"), meta["name"]) in self.server.objects:
            raise ApiError(409, "AlreadyExists", f"{meta['name']} already exists")
        return self.server.put(obj)

    async def update(self, resource: Resource, obj: Object) -> Object:
        self._check()
        meta = obj["metadata"]
        self.server.calls.append(f"update {obj['kind']} {meta['name']}")
        known = self.server.objects.get(self.server.key(resource, meta.get("namespace"), meta["name"]))
        if known is None:
            raise ApiError(404, "NotFound", f"{meta['name']} not found")
        if known["metadata"]["resourceVersion"] != meta.get("resourceVersion"):
            raise ApiError(409, "Conflict", "the object has been modified")
        return self.server.put(obj | {"status": known.get("status", {})})

    async def apply(self, obj: Object, *, subresource: str | None = None, manager: str = "") -> Object:
        """Of `status` only, and a whole member at a time, as the owner of all of that member."""
        self._check()
        meta = obj["metadata"]
        self.server.calls.append(f"apply {obj['kind']} {meta['name']}")
        known = self.server.objects.get(self.server.key(resource_of(obj), meta.get("namespace"), meta["name"]))
        if known is None or (subresource, manager) != ("status", MANAGER):
            raise ApiError(404, "NotFound", f"{meta['name']} not found")
        return self.server.put(known | {"status": known.get("status", {}) | obj["status"]})

    async def delete(self, resource: Resource, obj: Object) -> bool:
        self._check()
        meta = obj["metadata"]
        self.server.calls.append(f"delete {obj['kind']} {meta['name']}")
        known = self.server.objects.get(self.server.key(resource, meta.get("namespace"), meta["name"]))
        if known is None or known["metadata"]["uid"] != meta["uid"]:
            return False
        marked = copy.deepcopy(known)
        marked["metadata"].setdefault("deletionTimestamp", "2026-01-02T03:04:05Z")
        self.server.put(marked)
        return True


class Fabric:
    """The control side and the appliance: a ledger, ports with files on them, answers to attachments."""

    def __init__(self, server: Server, root: Path) -> None:
        self.server, self.root = server, root
        (root / "ports").mkdir(parents=True)
        (root / "regions").mkdir()
        self.detached: list[str] = []  # attachments whose port was taken away, in order
        self.paused = False
        self._generation = 0
        self.ledger({})

    def ledger(self, reservations: dict[str, Object]) -> None:
        blade = {"apiVersion": CXL_BLADE.api_version, "kind": "CXLBlade", "metadata": {"name": "b0"}, "spec": {}}
        self.server.put(blade | {"status": {"reservations": list(reservations.values())}})

    @property
    def reservations(self) -> dict[str, Object]:
        blade = self.server.objects["CXLBlade", "", "b0"]
        return {entry["uid"]: copy.deepcopy(entry) for entry in blade["status"]["reservations"]}

    def region(self, name: str, namespace: str = "team-a", labels: Object | None = None, **spec: Any) -> str:
        """A composed region; its uid."""
        meta = {"name": name, "namespace": namespace, "labels": labels or {}}
        base = {"apiVersion": CXL_REGION.api_version, "kind": "CXLRegion"}
        made = self.server.put(base | {"metadata": meta, "spec": {"size": str(SIZE)} | spec})
        uid = str(made["metadata"]["uid"])
        (self.root / "regions" / uid).write_bytes(b"\x5a" * SIZE)
        entry = {"uid": uid, "namespace": namespace, "name": name, "state": "Composed", "attachments": []}
        self.ledger(self.reservations | {uid: entry})
        return uid

    def set(self, region_uid: str, **members: Any) -> None:
        """Change a region's entry in the ledger."""
        entries = self.reservations
        entries[region_uid] |= members
        self.ledger(entries)

    async def run(self) -> None:
        """Answer attachments for ever."""
        while True:
            if not self.paused:
                self.answer()
            await asyncio.sleep(0.005)

    def answer(self) -> None:
        for obj in [o for (kind, _, _), o in self.server.objects.items() if kind == "CXLAttachment"]:
            finalizers = obj["metadata"].get("finalizers", [])
            if obj["metadata"].get("deletionTimestamp"):
                if finalizers == [FABRIC_FINALIZER]:
                    self.unassign(obj)
                    self.server.put(obj | {"metadata": obj["metadata"] | {"finalizers": []}})
            elif obj.get("status", {}).get("phase") != "Assigned":
                self.assign(obj)

    def assign(self, obj: Object) -> None:
        region, node = obj["spec"]["region"]["uid"], obj["spec"]["node"]
        if region not in self.reservations:
            return
        self._generation += 1
        port = f"port-{node}"
        serial = f"0x{self._generation:x}"
        folder = self.root / "ports" / port
        folder.mkdir(exist_ok=True)
        os.link(self.root / "regions" / region, folder / serial)
        entry = {"node": node, "port": port, "generation": self._generation, "state": "Assigned"}
        others = [a for a in self.reservations[region]["attachments"] if a["node"] != node]
        self.set(region, attachments=[*others, entry])
        status = {"phase": "Assigned", "generation": self._generation, "port": port, "serial": serial, "size": SIZE}
        self.server.put(obj | {"status": obj.get("status", {}) | status})

    def unassign(self, obj: Object) -> None:
        """Take the port away; also without asking the node, as a fence does."""
        status, region = obj.get("status", {}), obj["spec"]["region"]["uid"]
        self.detached.append(obj["metadata"]["name"])
        if status.get("serial"):
            (self.root / "ports" / status["port"] / status["serial"]).unlink(missing_ok=True)
        if region in self.reservations:
            kept = [a for a in self.reservations[region]["attachments"] if a["node"] != obj["spec"]["node"]]
            self.set(region, attachments=kept)


def claim(
    server: Server, name: str, *devices: str, namespace: str = "team-a", uid: str | None = None, **extra: Any
) -> Object:
    """An allocated ResourceClaim. devices: names, `regions` being their pool; extra: annotations, config."""
    results = [
        {"request": f"r{index}", "driver": "cxl.ballast.dev", "pool": "regions", "device": device}
        for index, device in enumerate(devices)
    ]
    allocation = {"devices": {"results": results, "config": extra.get("config", [])}}
    meta = {"name": name, "namespace": namespace, "annotations": extra.get("annotations", {})}
    if uid:
        meta["uid"] = uid
    base = {"apiVersion": RESOURCE_CLAIM.api_version, "kind": "ResourceClaim", "metadata": meta}
    return server.put(base | {"spec": {}, "status": {"allocation": allocation}})


def device_of(region_uid: str) -> str:
    return region_device(region_uid)


def scrub_attachment(server: Server, region: Object, node: str, name: str) -> Object:
    """What the controller makes to have a region wiped."""
    meta = {"name": name, "finalizers": [FABRIC_FINALIZER]}
    base = {"apiVersion": CXL_ATTACHMENT.api_version, "kind": "CXLAttachment", "metadata": meta}
    return server.put(base | {"spec": {"region": region, "node": node, "purpose": "Scrub"}})
