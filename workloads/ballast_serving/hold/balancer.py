"""vllm-router as a child process on this pod's loopback: it knows which engine has which prefix.

It starts without engines and is told of them as they become ready; taking one away leaves its running streams alone.
If it dies it is started again, and until then requests go to the least loaded engine directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum

import aiohttp

from ballast_serving.engine import Engine as Process

START_TIMEOUT = 30.0  # seconds
RETRY_EVERY = 1.0

# Paths whose requests have a prefix worth knowing; the others go to any engine.
PATHS = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank"})

# What it answers when it could not reach an engine, as text; an engine's own errors are JSON.
UNREACHED = (b"Request failed: error sending request", b"No available workers")


class Policy(StrEnum):
    """How an engine is chosen among those that are ready."""

    PREFIX_AWARE = "PrefixAware"
    SESSION_AWARE = "SessionAware"
    LEAST_LOADED = "LeastLoaded"
    ROUND_ROBIN = "RoundRobin"


_NAMES = {
    Policy.PREFIX_AWARE: "cache_aware",
    Policy.SESSION_AWARE: "consistent_hash",
    Policy.LEAST_LOADED: "power_of_two",
    Policy.ROUND_ROBIN: "round_robin",
}


@dataclass
class Balancer:
    """The child and what it was told. `ready` is whether requests may go through it."""

    policy: Policy
    port: int
    wanted: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    up: bool = False
    process: Process | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serves(self, path: str) -> bool:
        """Whether a request to this path should go through it now; not while it may choose an engine that left."""
        return self.up and path in PATHS and bool(self.told) and self.told <= self.wanted

    def set_engines(self, addresses: set[str]) -> None:
        """The engines that are ready from now on. Those that left are not used even before it is told."""
        self.wanted = addresses
        self._wake.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep it running for as long as the context lasts."""
        task = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "vllm_router.launch_router",
            "--host=127.0.0.1", f"--port={self.port}", f"--policy={_NAMES[self.policy]}",
            "--prometheus-host=127.0.0.1", f"--prometheus-port={self.port + 1}",
            "--log-level=warning", "--max-concurrent-requests=32768",
            # The hold retries on another engine; a second try here would only cost time.
            "--disable-retries", "--disable-circuit-breaker",
        ]  # fmt: skip

    async def _keep(self) -> None:
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                process = self.process = Process(self.command(), self.port)
                await process.start()
                ended = asyncio.create_task(process.wait())
                try:
                    with contextlib.suppress(TimeoutError):  # it may run and never answer: its port is taken
                        await self._use(session, ended)
                finally:
                    self.up, self.told = False, set()
                    if not ended.done():
                        await process.stop(grace=2)
                    await ended
                await asyncio.sleep(RETRY_EVERY)

    async def _use(self, session: aiohttp.ClientSession, ended: asyncio.Task[int]) -> None:
        """Tell it of engines until it ends."""
        async with asyncio.timeout(START_TIMEOUT):
            while not ended.done() and not await self._answers(session):
                await asyncio.sleep(0.1)
        while not ended.done():
            self.up = await self._tell(session)
            waking = asyncio.create_task(self._wake.wait())
            await asyncio.wait([ended, waking], timeout=RETRY_EVERY, return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
            self._wake.clear()

    async def _answers(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{self.url}/liveness") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _tell(self, session: aiohttp.ClientSession) -> bool:
        """Bring what it knows to what is wanted; False where it does not answer."""
        wanted = set(self.wanted)
        try:
            for address in self.told - wanted:
                await self._post(session, "remove_worker", address)
                self.told.discard(address)
            for address in wanted - self.told:
                if await self._post(session, "add_worker", address):
                    self.told.add(address)
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True

    async def _post(self, session: aiohttp.ClientSession, verb: str, address: str) -> bool:
        async with session.post(f"{self.url}/{verb}", params={"url": f"http://{address}"}) as answer:
            return answer.status == 200
