"""A cluster in memory for tests of the region controller, in which everything may happen in any order.

An API server of dictionaries, the emulated appliance without HTTP, node plugins that overwrite and detach, and any
number of controllers without election. Every call of a controller stops before and after its effect until the test lets
it go on, so a test can interleave controllers call by call, show them old objects, and end them between any two steps.
"""

import asyncio
import copy
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ballast_api.cxlblade import CXLBlade
from ballast_cxl.controller.core import Controller
from ballast_cxl.controller.settings import Settings
from ballast_cxl.controller.testing_server import Clock, Server, SimulatedClient, Turns
from ballast_cxl.controller.world import World
from ballast_cxl.emulator.appliance import Appliance, No
from ballast_cxl.emulator.faults import Faults
from ballast_cxl.emulator.layout import BladeLayout, Quirks
from ballast_cxl.emulator.state import BladeState
from ballast_cxl.fabric.interface import Block, Declined, Inventory, Link, Memory, Unreachable
from ballast_cxl.fabric.shared import Shared
from ballast_cxl.names import NODE_FINALIZER
from ballast_cxl.node.judge import place
from ballast_cxl.quantity import to_bytes
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_BLADE, CXL_REGION
from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Key, Object
from ballast_operator.resources import LEASE, Resource

MIB = 1 << 20


class Nothing:
    """A backend of the emulator that makes nothing visible."""

    async def settle(self, blade: BladeLayout, state: BladeState) -> None:
        pass


@dataclass
class SimulatedFabric:
    """The emulated appliance without HTTP. silent: no call is answered, and none is carried out."""

    appliance: Appliance
    name: str
    turns: Turns
    cluster: "Cluster"

    def __post_init__(self) -> None:
        self._memories, self._links = Shared(self._all_memories), Shared(self._all_links)

    async def look(self) -> Inventory:
        return Inventory(self._blocks(), await self.memories(), await self.links())

    async def ids(self, numbers: Collection[int]) -> list[str]:
        return Inventory(self._blocks(), [], []).ids(numbers)

    async def memories(self) -> Sequence[Memory]:
        return await self._memories.now()

    async def memory(self, name: str) -> Memory | None:
        await self.asked()
        blocks = self.appliance.blades[self.name].state.memories.get(name)
        await self.turns.wait()
        return None if blocks is None else Memory(name, frozenset(blocks))

    async def links(self) -> Sequence[Link]:
        return await self._links.now()

    async def compose(self, blocks: Sequence[str]) -> str | None:
        return str(await self._do(self.appliance.compose, list(blocks)))

    async def assign(self, memory: str, port: str) -> None:
        await self._do(self.appliance.assign, memory, port)

    async def unassign(self, link: Link) -> None:
        await self._do(self.appliance.unassign, link.memory, link.port)

    async def free(self, memory: str) -> None:
        await self._do(self.appliance.free, memory)

    async def close(self) -> None:
        pass

    def _blocks(self) -> list[Block]:
        layout = self.appliance.blades[self.name].layout
        return [Block(name, channel, row, layout.mib * MIB) for name, (channel, row) in layout.block_names().items()]

    async def _all_memories(self) -> list[Memory]:
        await self.asked()
        state = self.appliance.blades[self.name].state
        found = [Memory(name, frozenset(blocks)) for name, blocks in state.memories.items()]
        await self.turns.wait()
        return found

    async def _all_links(self) -> list[Link]:
        await self.asked()
        state = self.appliance.blades[self.name].state
        found = [Link(name, c.memory, c.port, c.serial) for name, c in state.connections.items()]
        await self.turns.wait()
        return found

    async def _do(self, verb: Any, *arguments: Any) -> Any:
        began = self.cluster.clock.seconds
        await self.asked()
        if self.cluster.clock.seconds - began > self.cluster.settings.call_seconds:
            raise Unreachable("the call took too long, and was broken off")
        try:
            answer = await verb(self.appliance.blades[self.name], *arguments)
        except No as no:
            raise Declined(no.status, str(no)) from no
        await self.turns.wait()
        return answer

    async def asked(self) -> None:
        """One request."""
        await self.turns.wait()
        if self.cluster.outage.silent:
            raise Unreachable("the appliance does not answer")


@dataclass
class Outage:
    silent: bool = False


