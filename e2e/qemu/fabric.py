"""The emulated appliance with guests on its ports, asked as the region controller asks it, without a cluster around."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ballast_cxl.fabric.http import Service
from ballast_cxl.fabric.interface import Link, link_of, made_of
from ballast_cxl.fabric.redfish import Hardware, Redfish
from ballast_operator.cluster.faults import CrashAfter

T = TypeVar("T")
CALL_SECONDS = 120.0  # an unassignment waits until the guest has let go of the device


@dataclass(frozen=True)
class Place:
    """A region on a guest's port. serial: as the guest's sysfs shows it."""

    port: str
    serial: str
    size: int

    def slot(self) -> dict[str, Any]:
        """As the agent's methods take it."""
        return {"port": self.port, "serial": self.serial, "size": self.size}


class Fabric:
    """One blade of one block, and a port for each guest by its name."""

    def __init__(self, url: str, ports: Mapping[str, str], size: int) -> None:
        self._ports, self._size = dict(ports), size
        self._runner = asyncio.Runner()
        self._url = url
        self._client = self._run(self._connect())

    @classmethod
    @contextmanager
    def running(cls, folder: Path, monitors: Mapping[str, Path], size: int) -> Iterator[Fabric]:
        """An emulator over these guests' QEMU monitors. size: of its one block, in bytes."""
        names = {guest: f"b0-p{index:03d}" for index, guest in enumerate(monitors)}
        command = [sys.executable, "-m", "ballast_cxl", "emulator", "--root", str(folder / "fabric"), "--port", "0"]
        command += ["--blade", f"b0=1x1x{size >> 20},ports={len(names)}", "--backend", "qemu"]
        for guest, port in names.items():
            command += ["--slot", f"{port}={monitors[guest]}:rp0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().strip()
                assert url.startswith("http://"), f"the emulator did not start: {url!r}"
                fabric = cls(url, names, size)
                yield fabric
                fabric.close()
            finally:
                process.kill()

    def compose(self) -> str:
        """The blade's one block as memory; the memory's id."""
        (block,) = self._run(self._client.ids([0]))
        self._run(self._client.compose([block]))
        found = made_of(self._run(self._client.memories()), [block])
        assert found is not None
        return found.id

    def assign(self, memory: str, guest: str) -> Place:
        """Plug the memory into a guest."""
        port = self._ports[guest]
        self._run(self._client.assign(memory, port))
        link = self._link(memory, port)
        assert link is not None
        return Place(port, f"0x{int(link.serial, 16):x}", self._size)

    def unassign(self, memory: str, guest: str) -> None:
        """Unplug it; returns when the guest has let go, or is dead."""
        link = self._link(memory, self._ports[guest])
        assert link is not None
        self._run(self._client.unassign(link))
        assert self._link(memory, self._ports[guest]) is None

    def free(self, memory: str) -> None:
        self._run(self._client.free(memory))

    def close(self) -> None:
        self._run(self._client.close())
        self._runner.close()

    async def _connect(self) -> Redfish:
        service = Service(self._url, CALL_SECONDS, 1.0, None, CrashAfter())
        return Redfish(service, "b0", Hardware(service))

    def _link(self, memory: str, port: str) -> Link | None:
        return link_of(self._run(self._client.links()), memory, port)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)
