"""What kubelet's two calls do for one claim.

Prepare: read the claim, write it down, ask for each region's attachment, wait until ledger and fabric have it, bring
the device up, write the CDI file, write down that it is done. Every step finds its own earlier work, so a call that was
cut off anywhere is simply made again. Unprepare: remove the file, cross out the claim. It never takes a device down:
the keeper does, when no claim and no process uses the region.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from ballast_cxl.cdi.edits import Share, document
from ballast_cxl.cdi.store import Store
from ballast_cxl.host import Device, NotThere, Slot
from ballast_cxl.names import CLAIM_REQUEST, CLAIM_UID
from ballast_cxl.node import judge
from ballast_cxl.node.attachments import Attachments
from ballast_cxl.node.checkpoint import Checkpoint, Entry, Region, Use, with_slot
from ballast_cxl.node.claims import Refused, Wish, wishes
from ballast_cxl.node.devices import Devices
from ballast_cxl.node.faults import reached
from ballast_cxl.node.judge import NotYet
from ballast_cxl.resources import CXL_BLADE, CXL_REGION, RESOURCE_CLAIM
from ballast_operator.cluster.client import Client
from ballast_operator.objects import Object

TICK_SECONDS = 0.5
"""How often the ledger is read again while a call waits; attachments ring by themselves."""


@dataclass
class Preparer:
    """Serves both calls. seconds: how long one call may wait."""

    client: Client
    node: str
    incarnation: str
    checkpoint: Checkpoint
    store: Store
    attachments: Attachments
    devices: Devices
    seconds: float

    async def prepare(self, namespace: str, name: str, uid: str) -> Entry:
        """The claim, prepared. Raises Refused, or what a later call may cure."""
        claim = await self.client.get(RESOURCE_CLAIM, namespace, name)
        if claim is None:
            raise Refused(f"ResourceClaim {namespace}/{name} does not exist")
        wanted = wishes(claim, uid)
        blades = await self.client.list(CXL_BLADE)
        uses = tuple([await self._use(namespace, uid, wish, blades) for wish in wanted])
        with self.checkpoint.change() as entries:
            known = entries.get(uid)
            if known is None or _asked(known.uses) != _asked(uses):
                entries[uid] = Entry(uid, namespace, name, uses)
        reached("prepare.noted")
        up = await asyncio.gather(*(self._bring_up(uid, use.region) for use in uses))
        return self._finish(uid, dict(zip((use.region.uid for use in uses), up, strict=True)))

    def unprepare(self, uid: str) -> None:
        """Forget a claim. Done if it is not known."""
        with self.checkpoint.change() as entries:
            self.store.remove(uid)
            reached("unprepare.cdi")
            entries.pop(uid, None)
        reached("unprepare.crossed")
        self.attachments.ring()

    async def _use(self, namespace: str, uid: str, wish: Wish, blades: list[Object]) -> Use:
        """The region that a device stands for, if the claim's namespace may have it."""
        region = await self._region(namespace, uid, wish, blades)
        judge.may_use(region, namespace)
        meta = region["metadata"]
        share = Share(wish.cdi_name, wish.path, wish.variable, meta["uid"], 0, wish.read_only)
        found = Region(meta["namespace"], meta["name"], meta["uid"])
        return Use(wish.request, wish.pool, wish.device, wish.share_id, found, share)

    async def _region(self, namespace: str, uid: str, wish: Wish, blades: list[Object]) -> Object:
        entry = judge.by_device(wish.device, blades)
        if entry is not None:
            found = await self.client.get(CXL_REGION, entry["namespace"], entry["name"])
            if found is None or found["metadata"]["uid"] != entry["uid"]:
                raise Refused(f"CXLRegion {entry['namespace']}/{entry['name']} of device {wish.device} is gone")
            return found
        made = await self.client.list(CXL_REGION, namespace, f"{CLAIM_UID}={uid},{CLAIM_REQUEST}={wish.request}")
        if len(made) != 1:
            raise NotYet(f"device {wish.device} has {len(made)} regions made for it; one is needed")
        return made[0]

    async def _bring_up(self, uid: str, region: Region) -> tuple[Slot, Device]:
        """The region's device on this node, with what the fabric says of it. Raises NotYet when time is up."""
        last: list[str] = []
        try:
            async with asyncio.timeout(self.seconds):
                return await self._try_until_up(uid, region, last)
        except TimeoutError:
            why = last[-1] if last else "the API server did not answer"
            raise NotYet(f"{why}; waited {self.seconds:g} s, kubelet will ask again") from None

    async def _try_until_up(self, uid: str, region: Region, last: list[str]) -> tuple[Slot, Device]:
        while True:
            # Another pod of the claim may end meanwhile. Nobody would want then what is asked for here, so the keeper
            # would wish it away, and be asked again, for as long as this call lasts.
            if uid not in self.checkpoint.read():
                raise NotYet(_given_up(uid))
            try:
                return await self._try_up(region)
            except (NotYet, NotThere) as reason:
                last.append(str(reason))
            await self.attachments.change(TICK_SECONDS)

    async def _try_up(self, region: Region) -> tuple[Slot, Device]:
        found = self.attachments.of(region.uid)
        if found is None:
            found = await self.attachments.ask({"namespace": region.namespace, "name": region.name, "uid": region.uid})
            reached("prepare.asked")
        if found["metadata"].get("deletionTimestamp"):
            raise NotYet(f"CXLRegion {region.namespace}/{region.name} is still being detached from node {self.node}")
        if found["spec"].get("purpose") == "Scrub":
            raise Refused(f"CXLRegion {region.namespace}/{region.name} is being overwritten with zeros")
        blades = await self.client.list(CXL_BLADE)
        slot = judge.slot(region, self.node, found, blades, judge.COMPOSED)
        device = await self.devices.up(slot)
        reached("prepare.up")
        await self.attachments.report(found, **attached(device, self.incarnation))
        reached("prepare.reported")
        return slot, device

    def _finish(self, uid: str, up: dict[str, tuple[Slot, Device]]) -> Entry:
        """Write the CDI file and note that it is done, unless the claim was given up meanwhile."""
        with self.checkpoint.change() as entries:
            entry = entries.get(uid)
            if entry is None:
                raise NotYet(_given_up(uid))
            for region_uid, (slot, _) in up.items():
                entry = with_slot(entry, region_uid, slot)
            self.store.write(uid, document(shares(entry, {key: device for key, (_, device) in up.items()})))
            reached("prepare.cdi")
            entries[uid] = done = replace(entry, prepared=True)
        reached("prepare.done")
        return done


def shares(entry: Entry, devices: dict[str, Device]) -> list[tuple[Share, Device]]:
    """What the claim's CDI file is made of. devices: by region uid, all of the claim's."""
    found = [(use.share, devices[use.region.uid]) for use in entry.uses]
    return [(replace(share, size=device.size), device) for share, device in found]


def attached(device: Device, incarnation: str) -> dict[str, Any]:
    """What the node says of a device that is up."""
    major, minor = device.numbers or (None, None)
    return {
        "state": "Attached",
        "device": device.path,
        "major": major,
        "minor": minor,
        "incarnation": incarnation,
    }


def _given_up(uid: str) -> str:
    return f"claim {uid} was unprepared while it was being prepared; kubelet will ask again"


def _asked(uses: tuple[Use, ...]) -> list[Use]:
    """Uses without what only the fabric knows."""
    return [replace(use, slot=None) for use in uses]
