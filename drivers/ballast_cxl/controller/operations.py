"""What is done at an appliance: each operation is written into the ledger, called, looked at, and written down again.

All of them may be repeated from any point, by this process or by another one after the deadline: they begin by looking
whether the thing is done already.
"""

import logging
from collections import Counter
from time import monotonic

from ballast_api.cxlblade import AttachmentState, CXLBlade, ReservationState
from ballast_cxl.controller.world import Held, World
from ballast_cxl.fabric.interface import Declined, FabricError, Link, Memory, Unreachable, link_of, made_of
from ballast_cxl.ledger import book
from ballast_cxl.metrics import ATTACH_SECONDS, COMPOSE_SECONDS
from ballast_operator.objects import parse_time

log = logging.getLogger(__name__)


class Drifted(FabricError):
    """Somebody else's memory has our blocks."""


async def compose(world: World, held: Held, *, begun: bool = False) -> Held:
    """Have the region composed of exactly its blocks, or adopt the memory that is. begun: the right is ours already."""
    actor, uid, name = world.actor(), held.entry.uid, held.blade.metadata.name
    if not begun:
        held = _held(await world.store.change(name, lambda b: book.begin(b.status, actor, uid, "Compose")), uid)
    began, result = monotonic(), "failed"
    try:
        memory = await _composed(world, held)
        result = "done"
    except (Declined, Drifted):
        await world.store.change(name, lambda b: book.ended(b.status, actor, uid))
        raise
    finally:
        COMPOSE_SECONDS.labels(result).observe(monotonic() - began)
    return _held(await world.store.change(name, lambda b: book.composed(b.status, actor, uid, memory)), uid)


async def _composed(world: World, held: Held) -> str:
    fabric = await world.fabrics.of(held.blade)
    blocks = await fabric.ids(held.entry.blocks)
    seen = await fabric.memories()
    if found := made_of(seen, blocks):
        return found.id
    if others := [memory for memory in seen if not memory.blocks.isdisjoint(blocks)]:
        raise Drifted(
            f"blocks of CXLRegion {held.entry.namespace}/{held.entry.name} are in memory {others[0].id} of blade "
            f"{held.blade.metadata.name}, which the ledger knows nothing of; free it at the appliance"
        )
    _in_time(world, held)
    told = await fabric.compose(blocks)
    if told and (there := await fabric.memory(told)) and there.blocks == frozenset(blocks):
        return there.id
    if found := made_of(await fabric.memories(), blocks):
        return found.id
    raise Unreachable(f"blade {held.blade.metadata.name} took the compose and has no such memory; it is tried again")


async def attach(world: World, held: Held, node: str, port: str, *, scrub: bool) -> tuple[Held, Link]:
    """Have the region's memory connected to a port of a node."""
    actor, uid, name = world.actor(), held.entry.uid, held.blade.metadata.name
    held = _held(
        await world.store.change(name, lambda b: book.attach(b.status, actor, uid, node, port, scrub=scrub)), uid
    )
    ours = book.port_of(held.entry, node)
    assert ours is not None
    began = monotonic()
    try:
        link = await _assigned(world, held, ours.port)
    except (Declined, Drifted):
        await world.store.change(name, lambda b: book.ended(b.status, actor, uid))
        raise
    ATTACH_SECONDS.labels("assign").observe(monotonic() - began)
    return _held(await world.store.change(name, lambda b: book.attached(b.status, actor, uid, node)), uid), link


async def _assigned(world: World, held: Held, port: str) -> Link:
    fabric, memory = await world.fabrics.of(held.blade), _memory(held)
    if await _found(world, held) is None:
        raise Declined(404, f"blade {held.blade.metadata.name} has no memory {memory} any more")
    if link := link_of(await fabric.links(), memory, port):
        return link
    _in_time(world, held)
    await fabric.assign(memory, port)
    if link := link_of(await fabric.links(), memory, port):
        return link
    raise Unreachable(f"blade {held.blade.metadata.name} took the assignment of {memory} to {port} and shows none")


async def detach(world: World, held: Held, node: str, *, fence: bool) -> Held:
    """Have a node cut off, and see that it is."""
    actor, uid, name = world.actor(), held.entry.uid, held.blade.metadata.name
    held = _held(await world.store.change(name, lambda b: book.detach(b.status, actor, uid, node, fence=fence)), uid)
    ours = book.port_of(held.entry, node)
    began = monotonic()
    if ours is not None:
        await _cut_off(world, held, ours.port)
    ATTACH_SECONDS.labels("fence" if fence else "unassign").observe(monotonic() - began)
    return _held(await world.store.change(name, lambda b: book.detached(b.status, actor, uid, node)), uid)


