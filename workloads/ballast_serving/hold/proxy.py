"""The way of one request: held until an engine is ready, forwarded, and tried elsewhere while nothing was answered.

A request body is kept (it may have to be sent again), an answer never is: each chunk goes on as it comes. Once the
first byte of an answer went to the client, a broken engine breaks the answer; before it, the client notices nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ballast_serving.hold.balancer import UNREACHED, Balancer
from ballast_serving.hold.engines import Engines
from ballast_serving.hold.metrics import Counts

TRIES = 10
PAUSE = 0.2  # seconds between tries
HAND_OVER = 60.0  # seconds in which another router has to be there; one that takes the place of this one starts in less
HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
    "upgrade", "content-length", "host",
}  # fmt: skip
# Answered without the key, as they tell of the engine and make it do nothing. vLLM itself asks for the key below /v1
# alone, and answers prompts at other paths too (/invocations, /tokenize, /score).
OPEN = frozenset({"/health", "/ping", "/version", "/metrics"})
NOT_ANSWERED = (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionError, ConnectionError)


@dataclass(frozen=True)
class Limits:
    """How much is held, and for how long. Seconds and bytes."""

    held: int = 1024
    timeout: float = 900
    body: int = 64 << 20


@dataclass
class Refusal(Exception):
    """An answer of our own, in the shape of the OpenAI API's errors."""

    status: int
    message: str
    retry_after: int | None = None

    def response(self) -> web.Response:
        error = {"message": self.message, "type": "service_unavailable" if self.status == 503 else "error"}
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return web.json_response({"error": {**error, "code": self.status}}, status=self.status, headers=headers)


@dataclass
class Proxy:
    """All requests of one router pod."""

    engines: Engines
    balancer: Balancer
    counts: Counts
    limits: Limits = field(default_factory=Limits)
    api_key: str = ""
    service: str = ""  # HOST:PORT of all routers that are ready
    closing: bool = False
    session: aiohttp.ClientSession | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.counts.came()
        status = 0
        try:
            answer = await self._answer(request)
            status = answer.status
            return answer
        except Refusal as refusal:
            status = refusal.status
            return refusal.response()
        finally:
            self.counts.left(status)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self._authorise(request)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            limit = self.limits.body >> 20
            raise Refusal(413, f"the request body is larger than {limit} MiB; send less") from None
        deadline = time.monotonic() + self.limits.timeout
        tried: set[str] = set()
        for attempt in range(TRIES):
            await self._held(deadline)
            answer = await (self._try(request, body, tried) if self.engines.ready else self._hand_over(request, body))
            if answer is not None:
                return answer
            self.counts.retries.inc()
            await asyncio.sleep(PAUSE * (attempt + 1))
        raise Refusal(502, f"no engine answered in {TRIES} tries; see the pods of this MoEServing", retry_after=5)

    def _authorise(self, request: web.Request) -> None:
        """Refuse without the key what an engine would refuse, so that nobody without it wakes engines."""
        if not self.api_key or (request.path in OPEN and request.method in ("GET", "HEAD")):
            return
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.api_key.encode()):
            raise Refusal(401, "the API key is missing or wrong; send it as Authorization: Bearer KEY")

    async def _held(self, deadline: float) -> None:
        """Wait here while no engine is ready, unless this router ends."""
        if self.engines.ready or self.engines.over:
            return
        if self.counts.held >= self.limits.held:
            raise Refusal(
                503, f"no engine is ready and {self.limits.held} requests wait already; try again later", retry_after=10
            )
        since = time.monotonic()
        self.counts.held += 1
        try:
            if not await self.engines.wait_ready(deadline - since) and not self.engines.over:
                waited = f"{self.limits.timeout:.0f} s"
                raise Refusal(503, f"no engine became ready within {waited}; try again later", retry_after=30)
        finally:
            self.counts.held -= 1
            self.counts.waited(time.monotonic() - since)

    async def _hand_over(self, request: web.Request, body: bytes) -> web.StreamResponse | None:
        """Let another router hold it: this one would keep its node, or its namespace, for as long as it holds anything.
        None once an engine is ready after all."""
        end = time.monotonic() + HAND_OVER
        while time.monotonic() < end and not self.engines.ready:
            answer = await self._forward(request, body, f"http://{self.service}", set(), address=None)
            if answer is not None:
                return answer
            await asyncio.sleep(1)
        if self.engines.ready:
            return None
        message = "this router ends, no engine is ready, and no other router is there; try again later"
        raise Refusal(503, message, retry_after=30)

    async def _try(self, request: web.Request, body: bytes, tried: set[str]) -> web.StreamResponse | None:
        """Send it once. None where no engine answered anything, so that it may be sent again."""
        if self.balancer.serves(request.path) and not tried:
            return await self._forward(request, body, self.balancer.url, tried, address=None)
        engine = self.engines.least_loaded(tried) or self.engines.least_loaded(set())
        if engine is None:
            return None
        engine.in_flight += 1
        try:
            return await self._forward(request, body, f"http://{engine.address}", tried, address=engine.address)
        finally:
            engine.in_flight -= 1

    async def _forward(
        self, request: web.Request, body: bytes, base: str, tried: set[str], address: str | None
    ) -> web.StreamResponse | None:
        assert self.session is not None
        url = f"{base}{request.raw_path}"
        try:
            upstream = await self.session.request(
                request.method, url, data=body or None, headers=_forwarded(request), allow_redirects=False
            )
        except NOT_ANSWERED:
            tried.add(address or base)
            if address is not None:
                await self.engines.failed(address)
            return None
        async with upstream:
            if address is None and await _unreached(upstream):
                tried.add(base)
                return None
            return await self._stream(request, upstream)

    async def _stream(self, request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        answer = web.StreamResponse(status=upstream.status, headers=_kept(upstream.headers))
        length = upstream.headers.get("Content-Length")
        if length is not None and "Content-Encoding" not in upstream.headers:
            answer.content_length = int(length)
        if self.closing:
            answer.force_close()
        await answer.prepare(request)
        while chunk := await self._chunk(request, upstream):
            await answer.write(chunk)  # a client that is gone ends it here, and is nobody's cut stream
        await answer.write_eof()
        return answer

    async def _chunk(self, request: web.Request, upstream: aiohttp.ClientResponse) -> bytes:
        """What an engine says next; empty at the end of its answer."""
        try:
            return await upstream.content.readany()
        except (aiohttp.ClientError, ConnectionError) as error:
            self.counts.cut.inc()
            if request.transport is not None:
                request.transport.abort()  # a clean end would pass for a whole answer
            raise ConnectionResetError("the engine broke off its answer") from error


async def _unreached(upstream: aiohttp.ClientResponse) -> bool:
    """Whether vllm-router speaks for itself: it could not reach an engine."""
    if upstream.status not in (500, 502, 503) or upstream.content_type == "application/json":
        return False
    return (await upstream.read()).startswith(UNREACHED)


def _forwarded(request: web.Request) -> CIMultiDict[str]:
    headers = CIMultiDict((name, value) for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP)
    if request.remote:
        headers.add("X-Forwarded-For", request.remote)
    return headers


def _kept(headers: object) -> CIMultiDict[str]:
    assert hasattr(headers, "items")
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP)
