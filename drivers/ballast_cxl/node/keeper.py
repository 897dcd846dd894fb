"""Brings this node's devices to what its attachments say, from whatever state they are in.

It looks at every attachment of the node at each change and every few seconds: a device that should be up is brought up
and its CDI files are put back (a reboot empties their folder, and kubelet does not ask again for pods that run); one
that no claim uses any more is wished away; one that is to go is taken down, but never under a process that has it
mapped; a region that is to be wiped is wiped. What cannot be done now is said in the attachment and tried again.
"""

import asyncio
import logging
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from ballast_cxl.cdi.edits import document
from ballast_cxl.cdi.store import Store
from ballast_cxl.host import Device, HostError, InUse
from ballast_cxl.names import NODE_FINALIZER
from ballast_cxl.node import judge, wipe
from ballast_cxl.node.attachments import EXPECTED, Attachments
from ballast_cxl.node.checkpoint import Checkpoint, CheckpointError, Entries, Entry, users_of
from ballast_cxl.node.claims import Refused
from ballast_cxl.node.devices import Devices
from ballast_cxl.node.faults import reached
from ballast_cxl.node.health import DeviceHealth, Health
from ballast_cxl.node.judge import NotYet
from ballast_cxl.node.prepare import attached, shares
from ballast_cxl.resources import CXL_BLADE
from ballast_operator.cluster.client import Client
from ballast_operator.objects import Object

log = logging.getLogger(__name__)


@dataclass
class Keeper:
    """One pass is `look`; `run` makes one at every change and every `seconds`."""

    client: Client
    node: str
    incarnation: str
    checkpoint: Checkpoint
    store: Store
    attachments: Attachments
    devices: Devices
    health: Health
    seconds: float
    _passed: float = field(default_factory=monotonic)
    _trouble: dict[str, str] = field(default_factory=dict)  # by region uid: why its device is not up
    _wiping: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self) -> None:
        await self.attachments.synced.wait()
        while True:
            change = asyncio.ensure_future(self.attachments.change(self.seconds))
            try:
                await self.look()
            except (*EXPECTED, CheckpointError) as error:
                log.warning("could not look after the devices: %s", error)
            await change

    def age(self) -> float:
        """Seconds since a pass was last ended."""
        return monotonic() - self._passed

    async def look(self) -> None:
        """One pass over everything. Raises EXPECTED errors, CheckpointError."""
        blades = await self.client.list(CXL_BLADE)
        entries = self.checkpoint.read()
        for region in {use.region for entry in entries.values() if entry.prepared for use in entry.uses}:
            if self.attachments.of(region.uid) is None:  # cut off while the node was silent, and pods still run
                await self.attachments.ask(asdict(region))
        for attachment in self.attachments.all():
            try:
                await self._one(attachment, blades)
            except (HostError, NotYet, Refused) as error:
                region_uid = attachment["spec"]["region"]["uid"]
                if self.attachments.of(region_uid) is attachment:  # else that was about the past: look again
                    self._trouble[region_uid] = str(error)
                    await self.attachments.report(attachment, **_still(attachment, str(error)))
        await self._rebuild_files()
        self._passed = monotonic()
        self.health.say(_health(self.checkpoint.read(), self.attachments, self._trouble))

    async def _one(self, attachment: Object, blades: list[Object]) -> None:
        region_uid = attachment["spec"]["region"]["uid"]
        users = users_of(self.checkpoint.read(), region_uid)
        if attachment["metadata"].get("deletionTimestamp"):
            await self._take_down(attachment, users)
        elif attachment["spec"].get("purpose") == "Scrub":
            await self._wipe(attachment, blades)
        elif not users:
            await self.attachments.release(attachment)
            reached("keeper.deleted")
        elif attachment.get("status", {}).get("phase"):
            slot = judge.slot(judge.region_of(attachment), self.node, attachment, blades, judge.COMPOSED)
            device = await self.devices.up(slot)
            self._trouble.pop(region_uid, None)
            await self.attachments.report(attachment, **attached(device, self.incarnation))

    async def _take_down(self, attachment: Object, users: list[Entry]) -> None:
        """The way out: claims first, then processes, then the device, then our finalizer."""
        if NODE_FINALIZER not in attachment["metadata"].get("finalizers", []):
            return
        if users:
            raise InUse(f"in use by claim {', '.join(f'{entry.namespace}/{entry.name}' for entry in users)}")
        name = attachment["metadata"]["name"]
        if task := self._wiping.pop(name, None):
            task.cancel()
            await asyncio.wait({task})
        slot = judge.place(attachment)
        if slot is not None:
            await self.devices.down(slot)
        elif _said(attachment).get("device"):
            raise HostError("the attachment no longer says where its device is, so it cannot be taken down")
        reached("keeper.down")
        self._trouble.pop(attachment["spec"]["region"]["uid"], None)
        await self.attachments.report(attachment, **(_said(attachment) | {"state": "Down", "message": None}))
        reached("keeper.told")
        await self.attachments.let_go(attachment)

    async def _wipe(self, attachment: Object, blades: list[Object]) -> None:
        """Start wiping, if that is what the ledger says too and it is not being done or done."""
        name = attachment["metadata"]["name"]
        if (task := self._wiping.get(name)) and not task.done():
            return
        if wipe.settled(attachment):
            return
        slot = judge.slot(judge.region_of(attachment), self.node, attachment, blades, judge.SCRUBBING)
        await self.attachments.hold(attachment)
        self._wiping[name] = asyncio.create_task(
            wipe.wipe(attachment, slot, self.devices, self.attachments, self.incarnation)
        )

    async def _rebuild_files(self) -> None:
        """Every prepared claim has its CDI file, and nobody else has one."""
        seen = {entry.uid: (entry, await self._devices(entry)) for entry in self.checkpoint.read().values()}
        with self.checkpoint.change() as entries:
            self.store.sweep({entry.uid for entry in entries.values() if entry.prepared})
            for entry, found in seen.values():
                if entry.prepared and found is not None and entries.get(entry.uid) == entry:
                    self.store.write(entry.uid, document(shares(entry, found)))

    async def _devices(self, entry: Entry) -> dict[str, Device] | None:
        """The claim's devices by region uid; None if one is not up: then its old file is as good as another."""
        found = {}
        for use in entry.uses:
            try:
                device = await self.devices.find(use.slot) if use.slot else None
            except HostError:
                device = None
            if device is None:
                return None
            found[use.region.uid] = device
        return found


def _said(attachment: Object) -> dict[str, Any]:
    """What the node said last."""
    return dict(attachment.get("status", {}).get("node") or {})


def _still(attachment: Object, message: str) -> dict[str, Any]:
    """As before, with what is in the way now."""
    said = _said(attachment)
    return said | {"state": said.get("state", "Attaching"), "message": message[:1024]}


def _health(entries: Entries, attachments: Attachments, trouble: dict[str, str]) -> set[DeviceHealth]:
    """Each device that a prepared claim has: well while its attachment stands and its device is up."""
    found = set()
    for entry in entries.values():
        for use in entry.uses if entry.prepared else ():
            why = trouble.get(use.region.uid, "")
            if not why and attachments.of(use.region.uid) is None:
                why = f"node has lost its attachment to CXLRegion {use.region.namespace}/{use.region.name}"
            found.add(DeviceHealth(use.pool, use.device, why))
    return found
