"""The ports of a router pod and its end: not ready, no longer listening, streams finished, gone."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ballast_serving.hold.balancer import Balancer, Policy
from ballast_serving.hold.engines import Engines, absolute
from ballast_serving.hold.metrics import Counts
from ballast_serving.hold.proxy import Limits, Proxy


@dataclass(frozen=True)
class Plan:
    """Where engines are and how long things may take. Times in seconds."""

    engines: str
    policy: Policy
    port: int = 8000
    status_port: int = 8080
    engine_status_port: int = 8080
    limits: Limits = field(default_factory=Limits)
    drain_timeout: float = 120
    propagation: float = 5
    api_key: str = ""
    service: str = ""  # HOST:PORT that clients use: other routers, once this one ends
    balancer_port: int = 8100


class Router:
    """One router pod, from its start to the end of its drain."""

    def __init__(self, plan: Plan) -> None:
        host, _, port = plan.engines.rpartition(":")
        self.plan = plan
        self.counts = Counts()
        self.engines = Engines(absolute(host), int(port), plan.engine_status_port, on_change=self._engines_changed)
        self.balancer = Balancer(plan.policy, plan.balancer_port)
        self.proxy = Proxy(self.engines, self.balancer, self.counts, plan.limits, plan.api_key, plan.service)
        self.stop = asyncio.Event()

    def _engines_changed(self) -> None:
        ready = {engine.address for engine in self.engines.ready}
        self.balancer.set_engines(ready)
        self.counts.ready_engines.set(len(ready))

    async def run(self) -> None:
        """Serve until `stop` is set, then drain."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector, auto_decompress=False) as session,
            self.balancer.running(),
            self.engines.watched(),
        ):
            self.proxy.session = session
            status = await _listen(self._status_app(), self.plan.status_port)
            app = web.Application(client_max_size=self.plan.limits.body)
            app.router.add_route("*", "/{path:.*}", self.proxy.handle)
            runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
            await runner.setup()
            site = web.TCPSite(runner, "0.0.0.0", self.plan.port)
            await site.start()
            await self.stop.wait()
            await self._drain(site)
            await runner.cleanup()
            await status.cleanup()

    async def _drain(self, site: web.TCPSite) -> None:
        self.proxy.closing = True
        await asyncio.sleep(self.plan.propagation)
        await site.stop()
        if self.plan.service:
            await self.engines.give_up()
        deadline = time.monotonic() + self.plan.drain_timeout
        while self.counts.in_flight and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    def _status_app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/livez", self._alive)
        app.router.add_get("/status", self._status)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def _ready(self, _: web.Request) -> web.Response:
        return await _text(503 if self.proxy.closing else 200, "draining\n" if self.proxy.closing else "ready\n")

    async def _alive(self, _: web.Request) -> web.Response:
        return await _text(200, "alive\n")

    async def _status(self, _: web.Request) -> web.Response:
        counts, idle = self.counts, self.counts.idle_seconds
        return web.json_response(
            {
                "phase": "Draining" if self.proxy.closing else "Ready",
                "engines": {"known": len(self.engines.known), "ready": len(self.engines.ready)},
                "held": counts.held,
                "inFlight": counts.in_flight,
                "longestHoldSeconds": round(counts.longest_hold, 1),
                "lastRequestSecondsAgo": None if idle is None else round(idle, 1),
                "requests": counts.requests,
                "failed": counts.failed,
            }
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        page = generate_latest(self.counts.registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


async def _listen(app: web.Application, port: int) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    return runner


async def hold(plan: Plan) -> None:
    """Run a router pod to its end."""
    router = Router(plan)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, router.stop.set)
    await router.run()
