"""The rules of the ledger: each function takes a ledger and returns the next one, or refuses.

A ledger is the status of a CXLBlade. A block is held while any entry lists it, whatever the entry's state; blocks of
two entries are disjoint. An entry leaves only when its memory was never composed, or was read back as zeros after its
last use. Each operation at the appliance is written down before it is begun, with who does it and until when, so two
processes never do the same thing at once and what a dead one began is taken up after its deadline.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ballast_api.cxlblade import AttachmentState, CXLBladeStatus, LedgerAttachment, Reservation, ReservationState
from ballast_operator.objects import format_time, parse_time


class Refused(Exception):
    """The ledger's no. reason: a word of the API's closed list."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Overlap(Refused):
    """Blocks that somebody holds. `by`: the entries that do."""

    def __init__(self, message: str, by: Sequence[Reservation]) -> None:
        super().__init__("InsufficientCapacity", message)
        self.by = by


class Busy(Exception):
    """Another process is at it. seconds: until it may be taken over."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True)
class Actor:
    """A process that works on the ledger. patience: seconds that it may take for one operation at the appliance."""

    name: str
    now: datetime
    patience: float


def find(book: CXLBladeStatus, uid: str) -> Reservation | None:
    return next((entry for entry in book.reservations if entry.uid == uid), None)


def held(book: CXLBladeStatus) -> set[int]:
    """Blocks that are not free."""
    return {block for entry in book.reservations for block in entry.blocks}


def port_of(entry: Reservation, node: str) -> LedgerAttachment | None:
    return next((a for a in entry.attachments if a.node == node), None)


def ports_in_use(book: CXLBladeStatus) -> set[str]:
    return {a.port for entry in book.reservations for a in entry.attachments}


def reserve(
    book: CXLBladeStatus,
    actor: Actor,
    *,
    uid: str,
    namespace: str,
    name: str,
    blocks: Sequence[int],
    claim: str | None,
    retain: bool = False,
) -> CXLBladeStatus:
    """Take blocks for a region, and with them the right to compose it. Raises Overlap if one of them is held."""
    if find(book, uid):
        return book
    wanted = set(blocks)
    holders = [entry for entry in book.reservations if not wanted.isdisjoint(entry.blocks)]
    if holders:
        others = ", ".join(f"{entry.namespace}/{entry.name} ({entry.state.value})" for entry in holders)
        raise Overlap(f"blocks of {namespace}/{name} are held by {others}; other blocks must be chosen", holders)
    book = _turn(book)
    entry = Reservation(
        uid=uid,
        namespace=namespace,
        name=name,
        blocks=sorted(wanted),
        generation=book.epoch,
        state=ReservationState.RESERVED,
        claim=claim,
        retain=retain,
        operation="Compose",
        holder=actor.name,
        deadline=_deadline(actor),
    )
    return book.model_copy(update={"reservations": [*book.reservations, entry]})


def retain(book: CXLBladeStatus, uid: str, wanted: bool) -> CXLBladeStatus:
    """Write down whether the region's bytes outlive it, for when its object is not there to be asked any more."""
    return _change(book, _need(book, uid), retain=wanted)


def begin(book: CXLBladeStatus, actor: Actor, uid: str, operation: str) -> CXLBladeStatus:
    """Take the right to do something at the appliance for an entry. Raises Busy while somebody else has it."""
    entry = _need(book, uid)
    if operation == "Compose" and entry.memory_id is not None:
        raise Busy(f"{_name(entry)} is composed already, as memory {entry.memory_id}", 0.0)
    if entry.operation and entry.deadline and (left := (parse_time(entry.deadline) - actor.now).total_seconds()) > 0:
        raise Busy(f"{entry.holder} is at {entry.operation} of {entry.namespace}/{entry.name}", left)
    if operation == "Free":
        _may_be_freed(entry)
    return _change(book, entry, operation=operation, holder=actor.name, deadline=_deadline(actor))


def lapsed(book: CXLBladeStatus, now: datetime) -> CXLBladeStatus:
    """Without the rights whose deadline has passed: whoever had them is gone, or may not use them any more."""
    for entry in book.reservations:
        if entry.operation and entry.deadline and parse_time(entry.deadline) < now:
            book = _change(book, entry, operation=None, holder=None, deadline=None)
    return book


def ended(book: CXLBladeStatus, actor: Actor, uid: str, **changes: Any) -> CXLBladeStatus:
    """Give the right back, with what came of it. Raises Busy if it was lost meanwhile, for then nothing may be said."""
    entry = _need(book, uid)
    if entry.holder != actor.name:
        raise Busy(f"{entry.operation or 'the operation'} of {entry.namespace}/{entry.name} was taken over", 0.0)
    return _change(book, entry, operation=None, holder=None, deadline=None, **changes)


def composed(book: CXLBladeStatus, actor: Actor, uid: str, memory_id: str) -> CXLBladeStatus:
    """The appliance has the region. One that is on its way out stays so: the memory is made to be overwritten."""
    entry = _need(book, uid)
    state = ReservationState.COMPOSED if entry.state is ReservationState.RESERVED else entry.state
    return ended(book, actor, uid, memory_id=memory_id, state=state)


