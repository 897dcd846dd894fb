"""The last word before a region's memory is given to a pod: does the ledger say so, now?

The scheduler works from slices, which are hints, and has been seen to give one device away twice; an admission policy
can be missing. So the plugin reads the ledger itself (the CXLBlades), by name the region and its attachment, and hands
out nothing that all three do not agree on. Pure, one question a function.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ballast_cxl.host import Slot
from ballast_cxl.names import region_device
from ballast_cxl.node.checkpoint import Region
from ballast_cxl.node.claims import Refused
from ballast_cxl.quantity import to_bytes

Object = Mapping[str, Any]

COMPOSED, SCRUBBING, ASSIGNED = "Composed", "Scrubbing", "Assigned"


class NotYet(Exception):
    """The answer may come by itself; until then there is nothing to give out."""


def reservations(blades: Iterable[Object]) -> list[Object]:
    """All entries of the ledger."""
    return [entry for blade in blades for entry in blade.get("status", {}).get("reservations", [])]


def by_device(device: str, blades: Iterable[Object]) -> Object | None:
    """The entry that a device of the pool of regions stands for; it is named after the region's uid."""
    if not device.startswith(region_device("")):
        return None
    found = [entry for entry in reservations(blades) if region_device(entry["uid"]) == device]
    if len(found) != 1:
        raise Refused(f"device {device} stands for {len(found)} regions of the ledger; the pod must be scheduled anew")
    return found[0]


def may_use(region: Object, namespace: str) -> None:
    """Raises Refused unless pods of the namespace may have the region."""
    meta, spec = region["metadata"], region["spec"]
    allowed = {meta["namespace"], *spec.get("allowedNamespaces", [])}
    if namespace not in allowed:
        raise Refused(
            f"CXLRegion {meta['namespace']}/{meta['name']} is not for namespace {namespace}; "
            "its owner can add it to spec.allowedNamespaces"
        )
    if meta.get("deletionTimestamp"):
        raise Refused(f"CXLRegion {meta['namespace']}/{meta['name']} is being deleted")


def slot(region: Region, node: str, attachment: Object, blades: Iterable[Object], state: str) -> Slot:
    """Where the fabric has put the region on this node, if ledger and attachment agree on it.

    state: what the ledger must say of the region. Raises NotYet while the controller may still be at work, Refused when
    it has said no.
    """
    what, status = f"CXLRegion {region.namespace}/{region.name}", attachment.get("status", {})
    if attachment["spec"]["region"]["uid"] != region.uid or attachment["spec"]["node"] != node:
        raise Refused(f"{what}: attachment {attachment['metadata']['name']} is for another region or node")
    if status.get("phase") == "Refused":
        raise Refused(f"{what} was not attached to node {node}: {status.get('message', 'no reason given')}")
    if status.get("phase") != ASSIGNED:
        raise NotYet(f"{what} is not attached to node {node} yet ({status.get('message') or 'waiting for controller'})")
    entry = next((e for e in reservations(blades) if e["uid"] == region.uid), None)
    if entry is None or entry["state"] != state:
        said = "no entry" if entry is None else f"state {entry['state']}"
        raise NotYet(f"{what}: the ledger has {said} for it, {state} is needed")
    port = next((a for a in entry.get("attachments", []) if a["node"] == node), None)
    if port is None or port["state"] != ASSIGNED or port["generation"] != status["generation"]:
        raise NotYet(f"{what}: the ledger does not confirm its attachment to node {node} (generation or state differ)")
    found = place(attachment)
    if found is None:
        raise NotYet(f"{what}: its attachment to node {node} names no port or no serial number")
    return found


def place(attachment: Object) -> Slot | None:
    """Where the fabric has, or had, the device of an attachment; None if it never was put anywhere."""
    status = attachment.get("status", {})
    if not status.get("serial") or not status.get("port"):
        return None
    return Slot(port=status["port"], serial=str(status["serial"]), size=to_bytes(str(status.get("size", 0))))


def region_of(attachment: Object) -> Region:
    """The region that an attachment is for."""
    return Region(**attachment["spec"]["region"])
