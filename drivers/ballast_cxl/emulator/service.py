"""Both APIs and the levers of a test, as one HTTP application."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from aiohttp import web

from ballast_cxl.emulator.appliance import Appliance, No
from ballast_cxl.emulator.cfm import CfmApi
from ballast_cxl.emulator.faults import Fault, Injected
from ballast_cxl.emulator.redfish import RedfishApi

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(appliance: Appliance, credentials: tuple[str, str] | None = None) -> web.Application:
    """credentials: name and password that every call of the two APIs must bring. Unset: none are needed."""
    mutex = asyncio.Lock()

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith("/emulator/"):
            return await handler(request)
        if credentials and request.headers.get("Authorization") != basic(credentials):
            return refusal(request, 401, "credentials are missing or wrong")
        if not appliance.quirks.global_mutex:
            return await answered(request, handler)
        async with mutex:
            return await answered(request, handler)

    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.method == "GET":
                await appliance.faults.before("look")
            return await handler(request)
        except No as no:
            return refusal(request, no.status, str(no))
        except Injected as injected:
            if injected.answer:
                return refusal(request, 500, str(injected))
            assert request.transport is not None
            request.transport.abort()  # the client sees the connection break
            return web.Response()
        except (KeyError, TypeError, ValueError) as error:
            return refusal(request, 400, f"malformed request: {error!r}")

    app = web.Application(middlewares=[guarded])
    app.add_routes([*CfmApi(appliance).routes(), *RedfishApi(appliance).routes(), *levers(appliance)])
    return app


def levers(appliance: Appliance) -> list[web.RouteDef]:
    """What only a test asks for: faults, a power cycle, and what the appliance has."""

    async def fault(request: web.Request) -> web.Response:
        try:
            appliance.faults.add(Fault(**await request.json()))
        except (TypeError, ValueError) as error:
            return web.Response(status=400, text=str(error))
        return web.Response(status=204)

    async def waiting(_: web.Request) -> web.Response:
        return web.json_response([asdict(fault) for fault in appliance.faults.waiting])

    async def calm(_: web.Request) -> web.Response:
        appliance.faults.waiting.clear()
        return web.Response(status=204)

    async def power_cycle(request: web.Request) -> web.Response:
        await appliance.power_cycle(appliance.blade(request.match_info["blade"]))
        return web.Response(status=204)

    async def state(_: web.Request) -> web.Response:
        return web.json_response(
            {
                name: {
                    "memories": {memory: list(blocks) for memory, blocks in blade.state.memories.items()},
                    "connections": [[c.memory, c.port, c.serial] for c in blade.state.connections.values()],
                }
                for name, blade in appliance.blades.items()
            }
        )

    return [
        web.post("/emulator/faults", fault),
        web.get("/emulator/faults", waiting),
        web.delete("/emulator/faults", calm),
        web.post("/emulator/blades/{blade}/power-cycle", power_cycle),
        web.get("/emulator/state", state),
    ]


def refusal(request: web.Request, status: int, message: str) -> web.Response:
    """An error in the shape of the API that was asked."""
    inner = {"code": status, "message": message}
    body = {"error": inner} if request.path.startswith("/redfish") else {"status": inner}
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")


def basic(credentials: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(credentials).encode()).decode()
