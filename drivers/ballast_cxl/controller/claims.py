"""Memory that was asked for by a claim alone: a region is made for it, composed before the pod is bound.

The scheduler chose the device, and with it the blocks. The region's object belongs to the claim and goes with it; when
a claim lives on without its allocation, as a shared one does after its last pod, the region goes all the same, for
somebody else may be given the device now. Binding waits for the condition that is written here.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from ballast_api import API_VERSION
from ballast_api.cxlblade import ReservationState
from ballast_cxl.controller.choice import BLADE, DEVICE, extent_of
from ballast_cxl.controller.world import World
from ballast_cxl.grid import Grid
from ballast_cxl.metrics import PREBIND_SECONDS
from ballast_cxl.names import CLAIM_REQUEST, CLAIM_UID, DRIVER
from ballast_cxl.quantity import to_text
from ballast_cxl.resources import CXL_REGION, RESOURCE_CLAIM
from ballast_cxl.slices.devices import ANY, COMPOSE_FAILED, COMPOSED
from ballast_operator.cluster.client import STATUS_MANAGER
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Key, Object, digest, format_time, parse_time

log = logging.getLogger(__name__)

LONGEST_NAME = 63
FINAL = ("QuotaExceeded", "NoBlade", "MemoryLost", "Quarantined", "InvalidSpec")  # no waiting cures these


@dataclass
class Claims:
    """Looks after ResourceClaims that were given raw capacity of ours."""

    world: World

    async def reconcile(self, key: Key) -> float | None:
        claim = self.world.cache.get(RESOURCE_CLAIM, key.namespace, key.name)
        results = list(raw_results(claim)) if claim else []
        wanted = {}
        if claim and not claim["metadata"].get("deletionTimestamp"):
            wanted = {region_name(claim, result, len(results) > 1): result for result in results}
        for region in self._made(key, claim):
            if region["metadata"]["name"] not in wanted and not region["metadata"].get("deletionTimestamp"):
                await self.world.client.delete(CXL_REGION, region)
        if claim is None or not wanted:
            return None
        rows = [await self._answer(claim, name, result) for name, result in wanted.items()]
        await self._write(claim, [row for row in rows if row])
        return None if all(rows) else 5.0

    def _made(self, key: Key, claim: Object | None) -> list[Object]:
        """Regions that were made for this claim."""
        uid = claim["metadata"]["uid"] if claim else None
        return [
            obj
            for obj in self.world.cache.all(CXL_REGION)
            if obj["metadata"]["namespace"] == key.namespace
            and CLAIM_UID in (labels := obj["metadata"].get("labels") or {})
            and (labels[CLAIM_UID] == uid or (uid is None and _owner_name(obj) == key.name))
        ]

    async def _answer(self, claim: Object, name: str, result: Object) -> Object | None:
        """The device's row of the claim's status, once there is something to say."""
        region = self.world.cache.get(CXL_REGION, claim["metadata"]["namespace"], name)
        if region is None:
            await self._make(claim, name, result)
            return None
        held = self.world.holding(region["metadata"]["uid"])
        if held and held.entry.state is ReservationState.COMPOSED:
            message = f"CXLRegion {name} is composed on blade {held.blade.metadata.name}"
            return row(claim, result, COMPOSED, "Composed", message, self.world)
        ready = next((c for c in region.get("status", {}).get("conditions", []) if c["type"] == "Ready"), None)
        if held is None and ready and ready["reason"] in FINAL:
            return row(claim, result, COMPOSE_FAILED, ready["reason"], ready["message"], self.world)
        return None

    async def _make(self, claim: Object, name: str, result: Object) -> None:
        blade = next((b for b in self.world.blades() if b.metadata.name == result["pool"]), None)
        if blade is None or blade.status.geometry is None:
            log.error("claim %s was given a device of %s, which is no blade", claim["metadata"]["name"], result["pool"])
            return
        grid, extent = Grid.of(blade.status.geometry), extent_of(result["device"])
        size = extent.rows * grid.row_bytes if extent else result.get("consumedCapacity", {}).get("size")
        if size is None:
            log.error("claim %s has no consumedCapacity of device %s", claim["metadata"]["name"], result["device"])
            return
        meta = claim["metadata"]
        body: Object = {
            "apiVersion": API_VERSION,
            "kind": CXL_REGION.kind,
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {CLAIM_UID: meta["uid"], CLAIM_REQUEST: result["request"].partition("/")[0]},
                "annotations": {BLADE: result["pool"], DEVICE: result["device"]},
                "ownerReferences": [
                    {
                        "apiVersion": RESOURCE_CLAIM.api_version,
                        "kind": RESOURCE_CLAIM.kind,
                        "name": meta["name"],
                        "uid": meta["uid"],
                    }
                ],
            },
            "spec": {"size": size if isinstance(size, str) else to_text(size), "class": blade.spec.class_},
        }
        try:
            self.world.learn(await self.world.client.create(body))
        except ApiError as error:
            if not error.conflict:  # made by another controller, or an old one is still on its way out
                raise

    async def _write(self, claim: Object, rows: list[Object]) -> None:
        """Write our devices' rows, if one of them is new."""
        known = {
            (device["device"], device.get("shareID")): [(c["type"], c["status"]) for c in device.get("conditions", [])]
            for device in (claim.get("status") or {}).get("devices", [])
            if device["driver"] == DRIVER
        }
        said = {(r["device"], r.get("shareID")): [(c["type"], c["status"]) for c in r["conditions"]] for r in rows}
        if not rows or all(known.get(device) == conditions for device, conditions in said.items()):
            return
        meta = {key: claim["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {"apiVersion": claim["apiVersion"], "kind": claim["kind"], "metadata": meta, "status": {"devices": rows}}
        try:
            self.world.learn(await self.world.client.apply(body, subresource="status", manager=STATUS_MANAGER))
        except ApiError as error:
            if not (error.not_found or error.conflict):
                raise
            return
        if stamp := claim["status"]["allocation"].get("allocationTimestamp"):
            PREBIND_SECONDS.observe((self.world.clock() - parse_time(stamp)).total_seconds())


def raw_results(claim: Object) -> Iterator[Object]:
    """Devices of an allocation that stand for capacity, not for a region that somebody made."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in allocation.get("devices", {}).get("results", []):
        if result["driver"] == DRIVER and (result["device"] == ANY or extent_of(result["device"])):
            yield result


def region_name(claim: Object, result: Object, several: bool) -> str:
    """The claim's own name where that will do; with a digest of what was given to it, which another time differs."""
    meta = claim["metadata"]
    given = digest([meta["uid"], result["request"], result["pool"], result["device"], result.get("shareID")])[:8]
    words = [meta["name"].replace(".", "-")] + ([result["request"].partition("/")[0]] if several else [])
    return f"{'-'.join(words)[: LONGEST_NAME - 9].rstrip('-')}-{given}"


def row(claim: Object, result: Object, kind: str, reason: str, message: str, world: World) -> Object:
    """One device with one condition. The time is that of the first time it was said."""
    condition = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message[:1000],
        "observedGeneration": claim["metadata"].get("generation", 0),
        "lastTransitionTime": format_time(world.clock()),
    }
    found = {"driver": DRIVER, "pool": result["pool"], "device": result["device"], "conditions": [condition]}
    return found | ({"shareID": result["shareID"]} if "shareID" in result else {})


def _owner_name(region: Object) -> str:
    return next(
        (o["name"] for o in region["metadata"].get("ownerReferences", []) if o["kind"] == RESOURCE_CLAIM.kind), ""
    )