def attach(book: CXLBladeStatus, actor: Actor, uid: str, node: str, port: str, *, scrub: bool) -> CXLBladeStatus:
    """Write down that a node is to be connected, and take the right to do so.

    For use the region must be composed; to be overwritten it must be on its way out, and nobody else connected.
    """
    entry = _need(book, uid)
    wanted = ReservationState.SCRUBBING if scrub else ReservationState.COMPOSED
    if entry.state is not wanted or entry.memory_id is None or (scrub and entry.zeroed):
        raise Refused(_STATE_REASONS[entry.state], f"{_name(entry)} is {entry.state.value}, not {wanted.value}")
    known = port_of(entry, node)
    if known and known.state in (AttachmentState.DETACHING, AttachmentState.FENCED):
        raise Busy(f"node {node} is still giving {_name(entry)} back", 0.0)
    if scrub and any(a.node != node for a in entry.attachments):
        raise Refused("Detaching", f"{_name(entry)} is still connected to other nodes; they must give it back first")
    if known is None and port in ports_in_use(book):
        raise Refused("NoFreePort", f"port {port} to node {node} carries another region; wait until it is free")
    book = begin(book, actor, uid, "Assign")
    if known:
        return book
    entry = _need(book, uid)
    new = LedgerAttachment(node=node, port=port, generation=book.epoch, state=AttachmentState.ASSIGNING)
    return _change(book, entry, attachments=[*entry.attachments, new])


def attached(book: CXLBladeStatus, actor: Actor, uid: str, node: str) -> CXLBladeStatus:
    """The node is connected."""
    return ended(book, actor, uid, attachments=_moved(_need(book, uid), node, AttachmentState.ASSIGNED))


def detach(book: CXLBladeStatus, actor: Actor, uid: str, node: str, *, fence: bool) -> CXLBladeStatus:
    """Write down that a node is to be cut off, and take the right to do so. fence: without its consent."""
    book = begin(book, actor, uid, "Fence" if fence else "Unassign")
    entry = _need(book, uid)
    if port_of(entry, node) is None:
        return book
    state = AttachmentState.FENCED if fence else AttachmentState.DETACHING
    return _change(book, entry, attachments=_moved(entry, node, state))


def detached(book: CXLBladeStatus, actor: Actor, uid: str, node: str) -> CXLBladeStatus:
    """The appliance was seen without the connection."""
    entry = _need(book, uid)
    return ended(book, actor, uid, attachments=[a for a in entry.attachments if a.node != node])


def forgotten(book: CXLBladeStatus, uid: str, memory_id: str | None) -> CXLBladeStatus:
    """The appliance was seen without the memory, as after a power cycle: its bytes are lost, its id means nothing.

    memory_id: what was looked for. Raises Busy if the region has another by now, of which that says nothing.
    """
    entry = _need(book, uid)
    if entry.memory_id != memory_id:
        raise Busy(f"{_name(entry)} was composed anew, as memory {entry.memory_id}", 0.0)
    state = ReservationState.LOST if entry.state is ReservationState.COMPOSED else entry.state
    return _change(book, entry, state=state, memory_id=None, zeroed=False)


def retire(book: CXLBladeStatus, uid: str, now: datetime, *, let_go: bool = False) -> CXLBladeStatus:
    """The region is given up: nobody new is connected for use, and its bytes are to be overwritten.

    let_go: an administrator says so, of one in quarantine, whose bytes nobody else may give up.
    """
    entry = _need(book, uid)
    if entry.state is ReservationState.SCRUBBING:
        return book
    if entry.state is ReservationState.QUARANTINED and not let_go:
        raise Refused("Quarantined", f"{_name(entry)} is in quarantine; see releaseQuarantined of its blade")
    if entry.state is ReservationState.RESERVED:
        raise Refused("Composing", f"{_name(entry)} was never composed, so there is nothing to overwrite; free it")
    if any(a.state not in (AttachmentState.DETACHING, AttachmentState.FENCED) for a in entry.attachments):
        raise Refused("Detaching", f"{_name(entry)} is still connected to nodes; they must give it back first")
    changes = {"state": ReservationState.SCRUBBING, "message": None, "zeroed": False, "retired": format_time(now)}
    return _change(book, entry, **changes)


def zeroed(book: CXLBladeStatus, uid: str, generation: int) -> CXLBladeStatus:
    """Every byte was overwritten and read back as zero. generation: of the connection by which that was done."""
    entry = _need(book, uid)
    if entry.state is not ReservationState.SCRUBBING:
        raise Refused(_STATE_REASONS[entry.state], f"{_name(entry)} is {entry.state.value}, so zeros prove nothing")
    if generation not in {a.generation for a in entry.attachments}:
        raise Refused("Scrubbing", f"{_name(entry)} has connection {generation} no more, so its zeros prove nothing")
    book = _turn(book)
    return _change(book, entry, zeroed=True, generation=book.epoch)