@dataclass
class SimulatedQueue:
    """Keys that are ready, and those that will be when time has passed."""

    clock: Clock
    ready: dict[Key, None] = field(default_factory=dict)
    later: dict[Key, float] = field(default_factory=dict)

    def add(self, key: Key) -> None:
        self.ready[key] = None

    def add_after(self, key: Key, seconds: float) -> None:
        self.later[key] = self.clock.seconds + seconds

    def due(self) -> list[Key]:
        for key, when in list(self.later.items()):
            if when <= self.clock.seconds:
                del self.later[key]
                self.ready[key] = None
        return list(self.ready)


class Process:
    """One controller: a cache that may lag behind, and reconciles under way."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self.cluster, self.name = cluster, name
        self.queue = SimulatedQueue(cluster.clock)
        self.world = World(
            SimulatedClient(cluster.server, cluster.turns),  # type: ignore[arg-type]
            Cache(),
            self.queue,  # type: ignore[arg-type]
            cluster.settings,
            cluster.clock.now,
            lambda: cluster.clock.seconds,
            name,
        )
        self.fabrics: dict[str, SimulatedFabric] = {}
        self.world.fabrics.of = self._fabric  # type: ignore[method-assign]
        self.world.nodes.clock = lambda: cluster.clock.seconds
        self.core = Controller(self.world)
        self._watched = {watch.resource.kind: watch for watch in self.core.watched()}
        self.tasks: dict[Key, asyncio.Task[None]] = {}
        self.seen = len(cluster.server.log)
        for kind, watch in self._watched.items():  # the first list
            for obj in cluster.server.all(kind):
                self.world.cache.put(obj)
            for obj in cluster.server.all(kind):
                for key in watch.keys(obj):
                    self.queue.add(key)

    async def _fabric(self, blade: CXLBlade) -> SimulatedFabric:
        name = blade.metadata.name
        if name not in self.fabrics:
            self.fabrics[name] = SimulatedFabric(self.cluster.appliance, name, self.cluster.turns, self.cluster)
        return self.fabrics[name]

    def behind(self) -> int:
        """Changes that its watches have not told yet."""
        return len(self.cluster.server.log) - self.seen

    def deliver(self, count: int) -> None:
        """Have the watches tell so many changes."""
        for event, obj in self.cluster.server.log[self.seen : self.seen + count]:
            self.seen += 1
            watch = self._watched.get(obj["kind"])
            if watch is None:
                continue
            news = self.world.cache.drop(obj) if event == "DELETED" else self.world.cache.put(copy.deepcopy(obj))
            for key in watch.keys(obj) if news else ():
                self.queue.add(key)

    def begin(self, rng: random.Random) -> None:
        """Take up one key that is due and not under way."""
        free = [key for key in self.queue.due() if key not in self.tasks]
        if not free:
            return
        key = rng.choice(free)
        del self.queue.ready[key]
        self.tasks[key] = asyncio.create_task(self._work(key))

    async def _work(self, key: Key) -> None:
        try:
            again = await self.core.reconcile(key)
            if again is not None:
                self.queue.add_after(key, again)
        except (ApiError, OSError):
            self.queue.add_after(key, 1.0)
        finally:
            self.tasks.pop(key, None)

    def kill(self) -> None:
        """End it between two steps."""
        for task in list(self.tasks.values()):
            task.cancel()


class Cluster:
    """Everything, and time."""

    def __init__(
        self, root: Path, rng: random.Random, *, controllers: int, blade: BladeLayout, contiguity: str
    ) -> None:
        self.rng, self.clock = rng, Clock()
        self.turns, self.outage = Turns(rng), Outage()
        self.server = Server(self.clock, rng)
        self.settings = Settings(operation_seconds=10, call_seconds=2, sweep_seconds=5, leak_seconds=20)
        quirks = Quirks(contiguity=contiguity == "Required", one_connection=True, trusting=True)
        self.appliance = Appliance("a0", root, [blade], quirks, Nothing(), Faults())
        self.nodes = ["n1", "n2"]
        self.dead: set[str] = set()
        ports = [{"name": name, "node": self.nodes[i % 2]} for i, name in enumerate(blade.port_names())]
        spec = {"appliance": {"name": "a0", "url": "http://x"}, "blade": blade.name, "ports": ports}
        self.create(CXL_BLADE, None, blade.name, spec | {"contiguity": contiguity})
        for node in self.nodes:
            self.beat(node)
        self.count = 0
        self.processes = [self.start() for _ in range(controllers)]

    def start(self) -> Process:
        self.count += 1
        return Process(self, f"controller-{self.count}")

    def create(self, resource: Resource, namespace: str | None, name: str, spec: Object, **meta: Any) -> Object:
        where = {"namespace": namespace} if namespace else {}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        return self.server.put(body | {"metadata": {"name": name, **where, **meta}})

    def beat(self, node: str) -> None:
        meta = {"name": f"ballast-cxl-{node}", "namespace": self.settings.drivers_namespace}
        self.server.put({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta})

    async def settle(self) -> None:
        """Until all that runs waits for its turn."""
        for _ in range(6):
            await asyncio.sleep(0)

    async def step(self) -> None:
        """One thing happens, anywhere."""
        what = self.rng.random()
        process = self.rng.choice(self.processes)
        if what < 0.55:
            self.turns.release()
        elif what < 0.75:
            process.begin(self.rng)
        elif what < 0.88:
            process.deliver(self.rng.randint(1, 4))
        elif what < 0.95:
            self.plugins()
        else:
            self.pass_time(self.rng.uniform(0.1, 3.0))
        await self.settle()

    def pass_time(self, seconds: float) -> None:
        self.clock.seconds += seconds
        for node in [name for name in self.nodes if name not in self.dead]:
            self.beat(node)
        for process in self.processes:
            process.world.nodes.saw(self.server.all(LEASE.kind))

    def crash(self, index: int) -> None:
        """End one controller and start another in its place, which knows nothing."""
        self.processes[index].kill()
        self.processes[index] = self.start()

    def plugins(self) -> None:
        """Node plugins do the next thing for one attachment."""
        mine = [a for a in self.server.all(CXL_ATTACHMENT.kind) if a["spec"]["node"] not in self.dead]
        if not mine:
            return
        known = self.rng.choice(mine)
        found = copy.deepcopy(known)
        meta, status = found["metadata"], found.get("status", {})
        if meta.get("deletionTimestamp"):
            if status.get("node", {}).get("device") and not place(found):
                return  # as the plugin does: what it does not find it cannot take down, and must not let go
            meta["finalizers"] = [name for name in meta.get("finalizers", []) if name != NODE_FINALIZER]
        elif found["spec"].get("purpose") == "Scrub" and status.get("phase") == "Assigned":
            if NODE_FINALIZER not in meta["finalizers"]:
                meta["finalizers"].append(NODE_FINALIZER)
            size = to_bytes(status["size"])
            scrub = {"bytes": size, "verified": size, "generation": status["generation"]}
            status["node"] = {"device": status["serial"], "scrub": scrub}
        if found != known:
            self.server.put(found)

    async def converge(self, steps: int = 60_000) -> int:
        """Let everybody work undisturbed until nothing is left to do; the steps that it took."""
        for number in range(steps):
            if not self.turns.release():
                for process in self.processes:
                    process.deliver(process.behind())
                    process.begin(self.rng)
                self.plugins()
                if not any(process.tasks or process.queue.ready for process in self.processes):
                    if self.done():
                        return number
                    self.pass_time(1.0)
            await self.settle()
        raise AssertionError(f"not done after {steps} steps: {self.summary()}")

    def done(self) -> bool:
        """Every region is what it can be, and nothing is on its way out."""
        regions = self.server.all(CXL_REGION.kind)
        phases = [region.get("status", {}).get("phase") for region in regions]
        composed = all(phase in ("Composed", "Ready", "Pending", "Quarantined") for phase in phases)
        leaving = any(region["metadata"].get("deletionTimestamp") for region in regions)
        uids = {region["metadata"]["uid"] for region in regions}
        strangers = [entry for entry in self.ledger() if entry["uid"] not in uids and entry["state"] != "Quarantined"]
        busy = any(entry.get("operation") for entry in self.ledger())
        return composed and not leaving and not strangers and not busy

    def ledger(self) -> list[Object]:
        return [e for blade in self.server.all(CXL_BLADE.kind) for e in blade.get("status", {}).get("reservations", [])]

    def memories(self) -> dict[str, tuple[str, ...]]:
        return {
            name: blocks for blade in self.appliance.blades.values() for name, blocks in blade.state.memories.items()
        }

    def summary(self) -> Object:
        regions = {r["metadata"]["name"]: r.get("status", {}).get("phase") for r in self.server.all(CXL_REGION.kind)}
        return {"regions": regions, "ledger": self.ledger(), "memories": self.memories()}

    def region(self, name: str, size: str, **spec: Any) -> Object:
        return self.create(CXL_REGION, "team-a", name, {"size": size, **spec})
