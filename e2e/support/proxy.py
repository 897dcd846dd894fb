"""A proxy in front of the API server that shows its client a broken view of the world.

Stale: watch events arrive seconds late. Dropped: some never arrive. Cut: streams end in the middle of a line. Refusing:
requests are answered 410, 429, 500 or 504. What the client does about it is its own affair; the end must be the same.
"""

import asyncio
import base64
import json
import random
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import yaml
from aiohttp import web


@dataclass
class Faults:
    """What goes wrong. All probabilities are per event or per request; seed makes a run repeatable."""

    delay_seconds: float = 0.0
    drop: float = 0.0
    replay: float = 0.0
    cut: float = 0.0
    refuse: float = 0.0
    gone: float = 0.0
    only_watches_of: str = ""  # plural; empty: all
    seed: int = 0


@dataclass
class Proxy:
    """Serves plain HTTP on a port of this machine; credentials of the client pass through."""

    kubeconfig: Path
    faults: Faults = field(default_factory=Faults)
    port: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> "Proxy":
        self._random = random.Random(self.faults.seed)
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        assert started.wait(20), "the proxy did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)
        assert not self._thread.is_alive(), "the proxy did not end"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        runner = await self._start()
        started.set()
        await self._over.wait()
        await runner.cleanup()
        await self._session.close()

    async def _start(self) -> web.AppRunner:
        cluster = yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        self._server = cluster["server"]
        context = _trusting(cluster, self.kubeconfig)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**22,
        )
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._pass)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = int(runner.addresses[0][1])
        return runner

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        watching = request.query.get("watch") == "true"
        if not watching and self._happens(self.faults.refuse, "refused"):
            status = self._random.choice([429, 500, 504])
            return _status(status, retry_after=1 if status == 429 else None)
        if watching and self._happens(self.faults.gone, "gone"):
            return web.Response(text=json.dumps({"type": "ERROR", "object": _gone()}) + "\n")
        headers = {k: v for k, v in request.headers.items() if k.lower() not in ("host", "content-length")}
        upstream = await self._session.request(
            request.method,
            self._server + request.path_qs,
            headers=headers,
            data=await request.read() or None,
            skip_auto_headers=["Content-Type"],
        )
        async with upstream:
            if watching and upstream.status == 200:
                return await self._watch(request, upstream)
            body = await upstream.read()
            kept = {k: v for k, v in upstream.headers.items() if k.lower() == "content-type"}
            return web.Response(status=upstream.status, body=body, headers=kept)

    async def _watch(self, request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        plural = request.path.rsplit("/", 1)[-1]
        with suppress(aiohttp.ClientConnectionResetError):  # the client has gone: it watches anew, or has ended
            async for line in self._events(upstream, plural):
                if self._happens(self.faults.cut, "cut"):
                    await response.write(line[: len(line) // 2])
                    break
                await response.write(line)
        return response

    async def _events(self, upstream: aiohttp.ClientResponse, plural: str) -> AsyncIterator[bytes]:
        broken = self.faults.only_watches_of in ("", plural)
        last = b""
        async for line in upstream.content:
            if broken and b'"type":"BOOKMARK"' not in line[:30]:
                if self.faults.delay_seconds:
                    await asyncio.sleep(self.faults.delay_seconds * self._random.random())
                if self._happens(self.faults.drop, "dropped"):
                    continue
                if last and self._happens(self.faults.replay, "replayed"):
                    yield last
                last = line
            yield line

    def _happens(self, probability: float, what: str) -> bool:
        if probability and self._random.random() < probability:
            self.counts[what] = self.counts.get(what, 0) + 1
            return True
        return False


def _trusting(cluster: dict[str, Any], kubeconfig: Path) -> ssl.SSLContext:
    """Trusts what the kubeconfig trusts, whether it names a file or carries the certificate."""
    if data := cluster.get("certificate-authority-data"):
        return ssl.create_default_context(cadata=base64.b64decode(data).decode())
    named = cluster.get("certificate-authority")
    return ssl.create_default_context(cafile=str((kubeconfig.parent / named).resolve()) if named else None)


def _gone() -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}


def _status(code: int, retry_after: int | None) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "the proxy says no"}
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    return web.json_response(body, status=code, headers=headers)
