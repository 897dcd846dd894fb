"""Wiping one region, alone on this node, and saying so. It may die anywhere: what was not said was not done."""

import logging

from ballast_cxl.host import HostError, Slot
from ballast_cxl.node.attachments import EXPECTED, Attachments
from ballast_cxl.node.devices import Devices
from ballast_cxl.node.faults import reached
from ballast_cxl.node.prepare import attached
from ballast_cxl.scrubber.process import scrub_apart
from ballast_cxl.scrubber.scrub import Result
from ballast_operator.objects import Object

log = logging.getLogger(__name__)


def settled(attachment: Object) -> bool:
    """Whether this generation was wiped, or found to be beyond wiping: the next word is the controller's."""
    status = attachment.get("status", {})
    node = status.get("node") or {}
    return "scrub" in node and node["scrub"].get("generation") == status.get("generation")


async def wipe(attachment: Object, slot: Slot, devices: Devices, attachments: Attachments, incarnation: str) -> None:
    """Zero, flush, read back, report. An error is logged and left for the next look."""
    try:
        device = await devices.up(slot)
        result = await scrub_apart(device)
        reached("scrub.done")
        await attachments.report(attachment, **attached(device, incarnation), **_report(attachment, result))
        reached("scrub.told")
    except (HostError, *EXPECTED) as error:
        log.warning("scrub of %s: %s", attachment["metadata"]["name"], error)


def _report(attachment: Object, result: Result) -> dict[str, object]:
    scrubbed = {
        "bytes": result.bytes,
        "verified": result.verified,
        "generation": attachment["status"]["generation"],
    }
    return {"scrub": scrubbed, "message": result.message or None}
