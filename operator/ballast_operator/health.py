"""/healthz, /readyz and /metrics.

Healthy means that work goes on: no key waits, and no worker holds one, longer than the limit. That an HTTP task answers
proves nothing. A standby is ready: it can take over at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ballast_operator.metrics import QUEUE_DEPTH, QUEUE_OLDEST, WATCH_AGE
from ballast_operator.objects import Key
from ballast_operator.queue import Queue


@dataclass
class Health:
    """What the probes ask."""

    queue: Queue[Key]
    stall_seconds: float
    ready: bool = False
    watched: dict[str, float] | None = None  # resource: when it last said something

    def stalled(self) -> str | None:
        """Why the process should be restarted, or None."""
        if (wait := self.queue.oldest_wait()) > self.stall_seconds:
            return f"an object has waited {wait:.0f} s for a worker"
        if (hold := self.queue.longest_hold()) > self.stall_seconds:
            return f"a worker has been busy with one object for {hold:.0f} s"
        return None

    def measure(self) -> None:
        """Refresh the gauges that are read off, not counted."""
        QUEUE_DEPTH.set(len(self.queue))
        QUEUE_OLDEST.set(self.queue.oldest_wait())
        for resource, when in (self.watched or {}).items():
            WATCH_AGE.labels(resource).set(monotonic() - when)


async def serve(health: Health, health_port: int, metrics_port: int) -> Callable[[], list[int]]:
    """Start both servers; returns a function that tells their ports."""

    async def healthz(_: web.Request) -> web.Response:
        reason = health.stalled()
        return web.Response(status=503 if reason else 200, text=reason or "ok")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(status=200 if health.ready else 503, text="ok" if health.ready else "starting")

    async def metrics(_: web.Request) -> web.Response:
        health.measure()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    probes = web.Application()
    probes.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    scraped = web.Application()
    scraped.add_routes([web.get("/metrics", metrics)])
    sites = []
    for application, port in ((probes, health_port), (scraped, metrics_port)):
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, None, port)
        await site.start()
        sites.append(runner)
    return lambda: [int(runner.addresses[0][1]) for runner in sites]
