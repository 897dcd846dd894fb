"""The verbs of the emulated appliance: what is checked, what is written down, what appears at the ports."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ballast_cxl.emulator.backends import Backend
from ballast_cxl.emulator.faults import Faults
from ballast_cxl.emulator.layout import BladeLayout, Quirks
from ballast_cxl.emulator.state import BladeState, Event, Log, read

MIB = 1 << 20


class No(Exception):
    """The appliance refuses. status: HTTP code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Blade:
    layout: BladeLayout
    state: BladeState
    remembered: dict[str, tuple[str, ...]] | None = None  # by CFM, of what was forgotten in a power cycle

    def bytes_of(self, memory: str) -> int:
        return len(self.state.memories[memory]) * self.layout.mib * MIB


class Appliance:
    """All blades of one appliance, with one log."""

    def __init__(
        self, name: str, root: Path, blades: Sequence[BladeLayout], quirks: Quirks, backend: Backend, faults: Faults
    ) -> None:
        self.name, self.quirks, self.backend, self.faults = name, quirks, backend, faults
        self.blades = {layout.name: Blade(layout, BladeState()) for layout in blades}
        self.log = Log(root / "log.jsonl")
        for event in read(self.log.path):
            if blade := self.blades.get(event.get("blade", "")):
                blade.state.apply(event)
        self.log.write({"op": "start"})

    def blade(self, name: str) -> Blade:
        try:
            return self.blades[name]
        except KeyError:
            raise No(404, f"blade {name} not found") from None

    async def settle(self) -> None:
        """Bring files and devices to what the log says; after a crash they may lag behind."""
        for blade in self.blades.values():
            await self.backend.settle(blade.layout, blade.state)

    async def compose(self, blade: Blade, blocks: Sequence[str]) -> str:
        """Make one memory of exactly these blocks; its id."""
        wanted, known = tuple(blocks), blade.layout.block_names()
        if not wanted or len(set(wanted)) != len(wanted) or not set(wanted) <= known.keys():
            raise self._no(400, "compose", blade, "malformed", "the list of resource blocks is not one of this blade")
        if self.quirks.contiguity and not contiguous(blade.layout, wanted):
            raise self._no(409, "compose", blade, "capacity", "blocks are not consecutive on equally many channels")
        taken = blade.state.in_use() & set(wanted)
        if taken and not self.quirks.trusting:
            raise self._no(409, "compose", blade, "capacity", f"resource block {min(taken)} is in use")
        memory = f"{blade.layout.name}-m{blade.state.counter}"
        await self._change(blade, {"op": "compose", "memory": memory, "blocks": list(wanted)})
        return memory

    async def compose_by_size(self, blade: Blade, mib: int, qos: int) -> str:
        """As CFM does: the first run of rows that fits, on the first `qos` channels."""
        layout, used = blade.layout, blade.state.in_use()
        if qos not in (1, 2, 4, 8) or qos > layout.channels or mib < 1:
            raise self._no(400, "compose", blade, "malformed", f"QoS {qos} or size {mib} MiB is out of range")
        if not self.quirks.rounding and mib % (layout.mib * qos):
            raise self._no(400, "compose", blade, "malformed", f"{mib} MiB is no multiple of {layout.mib * qos} MiB")
        rows = -(-mib // (layout.mib * qos))
        names = {place: name for name, place in layout.block_names().items()}
        for first in range(layout.rows - rows + 1):
            run = [names[channel, row] for row in range(first, first + rows) for channel in range(qos)]
            if used.isdisjoint(run):
                return await self.compose(blade, run)
        raise self._no(409, "compose", blade, "capacity", f"no {rows} consecutive blocks are free on {qos} channels")

    async def assign(self, blade: Blade, memory: str, port: str) -> str:
        """Connect; id of the connection."""
        if memory not in blade.state.memories:
            raise self._no(404, "assign", blade, "unknown", f"memory {memory} not found")
        if port not in blade.layout.port_names():
            raise self._no(404, "assign", blade, "unknown", f"port {port} not found")
        if self.quirks.one_connection and any(c.port == port for c in blade.state.connections.values()):
            raise self._no(409, "assign", blade, "port", f"endpoint {port} is not available")
        if any((c.memory, c.port) == (memory, port) for c in blade.state.connections.values()):
            raise self._no(409, "assign", blade, "port", f"memory {memory} is connected to {port} already")
        connection = f"x{blade.state.counter}"
        serial = hashlib.sha256(f"{self.name}/{blade.layout.name}/{memory}/{port}".encode()).hexdigest()[:16]
        event = {"op": "assign", "memory": memory, "port": port, "connection": connection, "serial": serial}
        await self._change(blade, event)
        return connection

    async def unassign(self, blade: Blade, memory: str, port: str) -> None:
        """As CFM does: it takes the first connection of the memory, and is displeased if that is another port's."""
        matches = [
            (name, c)
            for name, c in blade.state.connections.items()
            if (memory in c.memory if self.quirks.substring_ids else memory == c.memory)
        ]
        if not matches:
            raise self._no(404, "unassign", blade, "unknown", f"memoryId {memory} not found")
        if not self.quirks.substring_ids:
            matches = [(name, c) for name, c in matches if c.port == port] or matches
        name, first = matches[0]
        if first.port != port:
            raise self._no(400, "unassign", blade, "unknown", f"memory {memory} is not on port {port}")
        await self.cut(blade, name)

    async def cut(self, blade: Blade, connection: str) -> None:
        """Remove exactly one connection."""
        found = blade.state.connections.get(connection)
        if found is None:
            raise self._no(404, "unassign", blade, "unknown", f"connection {connection} not found")
        event = {"op": "unassign", "memory": found.memory, "port": found.port, "connection": connection}
        await self._change(blade, event)

    async def free(self, blade: Blade, memory: str) -> None:
        """Take a memory apart, after its connections, or only the first of them."""
        if memory not in blade.state.memories:
            raise self._no(404, "free", blade, "unknown", f"memoryId {memory} not found")
        connected = [name for name, c in blade.state.connections.items() if c.memory == memory]
        for name in connected[:1] if self.quirks.first_connection_only else connected:
            await self.cut(blade, name)
        await self._change(blade, {"op": "free", "memory": memory, "blocks": list(blade.state.memories[memory])})

    async def power_cycle(self, blade: Blade) -> None:
        """The blade forgets everything; CFM may not notice."""
        if self.quirks.amnesia:
            blade.remembered = dict(blade.state.memories)
        await self._change(blade, {"op": "power-cycle"})

    async def _change(self, blade: Blade, event: Event) -> None:
        await self.faults.before(event["op"])
        blade.state.apply(self.log.write({"blade": blade.layout.name} | event))
        await self.backend.settle(blade.layout, blade.state)
        await self.faults.after(event["op"])

    def _no(self, status: int, what: str, blade: Blade, reason: str, message: str) -> No:
        """Refusals are evidence too."""
        self.log.write(
            {"op": "refused", "blade": blade.layout.name, "what": what, "reason": reason, "message": message}
        )
        return No(status, message)


def contiguous(layout: BladeLayout, blocks: Sequence[str]) -> bool:
    """Equally many consecutive rows on each channel that is used."""
    places = [layout.block_names()[block] for block in blocks]
    by_channel: dict[int, set[int]] = {}
    for channel, row in places:
        by_channel.setdefault(channel, set()).add(row)
    runs = list(by_channel.values())
    first = runs[0]
    return all(run == first for run in runs) and max(first) - min(first) + 1 == len(first)