def freed(book: CXLBladeStatus, actor: Actor, uid: str) -> CXLBladeStatus:
    """The appliance was seen without the memory: the entry goes and its blocks are free."""
    entry = _need(book, uid)
    if entry.holder != actor.name:
        raise Busy(f"{entry.operation or 'freeing'} of {_name(entry)} was taken over", 0.0)
    _may_be_freed(entry)
    return _turn(book).model_copy(update={"reservations": [e for e in book.reservations if e.uid != uid]})


def quarantine(book: CXLBladeStatus, uid: str, message: str) -> CXLBladeStatus:
    """Keep the blocks from everybody, until an administrator lets them go."""
    entry = _need(book, uid)
    if entry.state is ReservationState.QUARANTINED:
        return book
    return _change(book, entry, state=ReservationState.QUARANTINED, message=message, zeroed=False)


def adopt(
    book: CXLBladeStatus, *, uid: str, namespace: str, memory_id: str, blocks: Sequence[int], message: str
) -> CXLBladeStatus:
    """Take memory that nobody knows of into quarantine. Raises Overlap if a block of it is held."""
    if find(book, uid):
        return book
    holders = [entry for entry in book.reservations if not set(blocks).isdisjoint(entry.blocks)]
    if holders:
        others = ", ".join(_name(entry) for entry in holders)
        raise Overlap(f"memory {memory_id} has blocks of {others}; it cannot be taken over", holders)
    book = _turn(book)
    entry = Reservation(
        uid=uid,
        namespace=namespace,
        name=uid,
        blocks=sorted(blocks),
        generation=book.epoch,
        state=ReservationState.QUARANTINED,
        memory_id=memory_id,
        message=message,
    )
    return book.model_copy(update={"reservations": [*book.reservations, entry]})


def faults(book: CXLBladeStatus) -> list[str]:
    """What is wrong with a ledger, whoever wrote it; a ledger with faults is never written."""
    found = []
    seen: dict[int, Reservation] = {}
    grid = book.geometry
    count = grid.channels * grid.blocks_per_channel if grid else None
    for entry in book.reservations:
        for block in entry.blocks:
            if block in seen:
                found.append(f"block {block} is held by {_name(seen[block])} and by {_name(entry)}")
            seen[block] = entry
            if count is not None and not 0 <= block < count:
                found.append(f"{_name(entry)} holds block {block} of {count}")
        if entry.generation > book.epoch or any(a.generation > book.epoch for a in entry.attachments):
            found.append(f"{_name(entry)} has a generation of the future")
        if entry.state is ReservationState.COMPOSED and entry.memory_id is None:
            found.append(f"{_name(entry)} is Composed without a memory")
    ports = [a.port for entry in book.reservations for a in entry.attachments]
    found += [f"port {port} carries several regions" for port in sorted(set(ports)) if ports.count(port) > 1]
    uids = [entry.uid for entry in book.reservations]
    found += [f"{uid} has several entries" for uid in sorted(set(uids)) if uids.count(uid) > 1]
    return found


_STATE_REASONS = {
    ReservationState.RESERVED: "Composing",
    ReservationState.COMPOSED: "Composed",
    ReservationState.LOST: "MemoryLost",
    ReservationState.SCRUBBING: "Scrubbing",
    ReservationState.QUARANTINED: "Quarantined",
}


def _name(entry: Reservation) -> str:
    return f"CXLRegion {entry.namespace}/{entry.name}"


def _need(book: CXLBladeStatus, uid: str) -> Reservation:
    entry = find(book, uid)
    if entry is None:
        raise Refused("Deleting", f"region {uid} has no entry in the ledger of this blade any more")
    return entry


def _may_be_freed(entry: Reservation) -> None:
    if entry.attachments:
        raise Refused("Detaching", f"{_name(entry)} is still connected to nodes; it cannot be freed")
    never_composed = entry.state is ReservationState.RESERVED and entry.memory_id is None
    if not never_composed and not (entry.state is ReservationState.SCRUBBING and entry.zeroed):
        raise Refused("Scrubbing", f"{_name(entry)} was not overwritten with zeros; it cannot be freed")


def _turn(book: CXLBladeStatus) -> CXLBladeStatus:
    return book.model_copy(update={"epoch": book.epoch + 1})


def _change(book: CXLBladeStatus, entry: Reservation, **changes: Any) -> CXLBladeStatus:
    new = entry.model_copy(update=changes)
    turned = _turn(book)
    return turned.model_copy(update={"reservations": _replaced(book.reservations, new)})


def _replaced(entries: Iterable[Reservation], new: Reservation) -> list[Reservation]:
    return [new if entry.uid == new.uid else entry for entry in entries]


def _moved(entry: Reservation, node: str, state: AttachmentState) -> list[LedgerAttachment]:
    return [a.model_copy(update={"state": state}) if a.node == node else a for a in entry.attachments]


def _deadline(actor: Actor) -> str:
    return format_time(actor.now + timedelta(seconds=actor.patience))
