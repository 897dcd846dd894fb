"""What one region costs its appliance, in HTTP requests and bytes, whatever else the appliance carries."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from ballast_api.cxlblade import CXLBlade
from ballast_cxl.controller import operations
from ballast_cxl.controller.settings import Settings
from ballast_cxl.controller.testing import Nothing
from ballast_cxl.controller.testing_server import Clock, Server, SimulatedClient, Turns
from ballast_cxl.controller.world import Held, World
from ballast_cxl.emulator.appliance import Appliance
from ballast_cxl.emulator.faults import Faults
from ballast_cxl.emulator.layout import BladeLayout, Quirks
from ballast_cxl.emulator.service import Handler, application
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
        def step(blade: CXLBlade) -> book.CXLBladeStatus:
            blocks = range(first, first + 4)
            actor = self.world.actor()
            return book.reserve(blade.status, actor, uid=uid, namespace="n", name=uid, blocks=blocks, claim=None)

        await self.world.store.change("b00", step)
        return await self.held(uid)

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
    app.middlewares.append(counted(found))
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


def counted(yard: Yard) -> Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]:
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
    world = yard.world
    now, actor = world.clock(), world.actor()
    for step in (
        lambda b: book.retire(b.status, uid, now),
        lambda b: book.attach(b.status, actor, uid, f"n-{uid}", f"p-{uid}", scrub=True),
        lambda b: book.attached(b.status, actor, uid, f"n-{uid}"),
        lambda b: book.zeroed(b.status, uid, book.find(b.status, uid).attachments[0].generation),
        lambda b: book.detach(b.status, actor, uid, f"n-{uid}", fence=False),
        lambda b: book.detached(b.status, actor, uid, f"n-{uid}"),
    ):
        await world.store.change("b00", step)


async def test_an_operation_asks_for_what_concerns_it_alone(yard: Yard) -> None:
    """A region lives and ends on a blade with 48 others, of an appliance of 4,096 blocks."""
    held = await yard.reserved("r0", 0)
    await (await yard.world.fabrics.of(held.blade)).look()  # the blocks are known from here on
    costs = {"compose": await yard.cost(operations.compose(yard.world, held, begun=True))}
    port = "b00-p000"
    costs["attach"] = await yard.cost(operations.attach(yard.world, await yard.held("r0"), "n0", port, scrub=False))
    costs["detach"] = await yard.cost(operations.detach(yard.world, await yard.held("r0"), "n0", fence=False))
    await overwritten(yard, "r0")
    costs["free"] = await yard.cost(operations.free(yard.world, await yard.held("r0")))
    print(", ".join(f"{name} {requests} requests {size} bytes" for name, (requests, size) in costs.items()))


async def test_operations_at_the_same_time(yard: Yard) -> None:
    """Eight regions at once."""
    helds = [await yard.reserved(f"r{n}", 4 * n) for n in range(8)]
    await (await yard.world.fabrics.of(helds[0].blade)).look()
    costs = {"compose": await yard.cost(asyncio.gather(*(operations.compose(yard.world, h, begun=True) for h in helds)))}
    helds = [await yard.held(f"r{n}") for n in range(8)]
    costs["attach"] = await yard.cost(asyncio.gather(*(operations.attach(yard.world, h, f"n{n}", f"b00-p{n:03d}", scrub=False) for n, h in enumerate(helds))))
    helds = [await yard.held(f"r{n}") for n in range(8)]
    costs["detach"] = await yard.cost(asyncio.gather(*(operations.detach(yard.world, h, f"n{n}", fence=False) for n, h in enumerate(helds))))
    for h in helds:
        await overwritten(yard, h.entry.uid)
    helds = [await yard.held(f"r{n}") for n in range(8)]
    costs["free"] = await yard.cost(asyncio.gather(*(operations.free(yard.world, h) for h in helds)))
    print(", ".join(f"{name} {requests} requests {size} bytes" for name, (requests, size) in costs.items()))