async def _cut_off(world: World, held: Held, port: str) -> None:
    fabric = await world.fabrics.of(held.blade)
    memory = held.entry.memory_id
    if memory is None or (link := link_of(await fabric.links(), memory, port)) is None:
        return
    _in_time(world, held)
    try:
        await fabric.unassign(link)
    except Declined as no:
        log.info("%s; looking whether the port is free all the same", no)
    if link_of(await fabric.links(), memory, port):
        raise Unreachable(f"port {port} of blade {held.blade.metadata.name} still carries {memory}; it is tried again")


async def free(world: World, held: Held) -> bool:
    """Have the memory taken apart and the blocks freed; whether they are, for a region that was never composed may have
    been after all."""
    actor, uid, name = world.actor(), held.entry.uid, held.blade.metadata.name
    held = _held(await world.store.change(name, lambda b: book.begin(b.status, actor, uid, "Free")), uid)
    if held.entry.state is ReservationState.RESERVED:
        fabric = await world.fabrics.of(held.blade)
        if found := made_of(await fabric.memories(), await fabric.ids(held.entry.blocks)):
            await world.store.change(name, lambda b: book.composed(b.status, actor, uid, found.id))
            return False  # it holds bytes, so it goes the long way
    else:
        try:
            memory = await _found(world, held)
        except Drifted:
            await world.store.change(name, lambda b: book.ended(b.status, actor, uid))
            raise
        if memory:
            await _take_apart(world, held, memory.id)
    await world.store.change(name, lambda b: book.freed(b.status, actor, uid))
    await world.quotas.refund(held.entry.namespace, uid)
    return True


async def _take_apart(world: World, held: Held, memory: str) -> None:
    fabric = await world.fabrics.of(held.blade)
    for link in [link for link in await fabric.links() if link.memory == memory]:  # some forget all but the first
        _in_time(world, held)
        await fabric.unassign(link)
    _in_time(world, held)
    await fabric.free(memory)
    if await fabric.memory(memory) or any(link.memory == memory for link in await fabric.links()):
        raise Unreachable(f"blade {held.blade.metadata.name} took the end of {memory} and still shows it")


async def linked(world: World, held: Held, port: str) -> Link | None:
    """The region's connection to a port, as the appliance has it."""
    fabric = await world.fabrics.of(held.blade)
    return link_of(await fabric.links(), _memory(held), port)


async def lost(world: World, held: Held) -> bool:
    """Whether the appliance has the region's memory no more. Its id may mean another one since a power cycle."""
    fabric = await world.fabrics.of(held.blade)
    there = await fabric.memory(_memory(held))
    return there is None or there.blocks != frozenset(await fabric.ids(held.entry.blocks))


async def _found(world: World, held: Held) -> Memory | None:
    """The region's memory, or None if there is none of its id. Raises Drifted if what has its id is another."""
    fabric = await world.fabrics.of(held.blade)
    if held.entry.memory_id is None or (there := await fabric.memory(held.entry.memory_id)) is None:
        return None
    if there.blocks != frozenset(await fabric.ids(held.entry.blocks)):
        raise Drifted(
            f"memory {there.id} of blade {held.blade.metadata.name} has other blocks than CXLRegion "
            f"{held.entry.namespace}/{held.entry.name}, whose id it has; free it at the appliance"
        )
    return there


def _in_time(world: World, held: Held) -> None:
    """A call must end before somebody else may begin the same: raises Busy if there is no time left for one."""
    deadline, seconds = held.entry.deadline, world.settings.call_seconds
    left = (parse_time(deadline) - world.clock()).total_seconds() if deadline else 0.0
    if left <= seconds:
        raise book.Busy(f"too late for {held.entry.operation} of {held.entry.namespace}/{held.entry.name}", left)


def free_port(blade: CXLBlade, node: str) -> str | None:
    """A port that leads to the node and carries nothing, by the ledger."""
    used = book.ports_in_use(blade.status)
    return next((port.name for port in blade.spec.ports if port.node == node and port.name not in used), None)


def free_ports(blade: CXLBlade) -> Counter[str]:
    """By node, how many ports lead to it that carry nothing, by the ledger."""
    used = book.ports_in_use(blade.status)
    return Counter(port.node for port in blade.spec.ports if port.name not in used)


def cabled(blade: CXLBlade) -> list[str]:
    """Nodes that a port of the blade leads to, by name."""
    return sorted({port.node for port in blade.spec.ports})


def in_use_by(held: Held) -> list[str]:
    """Nodes that are connected, or about to be."""
    gone = (AttachmentState.DETACHING, AttachmentState.FENCED)
    return [a.node for a in held.entry.attachments if a.state not in gone]


def _memory(held: Held) -> str:
    memory = held.entry.memory_id
    if memory is None:
        raise Declined(404, f"CXLRegion {held.entry.namespace}/{held.entry.name} is not composed")
    return memory


def _held(blade: CXLBlade, uid: str) -> Held:
    entry = book.find(blade.status, uid)
    if entry is None:
        raise book.Refused("Deleting", f"region {uid} has left the ledger of blade {blade.metadata.name}")
    return Held(blade, entry)
