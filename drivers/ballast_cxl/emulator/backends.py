"""How composed memory becomes something that a host sees.

A region is a file, ROOT/regions/MEMORY. Connecting it to a port makes ROOT/ports/PORT/SERIAL appear: a hard link to the
file, a loop device over it, or a CXL type-3 device in the QEMU guest at that port. `settle` brings what is there to
what should be, from whatever a crash left. What was written to a block stays in it when its region is gone, as in real
memory, and is seen by whoever gets the block next; only that proves that somebody overwrote it.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ballast_cxl.emulator.blocks import Bytes
from ballast_cxl.emulator.layout import BladeLayout
from ballast_cxl.emulator.state import BladeState


class Backend(Protocol):
    """Makes memory visible."""

    async def settle(self, blade: BladeLayout, state: BladeState) -> None:
        """Bring files and devices of one blade to what its state says."""


@dataclass
class Shm:
    """Regions as files, ports as hard links. root: a folder in memory that every host sees."""

    root: Path

    async def settle(self, blade: BladeLayout, state: BladeState) -> None:
        wanted = {(c.port, c.serial): c.memory for c in state.connections.values() if c.memory in state.memories}
        for port in blade.port_names():
            folder = self.root / "ports" / port
            folder.mkdir(parents=True, exist_ok=True)
            for place in folder.iterdir():
                if (port, place.name) not in wanted:
                    await self.unplug(port, place.name)
        stored = Bytes(self.root, blade.mib << 20)
        for memory, blocks in state.former.items():
            stored.back(memory, blocks)
        for memory, blocks in state.memories.items():
            stored.out(memory, blocks)
        for (port, serial), memory in wanted.items():
            await self.plug(port, serial, stored.region(memory))

    async def plug(self, port: str, serial: str, region: Path) -> None:
        """Make a region appear at a port."""
        place = self.root / "ports" / port / serial
        if not place.exists():
            os.link(region, place)

    async def unplug(self, port: str, serial: str) -> None:
        """Make it vanish."""
        (self.root / "ports" / port / serial).unlink()


@dataclass
class Loop(Shm):
    """As Shm, with a loop device over each region: a block device stands where the link would."""

    async def plug(self, port: str, serial: str, region: Path) -> None:
        place = self.root / "ports" / port / serial
        if place.exists():
            return
        done = subprocess.run(["losetup", "--find", "--show", region], check=True, text=True, stdout=subprocess.PIPE)
        device = Path(done.stdout.strip()).stat()
        os.mknod(place, 0o660 | 0o060000, device.st_rdev)

    async def unplug(self, port: str, serial: str) -> None:
        place = self.root / "ports" / port / serial
        number = os.minor(place.stat().st_rdev)
        subprocess.run(["losetup", "--detach", f"/dev/loop{number}"], check=True)
        place.unlink()


@dataclass(frozen=True)
class Slot:
    """A free root port of a guest. socket: of its QMP monitor; bus: id of the root port."""

    socket: Path
    bus: str


@dataclass
class Qemu(Shm):
    """As Shm, with each region plugged into the guest at that port. slots: by port."""

    slots: Mapping[str, Slot] = field(default_factory=dict)
    detach_seconds: float = 60.0

    async def plug(self, port: str, serial: str, region: Path) -> None:
        """A backend of QEMU's keeps its id after the device is gone, so each plugging has ids of its own."""
        place = self.root / "ports" / port / serial
        if place.exists() or port not in self.slots:
            return
        slot, unique = self.slots[port], f"{serial}{os.urandom(3).hex()}"
        async with Qmp(slot.socket) as qmp:
            await qmp.run(
                "object-add",
                {"qom-type": "memory-backend-file", "id": f"mem{unique}", "share": True}
                | {"mem-path": str(region), "size": region.stat().st_size},
            )
            await qmp.run(
                "device_add",
                {"driver": "cxl-type3", "bus": slot.bus, "id": f"dev{unique}"}
                | {"volatile-memdev": f"mem{unique}", "sn": int(serial, 16)},
            )
        place.write_text(unique)

    async def unplug(self, port: str, serial: str) -> None:
        place = self.root / "ports" / port / serial
        device = f"dev{place.read_text()}"
        try:
            async with Qmp(self.slots[port].socket) as qmp, asyncio.timeout(self.detach_seconds):
                asked = False
                while any(item["name"] == device for item in await qmp.run("qom-list", {"path": _PERIPHERAL})):
                    asked = asked or await _let_go(qmp, device)
                    await asyncio.sleep(0.2)
        except (ConnectionError, FileNotFoundError):
            pass  # the guest is switched off, and the device went with it
        place.unlink()


async def _let_go(qmp: "Qmp", device: str) -> bool:
    """Ask the guest to let go of a device; False while it is still taking it in, which it says by a blinking light."""
    try:
        await qmp.run("device_del", {"id": device})
    except OSError as error:
        if "guest is busy" not in str(error):
            raise
        return False
    return True


_PERIPHERAL = "/machine/peripheral"


class Qmp:
    """QEMU's monitor protocol over a Unix socket. Raises OSError for what QEMU refuses."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def __aenter__(self) -> "Qmp":
        self._reader, self._writer = await asyncio.open_unix_connection(self._socket)
        await self._reader.readline()  # the greeting
        await self.run("qmp_capabilities", {})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def run(self, command: str, arguments: Mapping[str, Any]) -> Any:
        """Answer of one command; events in between are passed over."""
        self._writer.write((json.dumps({"execute": command, "arguments": arguments}) + "\n").encode())
        await self._writer.drain()
        while line := await self._reader.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise OSError(f"QEMU at {self._socket}: {command}: {answer['error']['desc']}")
        raise OSError(f"QEMU at {self._socket} closed the connection")
