"""Operations at an emulated appliance over HTTP: what they cost it, and what they believe.

A request costs an appliance about the same whatever else it carries; every one is counted, with the bytes of its answer.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Middleware

from ballast_api.cxlblade import CXLBlade, CXLBladeStatus
from ballast_cxl.controller import operations
from ballast_cxl.controller.settings import Settings
from ballast_cxl.controller.testing import Nothing
from ballast_cxl.controller.testing_server import Clock, Server, SimulatedClient, Turns
from ballast_cxl.controller.world import Held, World
from ballast_cxl.emulator.appliance import Appliance
from ballast_cxl.emulator.faults import Fault, Faults
from ballast_cxl.emulator.layout import BladeLayout, Quirks
from ballast_cxl.emulator.service import Handler, application
from ballast_cxl.fabric.interface import Unreachable
from ballast_cxl.ledger import book
from ballast_cxl.resources import CXL_BLADE
from ballast_operator.cluster.cache import Cache
from ballast_operator.queue import Queue

BLADES, PORTS = 16, 16  # an appliance as the test of a thousand regions has it
BESIDE = 48  # regions of the same blade, of four blocks each
CONNECTED = 8


class Unhurried(Turns):
    """Nobody waits for a turn."""

    async def wait(self) -> None:
        await asyncio.sleep(0)


@dataclass
class Yard:
    """A blade with regions on it, whose appliance is asked over HTTP; every request is counted."""

    world: World
    appliance: Appliance
    requests: list[tuple[str, str, int]] = field(default_factory=list)

    async def held(self, uid: str) -> Held:
        blade = await self.world.store.read("b00")
        entry = book.find(blade.status, uid)
        assert entry is not None
        return Held(blade, entry)

    async def reserved(self, uid: str, first: int) -> Held:
        def step(blade: CXLBlade) -> CXLBladeStatus:
            blocks = range(first, first + 4)
            actor = self.world.actor()
            return book.reserve(blade.status, actor, uid=uid, namespace="n", name=uid, blocks=blocks, claim=None)

        await self.world.store.change("b00", step)
        return await self.held(uid)

    async def ended(self, uid: str) -> None:
        """Give up the right to an operation, as its deadline would."""
        actor = self.world.actor()
        await self.world.store.change("b00", lambda b: book.ended(b.status, actor, uid))

    async def cost(self, work: Awaitable[object]) -> tuple[int, int]:
        """Requests and bytes of the answers."""
        self.requests.clear()
        await work
        return len(self.requests), sum(size for _, _, size in self.requests)


@pytest.fixture(params=["CFM", "Redfish"])
async def yard(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Yard]:
    layouts = [BladeLayout(f"b{number:02d}", 4, 64, 1, PORTS) for number in range(BLADES)]
    appliance = Appliance("a0", tmp_path, layouts, Quirks.parse("cma"), Nothing(), Faults())
    blade = appliance.blades["b00"]
    names = {place: name for name, place in layouts[0].block_names().items()}
    for row in range(64 - BESIDE, 64):
        memory = await appliance.compose(blade, [names[channel, row] for channel in range(4)])
        if row < 64 - BESIDE + CONNECTED:
            await appliance.assign(blade, memory, f"b00-p{PORTS - 1 - row % CONNECTED:03d}")
    server = Server(Clock(), random.Random(1))
    world = World(SimulatedClient(server, Unhurried(random.Random(1))), Cache(), Queue(), Settings())  # type: ignore[arg-type]
    found = Yard(world, appliance)
    app = application(appliance)
    app.middlewares.insert(0, counted(found))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    ports = [{"name": name, "node": f"n{number}"} for number, name in enumerate(layouts[0].port_names())]
    spec = {"appliance": {"name": "a0", "url": url, "protocol": request.param}, "blade": "b00", "ports": ports}
    status = {"geometry": {"channels": 4, "blocksPerChannel": 64, "blockSize": "1Mi"}}
    meta = {"apiVersion": CXL_BLADE.api_version, "kind": CXL_BLADE.kind, "metadata": {"name": "b00"}}
    server.put(meta | {"spec": spec, "status": status})
    yield found
    await world.fabrics.close()
    await runner.cleanup()


def counted(yard: Yard) -> Middleware:
    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        assert isinstance(answer, web.Response)
        size = len(answer.body) if isinstance(answer.body, bytes) else 0
        yard.requests.append((request.method, request.path, size))
        return answer

    return count


async def overwritten(yard: Yard, uid: str) -> None:
    """As if a node had done so and said so."""
    world, node = yard.world, f"n-{uid}"
    now, actor = world.clock(), world.actor()
    await world.store.change("b00", lambda b: book.retire(b.status, uid, now))
    await world.store.change("b00", lambda b: book.attach(b.status, actor, uid, node, f"p-{uid}", scrub=True))
    connected = await world.store.change("b00", lambda b: book.attached(b.status, actor, uid, node))
    entry = book.find(connected.status, uid)
    assert entry is not None
    generation = entry.attachments[0].generation
    await world.store.change("b00", lambda b: book.zeroed(b.status, uid, generation))
    await world.store.change("b00", lambda b: book.detach(b.status, actor, uid, node, fence=False))
    await world.store.change("b00", lambda b: book.detached(b.status, actor, uid, node))


def told(costs: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{name} {requests} requests and {size} bytes" for name, (requests, size) in costs.items())


async def test_an_operation_asks_for_what_concerns_it_alone(yard: Yard) -> None:
    """A region lives and ends on a blade with 48 others, of an appliance of 4,096 blocks."""
    world, held = yard.world, await yard.reserved("r0", 0)
    await (await world.fabrics.of(held.blade)).look()  # the blocks are known from here on
    costs = {"compose": await yard.cost(operations.compose(world, held, begun=True))}
    costs["attach"] = await yard.cost(operations.attach(world, await yard.held("r0"), "n0", "b00-p000", scrub=False))
    costs["detach"] = await yard.cost(operations.detach(world, await yard.held("r0"), "n0", fence=False))
    await overwritten(yard, "r0")
    costs["free"] = await yard.cost(operations.free(world, await yard.held("r0")))
    print(f"one region: {told(costs)}")
    assert {name: requests for name, (requests, _) in costs.items()} == {
        "compose": 3,  # whether somebody has its blocks, the verb, the one memory
        "attach": 4,  # the memory, the connections, the verb, the connections
        "detach": 3,
        "free": 5,  # the memory, the connections, the verb, and both again
    }
    assert max(size for _, size in costs.values()) == costs["compose"][1], "only a compose lists all memories"
    assert max(costs[name][1] for name in ("attach", "detach", "free")) < 1000 * (CONNECTED + 2)


async def test_operations_at_the_same_time_share_their_looks(yard: Yard) -> None:
    """Eight regions at once."""
    world, uids = yard.world, [f"r{number}" for number in range(8)]

    async def cost(work: Callable[[Held, int], Awaitable[object]]) -> tuple[int, int]:
        helds = [await yard.held(uid) for uid in uids]
        return await yard.cost(asyncio.gather(*(work(held, number) for number, held in enumerate(helds))))

    for number, uid in enumerate(uids):
        held = await yard.reserved(uid, 4 * number)
    await (await world.fabrics.of(held.blade)).look()
    costs = {"compose": await cost(lambda held, _: operations.compose(world, held, begun=True))}
    costs["attach"] = await cost(lambda held, n: operations.attach(world, held, f"n{n}", f"b00-p{n:03d}", scrub=False))
    costs["detach"] = await cost(lambda held, n: operations.detach(world, held, f"n{n}", fence=False))
    for uid in uids:
        await overwritten(yard, uid)
    costs["free"] = await cost(lambda held, _: operations.free(world, held))
    print(f"eight regions at once: {told(costs)}")
    assert sum(requests for requests, _ in costs.values()) < 8 * 14 * 3 / 4
    assert len(yard.appliance.blades["b00"].state.memories) == BESIDE


async def test_the_blocks_of_an_appliance_are_read_once_for_all_its_blades(yard: Yard) -> None:
    held = await yard.reserved("r0", 0)
    others = [
        held.blade.model_copy(
            update={
                "metadata": held.blade.metadata.model_copy(update={"name": name}),
                "spec": held.blade.spec.model_copy(update={"blade": name}),
            }
        )
        for name in yard.appliance.blades
    ]
    looks = [(await yard.world.fabrics.of(blade)).look() for blade in others]
    requests, size = await yard.cost(asyncio.gather(*looks))
    print(f"a look at each of {BLADES} blades: {requests} requests and {size} bytes")
    assert sum(path.endswith("/ResourceBlocks") for _, path, _ in yard.requests) == 1
    assert requests == 1 + 2 * BLADES


async def test_an_id_that_means_another_memory_by_now_is_not_believed(yard: Yard) -> None:
    """As after a power cycle, at an appliance that begins to count anew."""
    world, state = yard.world, yard.appliance.blades["b00"].state
    held = await operations.compose(world, await yard.reserved("r0", 0), begun=True)
    memory = held.entry.memory_id
    assert memory
    names = {place: name for name, place in yard.appliance.blades["b00"].layout.block_names().items()}
    state.memories[memory] = others = tuple(names[channel, 5] for channel in range(4))
    assert await operations.lost(world, held)
    with pytest.raises(operations.Drifted, match="other blocks"):
        await operations.attach(world, held, "n0", "b00-p000", scrub=False)
    await operations.detach(world, await yard.held("r0"), "n0", fence=False)
    await overwritten(yard, "r0")
    with pytest.raises(operations.Drifted, match="other blocks"):
        await operations.free(world, await yard.held("r0"))
    assert state.memories[memory] == others, "somebody else's memory was taken apart"
    assert (await yard.held("r0")).entry.blocks == [0, 1, 2, 3]


async def test_an_id_that_a_compose_was_told_is_looked_at_and_not_believed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await yard.reserved("r0", 0)
    fabric = await yard.world.fabrics.of(held.blade)
    compose, others = fabric.compose, list(yard.appliance.blades["b00"].state.memories)

    async def wrong(blocks: Sequence[str]) -> str:
        await compose(blocks)
        return others[0]

    monkeypatch.setattr(fabric, "compose", wrong)
    made = await operations.compose(yard.world, held, begun=True)
    state = yard.appliance.blades["b00"].state
    assert made.entry.memory_id not in (None, *others)
    assert len(state.memories) == BESIDE + 1


async def test_a_compose_that_was_carried_out_and_not_answered_is_adopted(yard: Yard) -> None:
    held = await yard.reserved("r0", 0)
    yard.appliance.faults.add(Fault("compose", "lost"))
    with pytest.raises(Unreachable):
        await operations.compose(yard.world, held, begun=True)
    await yard.ended("r0")
    await operations.compose(yard.world, await yard.held("r0"))
    assert len(yard.appliance.blades["b00"].state.memories) == BESIDE + 1
