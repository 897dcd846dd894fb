"""The one publisher of this driver's cluster-scoped ResourceSlices, and of the grants that admission looks up.

It is told that something changed, waits a moment for more, and brings the slices there. Nothing else deletes
cluster-scoped slices, so what it does not know of its own driver it removes.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import aiohttp

from ballast_api.cxlblade import CXLBlade
from ballast_cxl.controller.world import World
from ballast_cxl.metrics import BLADE_BYTES, LARGEST_EXTENT, SLICE_GENERATION
from ballast_cxl.names import DRIVER, GRANTS, RAW_CLASS
from ballast_cxl.quantity import to_bytes
from ballast_cxl.resources import CXL_REGION, DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from ballast_cxl.slices import devices, pools
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Key, Object
from ballast_operator.resources import CONFIG_MAP

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.3  # further changes often follow at once
RETRY_SECONDS = 2.0


@dataclass
class Publisher:
    """Keeps slices and grants as they should be."""

    world: World
    clock: Callable[[], float] = monotonic
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _stored: dict[str, Object] | None = None  # slices by name, as we left them
    _listed_at: float = 0.0
    _offered: set[str] = field(default_factory=set)
    _granted: dict[str, str] | None = None
    _right: dict[str, tuple[devices.Pool, list[tuple[str, str]]]] = field(default_factory=dict)  # nothing to write then
    _made: dict[str, tuple[CXLBlade, set[str], dict[str, int], list[devices.Pool]]] = field(default_factory=dict)

    def changed(self) -> None:
        """Something that slices are made from is different."""
        self._wake.set()

    def offers(self, uid: str) -> bool:
        """Whether the scheduler can see a region."""
        return uid in self._offered

    async def run(self) -> None:
        """For ever: after each change, and every so often against what somebody else changed."""
        while True:
            self._wake.clear()
            pause = float(self.world.settings.publish_seconds)
            try:
                await self.sync()
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                log.warning("slices are put off: %s", error)
                self._stored, pause = None, RETRY_SECONDS
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
                await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                continue

    async def sync(self) -> None:
        """Bring slices and grants to what they should be now."""
        stored = await self._slices()
        wanted = self._wanted()
        owner = await self.world.client.get(DEVICE_CLASS, None, RAW_CLASS) if wanted else None
        by_pool: dict[str, list[Object]] = {}
        for obj in stored.values():
            by_pool.setdefault(obj["spec"]["pool"]["name"], []).append(obj)
        await self._grant()  # before a region is said to be offered
        for name in by_pool.keys() - wanted.keys():
            await self._do(pools.withdrawn(by_pool[name]))
        for name, pool in wanted.items():
            await self._bring(pool, by_pool.get(name, []), owner)
            self._tell(self._offered | devices.offered_uids([pool]))  # there may be many more pools to write
        self._tell(devices.offered_uids(wanted.values()))

    async def _bring(self, pool: devices.Pool, stored: list[Object], owner: Object | None) -> None:
        """Bring one pool to what it should be. Most are as they were when nothing was to be done, and comparing them
        device by device again, of a thousand regions at every change of one, took more time than all else."""
        now = (pool, sorted((obj["metadata"]["name"], obj["metadata"]["resourceVersion"]) for obj in stored))
        if self._right.get(pool.name) == now:
            return
        if writes := pools.writes(pool, stored, owner):
            await self._do(writes)
        else:
            self._right[pool.name] = now

    def _wanted(self) -> dict[str, devices.Pool]:
        leaving = {
            obj["metadata"]["uid"]
            for obj in self.world.cache.all(CXL_REGION)
            if obj["metadata"].get("deletionTimestamp")
        }
        found: dict[str, devices.Pool] = {}
        allocated = self._allocated()
        for blade in self.world.blades():
            if blade.metadata.deletion_timestamp is None:
                found |= {pool.name: pool for pool in self._pools(blade, leaving, allocated)}
            else:
                measure(blade)
        return found

    def _pools(self, blade: CXLBlade, leaving: set[str], allocated: dict[str, int]) -> list[devices.Pool]:
        """The blade's pools; the same ones for as long as nothing that they are made from is different."""
        name, gone = blade.metadata.name, leaving & {entry.uid for entry in blade.status.reservations}
        known = self._made.get(name)
        if known and known[0] is blade and known[1:3] == (gone, allocated):
            return known[3]
        measure(blade)
        made = devices.pools(blade, gone, allocated)
        self._made[name] = (blade, gone, allocated, made)
        return made

    def _allocated(self) -> dict[str, int]:
        """Claims that hold capacity of ours by the scheduler's own account."""
        return {
            claim["metadata"]["uid"]: 1
            for claim in self.world.cache.all(RESOURCE_CLAIM)
            for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", [])
            if result["driver"] == DRIVER
        }

    async def _slices(self) -> dict[str, Object]:
        """Ours, listed now and then, and as we left them in between."""
        if self._stored is None or self.clock() - self._listed_at >= self.world.settings.publish_seconds:
            listed = await self.world.client.list(RESOURCE_SLICE, fields=f"spec.driver={DRIVER}")
            ours = [obj for obj in listed if not obj["spec"].get("nodeName")]
            self._stored = {obj["metadata"]["name"]: obj for obj in ours}
            self._listed_at = self.clock()
        return self._stored

    async def _do(self, writes: list[pools.Write]) -> None:
        client = self.world.client
        for write in writes:
            name = write.body["metadata"]["name"]
            log.info("%s slice %s", write.verb, name)
            assert self._stored is not None
            if write.verb == "delete":
                await client.delete(RESOURCE_SLICE, write.body)
                self._stored.pop(name, None)
                continue
            put = client.create(write.body) if write.verb == "create" else client.update(RESOURCE_SLICE, write.body)
            self._stored[name] = got = await put
            SLICE_GENERATION.labels(got["spec"]["pool"]["name"]).set(got["spec"]["pool"]["generation"])
            if lost := pools.dropped(write.body, got):
                log.error("the API server dropped %s of slice %s; a feature gate is off", ", ".join(lost), name)

    def _tell(self, offered: set[str]) -> None:
        """Have the regions looked after that are offered now and were not, or no longer."""
        changed = self._offered ^ offered
        if not changed:
            return
        self._offered = offered
        for obj in self.world.cache.all(CXL_REGION):
            if obj["metadata"]["uid"] in changed:
                meta = obj["metadata"]
                self.world.queue.add(Key(CXL_REGION.kind, meta["namespace"], meta["name"]))

    async def _grant(self) -> None:
        """Write down which namespaces may select which regions, where the admission policy reads it."""
        granted = grants(self.world.cache.all(CXL_REGION))
        if granted == self._granted:
            return
        meta = {"name": GRANTS, "namespace": self.world.settings.lease_namespace}
        await self.world.client.apply({"apiVersion": "v1", "kind": CONFIG_MAP.kind, "metadata": meta, "data": granted})
        self._granted = granted


def grants(regions: list[Object]) -> dict[str, str]:
    """`namespace.region` to the further namespaces that may use it; neither name has a dot."""
    return {
        f"{obj['metadata']['namespace']}.{obj['metadata']['name']}": " ".join(sorted(obj["spec"]["allowedNamespaces"]))
        for obj in regions
        if obj["spec"].get("sharing") == "Explicit"
        and obj["spec"].get("allowedNamespaces")
        and not obj["metadata"].get("deletionTimestamp")
    }


def measure(blade: CXLBlade) -> None:
    """The blade's gauges."""
    if blade.status.geometry is None:
        return
    name = blade.metadata.name
    for state, size in devices.raw_bytes(blade).items():
        BLADE_BYTES.labels(name, state).set(size)
    LARGEST_EXTENT.labels(name).set(to_bytes(blade.status.observed.largest_extent))
