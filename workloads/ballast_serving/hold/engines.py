"""Which engines there are and which are ready, without any right in the cluster: DNS names them, their probes judge.

The headless Service publishes addresses before their pods are ready, and the pods are asked directly: a pod that
starts to drain is left alone half a second later, which no detour over the API server and DNS could promise.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

LOOK_EVERY = 0.5  # seconds
PROBE_TIMEOUT = 2.0
MISSES = 2  # probes without an answer before a ready engine is given up; a clear "not ready" counts at once

Resolve = Callable[[str, int], Awaitable[set[str] | None]]
NO_ADDRESS = (socket.EAI_NONAME, socket.EAI_NODATA)


async def resolve(host: str, port: int) -> set[str] | None:
    """Addresses `IP:PORT` behind a name; empty where the name has none (yet), None where DNS does not know just now."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return set() if error.errno in NO_ADDRESS else None
    return {_joined(entry[4][0], port) for entry in found}


def absolute(host: str, resolver: Path = Path("/etc/resolv.conf")) -> str:
    """A Service's name with the cluster's domain and a final dot: so DNS is asked once, and nobody beyond the cluster,
    whose silence would pass for its own. As it is where the pod's resolver knows no such domain."""
    if not host.endswith(".svc") or not resolver.exists():
        return host
    words = [line.split() for line in resolver.read_text().splitlines()]
    domains = [word for line in words if line[:1] == ["search"] for word in line[1:]]
    found = next((domain.removeprefix("svc.") for domain in domains if domain.startswith("svc.")), None)
    return f"{host}.{found.rstrip('.')}." if found else host


def _joined(host: str | int, port: int) -> str:
    address = ipaddress.ip_address(host)
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


@dataclass
class Engine:
    """One engine pod, by the address of its HTTP API."""

    address: str
    ready: bool = False
    misses: int = 0
    in_flight: int = 0


@dataclass
class Engines:
    """The engines behind one headless Service. `on_change` hears of every change of who is ready."""

    host: str
    port: int
    status_port: int
    resolve: Resolve = resolve
    known: dict[str, Engine] = field(default_factory=dict)
    on_change: Callable[[], None] = lambda: None
    over: bool = False  # nobody waits here for one any longer
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def ready(self) -> list[Engine]:
        return [engine for engine in self.known.values() if engine.ready]

    def least_loaded(self, without: set[str]) -> Engine | None:
        """The ready engine with the fewest requests from here, leaving out those that were tried."""
        choice = [engine for engine in self.ready if engine.address not in without]
        return min(choice, key=lambda engine: (engine.in_flight, engine.address), default=None)

    async def wait_ready(self, timeout: float) -> bool:
        """Wait until an engine is ready, at most `timeout` seconds, and not beyond `give_up`."""
        if self.ready:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: bool(self.ready) or self.over)
        return bool(self.ready)

    async def give_up(self) -> None:
        """Let nobody wait any longer."""
        self.over = True
        await self._tell()

    async def failed(self, address: str) -> None:
        """A request could not reach this engine: it is not ready until a probe says otherwise."""
        engine = self.known.get(address)
        if engine is not None and engine.ready:
            engine.ready = False
            await self._tell()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Keep looking for as long as the context lasts; one look has been taken when it opens."""
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await self.look(session)
            task = asyncio.create_task(self._keep_looking(session))
            try:
                yield
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _keep_looking(self, session: aiohttp.ClientSession) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self.look(session)

    async def look(self, session: aiohttp.ClientSession) -> None:
        """One round: who is named, who is ready. While DNS is out, those that are ready stay, as long as they are: the
        address of one that went may soon be somebody else's."""
        before = {engine.address for engine in self.ready}
        named = await self.resolve(self.host, self.port)
        if named is None:
            named = before
        for address in named - self.known.keys():
            self.known[address] = Engine(address)
        for address in [address for address, engine in self.known.items() if address not in named]:
            del self.known[address]
        await asyncio.gather(*(self._probe(session, engine) for engine in list(self.known.values())))
        if before != {engine.address for engine in self.ready}:
            await self._tell()

    async def _probe(self, session: aiohttp.ClientSession, engine: Engine) -> None:
        host = engine.address.rsplit(":", 1)[0]
        try:
            async with session.get(f"http://{host}:{self.status_port}/readyz") as answer:
                engine.ready, engine.misses = answer.status == 200, 0
        except (aiohttp.ClientError, TimeoutError, OSError):
            engine.misses += 1
            if engine.misses >= MISSES:
                engine.ready = False

    async def _tell(self) -> None:
        self.on_change()
        async with self._changed:
            self._changed.notify_all()
