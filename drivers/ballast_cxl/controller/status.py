"""The status of a region, from what is known of it. Pure.

Ready is the first thing that is in the way, in the order in which a person would look: the spec, a deletion, the
appliance's refusal, the ledger, the memory, the device.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ballast_api.conditions import Reason, Type
from ballast_api.cxlattachment import CXLAttachment, Purpose
from ballast_api.cxlblade import ReservationState
from ballast_api.cxlregion import CXLRegion
from ballast_cxl.controller.release import Step
from ballast_cxl.controller.world import Held
from ballast_cxl.quantity import to_text
from ballast_operator.objects import Object
from ballast_operator.observe.conditions import Answer, merge


@dataclass(frozen=True)
class Trouble:
    """Why the next step could not be made. reason: a word of the API's closed list."""

    reason: str
    message: str


@dataclass(frozen=True)
class View:
    """All that a status is computed from.

    held: the ledger's entry; lost: nodes that no longer report; claim: the region's own ResourceClaim; published:
    whether the scheduler is offered it, or need not be; step: where its end stands; deadline: when that ends at last.
    """

    region: CXLRegion | None
    generation: int
    previous: Object
    now: datetime
    held: Held | None = None
    attachments: Sequence[CXLAttachment] = ()
    lost: Set[str] = frozenset()
    claim: Object | None = None
    published: bool = False
    trouble: Trouble | None = None
    step: Step | None = None
    deadline: str | None = None


def of(view: View) -> Object:
    """The whole status."""
    phase, ready = _ready(view)
    answers = [ready, _composed(view), _published(view), _allocated(view), _degraded(view)]
    found: dict[str, Any] = {
        "phase": phase,
        "observedGeneration": view.generation,
        "deletionDeadline": view.deadline,
        "conditions": merge(view.previous.get("conditions", []), answers, view.generation, view.now),
        **_place(view),
        **_nodes(view),
    }
    return {name: value for name, value in found.items() if value is not None}


def _ready(view: View) -> tuple[str, Answer]:
    def no(phase: str, reason: str, message: str) -> tuple[str, Answer]:
        return phase, Answer(Type.READY, False, Reason(reason), message)

    if view.region is None and view.trouble:
        return no("Failed", view.trouble.reason, view.trouble.message)
    if view.step:
        return no(view.step.phase, view.step.reason, view.step.message)
    if view.held is None:
        trouble = view.trouble or Trouble("Reserved", "its blocks are being chosen")
        return no("Pending", trouble.reason, trouble.message)
    entry, blade = view.held.entry, view.held.blade.metadata.name
    if entry.state is ReservationState.LOST:
        return no(
            "Failed", "MemoryLost", f"blade {blade} has forgotten its memory; the bytes are lost, so make a new one"
        )
    if entry.state is ReservationState.QUARANTINED:
        return no("Quarantined", "Quarantined", entry.message or f"its blocks on {blade} are kept from everybody")
    if view.trouble:
        phase = "Reserved" if entry.state is ReservationState.RESERVED else "Composed"
        return no(phase, view.trouble.reason, view.trouble.message)
    if entry.state is ReservationState.RESERVED:
        return no("Composing", "Composing", f"blade {blade} is composing {to_text(view.held.size)}")
    if not view.published:
        return no("Composed", "Publishing", f"{to_text(view.held.size)} on blade {blade} is being offered to pods")
    return "Ready", Answer(Type.READY, True, Reason.READY, f"{to_text(view.held.size)} on blade {blade}")


def _composed(view: View) -> Answer:
    if view.held and view.held.entry.memory_id:
        memory, blade = view.held.entry.memory_id, view.held.blade.metadata.name
        return Answer(Type.COMPOSED, True, Reason.COMPOSED, f"memory {memory} of blade {blade}")
    lost = view.held and view.held.entry.state is ReservationState.LOST
    if lost:
        return Answer(Type.COMPOSED, False, Reason.MEMORY_LOST, "the appliance has forgotten its memory")
    return Answer(Type.COMPOSED, False, Reason.COMPOSING, "no memory is composed for it")


def _published(view: View) -> Answer:
    if view.published and view.step is None:
        return Answer(Type.PUBLISHED, True, Reason.PUBLISHED, "pods can claim it")
    return Answer(Type.PUBLISHED, False, Reason.PUBLISHING, "pods cannot claim it")


def _allocated(view: View) -> Answer:
    """Whether a pod uses the region's own claim."""
    status = (view.claim or {}).get("status") or {}
    if not status.get("allocation"):
        return Answer(Type.ALLOCATED, False, Reason.NOT_ALLOCATED, "no pod has its claim")
    assert view.claim is not None
    users = [user["name"] for user in status.get("reservedFor", [])]
    named = ", ".join(users[:3]) + (f" and {len(users) - 3} more" if len(users) > 3 else "")
    name = view.claim["metadata"]["name"]
    return Answer(Type.ALLOCATED, True, Reason.ALLOCATED, f"claim {name} is used by {named or 'no pod just now'}")


def _degraded(view: View) -> Answer:
    if view.held and view.held.entry.state is ReservationState.QUARANTINED:
        message = view.held.entry.message or "its blocks are kept from everybody"
        first = message.partition(":")[0]
        known = first in ("FenceFailed", "ScrubFailed")
        return Answer(Type.DEGRADED, True, Reason(first) if known else Reason.QUARANTINED, message)
    if view.held and view.held.entry.state is ReservationState.LOST:
        return Answer(Type.DEGRADED, True, Reason.MEMORY_LOST, "its bytes are lost")
    if view.lost:
        nodes = ", ".join(sorted(view.lost))
        return Answer(Type.DEGRADED, True, Reason.NODE_LOST, f"no sign of the node plugin on {nodes}")
    return Answer(Type.DEGRADED, False, Reason.HEALTHY, "nothing is wrong with it")


def _place(view: View) -> dict[str, Any]:
    if view.held is None:
        return {}
    entry = view.held.entry
    place = {"blade": view.held.blade.metadata.name, "blocks": list(entry.blocks), "memoryId": entry.memory_id}
    return {
        "uid": entry.uid,
        "size": to_text(view.held.size),
        "placement": {name: value for name, value in place.items() if value is not None},
    }


def _nodes(view: View) -> dict[str, Any]:
    using = [a for a in view.attachments if a.spec.purpose is Purpose.USE]
    rows: list[dict[str, Any]] = [
        {"node": a.spec.node, "state": _state(a, view.lost), "port": a.status.port, "device": a.status.node.device}
        for a in using
    ]
    found: dict[str, Any] = {
        "attached": sum(row["state"] == "Attached" for row in rows),
        "attachments": [{name: value for name, value in row.items() if value is not None} for row in rows],
    }
    for a in view.attachments:
        if a.spec.purpose is Purpose.SCRUB:
            report = a.status.node.scrub
            numbers = {"bytes": report.bytes, "verified": report.verified} if report else {}
            generation = {"generation": a.status.generation} if a.status.generation is not None else {}
            found["scrub"] = {"node": a.spec.node} | generation | numbers
    return found


def _state(attachment: CXLAttachment, lost: Set[str]) -> str:
    if attachment.spec.node in lost:
        return "Lost"
    if attachment.metadata.deletion_timestamp:
        return "Detaching"
    if attachment.status.node.state == "Attached":
        return "Attached"
    return attachment.status.phase or "Pending"
