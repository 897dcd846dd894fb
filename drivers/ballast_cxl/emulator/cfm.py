"""The paths of Seagate's CFM, OpenAPI 1.7.0, as far as a composer needs them."""

from typing import Any

from aiohttp import web

from ballast_cxl.emulator.appliance import Appliance, Blade, No

ROOT = "/cfm/v1/appliances"


class CfmApi:
    """North side of one appliance."""

    def __init__(self, appliance: Appliance) -> None:
        self._appliance = appliance

    def routes(self) -> list[web.RouteDef]:
        blade = f"{ROOT}/{{appliance}}/blades/{{blade}}"
        return [
            web.get(ROOT, self.appliances),
            web.get(f"{ROOT}/{{appliance}}", self.appliance),
            web.get(f"{ROOT}/{{appliance}}/blades", self.blades),
            web.get(blade, self.blade),
            web.patch(blade, self.resync),
            web.get(f"{blade}/resources", self.resources),
            web.get(f"{blade}/resources/{{resource}}", self.resource),
            web.get(f"{blade}/ports", self.ports),
            web.get(f"{blade}/ports/{{port}}", self.port),
            web.get(f"{blade}/memory", self.memories),
            web.get(f"{blade}/memory/{{memory}}", self.memory),
            web.post(f"{blade}/memory", self.compose_by_size),
            web.put(f"{blade}/memory", self.compose),
            web.patch(f"{blade}/memory/{{memory}}", self.operate),
            web.delete(f"{blade}/memory/{{memory}}", self.free),
        ]

    async def appliances(self, request: web.Request) -> web.Response:
        return collection(request, [self._appliance.name])

    async def appliance(self, request: web.Request) -> web.Response:
        self._known(request)
        return web.json_response({"id": self._appliance.name, "blades": {"uri": f"{request.path}/blades"}})

    async def blades(self, request: web.Request) -> web.Response:
        self._known(request)
        return collection(request, list(self._appliance.blades))

    async def blade(self, request: web.Request) -> web.Response:
        blade = self._blade(request)
        used = len(blade.state.in_use()) * blade.layout.mib
        whole = blade.layout.channels * blade.layout.rows * blade.layout.mib
        return web.json_response(
            {
                "id": blade.layout.name,
                "totalMemoryAvailableMiB": whole - used,
                "totalMemoryAllocatedMiB": used,
                **{part: {"uri": f"{request.path}/{part}"} for part in ("resources", "ports", "memory")},
            }
        )

    async def resync(self, request: web.Request) -> web.Response:
        blade = self._blade(request)
        blade.remembered = None
        return web.json_response({"id": blade.layout.name})

    async def resources(self, request: web.Request) -> web.Response:
        return collection(request, list(self._blade(request).layout.block_names()))

    async def resource(self, request: web.Request) -> web.Response:
        blade, name = self._blade(request), request.match_info["resource"]
        place = blade.layout.block_names().get(name)
        if place is None:
            raise No(404, f"resource {name} not found")
        composed = name in blade.state.in_use()
        return web.json_response(
            {
                "id": name,
                "channelId": place[0],
                "channelResourceIndex": place[1],
                "capacityMiB": blade.layout.mib,
                "compositionStatus": {
                    "compositionState": "Composed" if composed else "Unused",
                    "maxCompositions": 1,
                    "numberOfCompositions": int(composed),
                },
            }
        )

    async def ports(self, request: web.Request) -> web.Response:
        return collection(request, self._blade(request).layout.port_names())

    async def port(self, request: web.Request) -> web.Response:
        blade, name = self._blade(request), request.match_info["port"]
        if name not in blade.layout.port_names():
            raise No(404, f"port {name} not found")
        used = any(c.port == name for c in blade.state.connections.values())
        return web.json_response({"id": name, "linkStatus": "LinkUp" if used else "LinkDown"})

    async def memories(self, request: web.Request) -> web.Response:
        return collection(request, list(listed(self._blade(request))))

    async def memory(self, request: web.Request) -> web.Response:
        blade, name = self._blade(request), request.match_info["memory"]
        if name not in listed(blade):
            raise No(404, f"memoryId {name} not found")
        return web.json_response(self._region(blade, name))

    async def compose_by_size(self, request: web.Request) -> web.Response:
        blade, body = self._blade(request), await fields(request)
        name = await self._appliance.compose_by_size(blade, int(body["memorysizemib"]), int(body.get("qos", 4)))
        return await self._composed(blade, name, body.get("port"))

    async def compose(self, request: web.Request) -> web.Response:
        blade, body = self._blade(request), await fields(request)
        name = await self._appliance.compose(blade, body["memoryresources"])
        return await self._composed(blade, name, body.get("port"))

    async def operate(self, request: web.Request) -> web.Response:
        blade, name, body = self._blade(request), request.match_info["memory"], await fields(request)
        if body.get("operation") == "assign":
            await self._appliance.assign(blade, name, body["port"])
        elif body.get("operation") == "unassign":
            await self._appliance.unassign(blade, name, body["port"])
        else:
            raise No(400, f"operation {body.get('operation')!r} is not assign or unassign")
        return web.json_response(self._region(blade, name))

    async def free(self, request: web.Request) -> web.Response:
        blade, name = self._blade(request), request.match_info["memory"]
        await self._appliance.free(blade, name)
        return web.json_response({"id": name})

    async def _composed(self, blade: Blade, name: str, port: str | None) -> web.Response:
        status = 201
        if port:
            try:
                await self._appliance.assign(blade, name, port)
            except No:
                if not self._appliance.quirks.partial_content:
                    await self._appliance.free(blade, name)
                    raise
                status = 206
        return web.json_response(self._region(blade, name), status=status)

    def _region(self, blade: Blade, name: str) -> dict[str, Any]:
        ports = [c.port for c in blade.state.connections.values() if c.memory == name]
        size = len(listed(blade)[name]) * blade.layout.mib
        return {
            "id": name,
            "status": "Composed",
            "type": "Region",
            "sizeMiB": size,
            "memoryApplianceId": self._appliance.name,
            "memoryBladeId": blade.layout.name,
            "memoryAppliancePort": ports[0] if ports else "",
        }

    def _known(self, request: web.Request) -> None:
        if request.match_info["appliance"] != self._appliance.name:
            raise No(404, f"appliance {request.match_info['appliance']} not found")

    def _blade(self, request: web.Request) -> Blade:
        self._known(request)
        return self._appliance.blade(request.match_info["blade"])


def listed(blade: Blade) -> dict[str, tuple[str, ...]]:
    """What CFM believes to be composed."""
    return (blade.remembered or {}) | blade.state.memories


def collection(request: web.Request, names: list[str]) -> web.Response:
    members = [{"uri": f"{request.path}/{name}"} for name in names]
    return web.json_response({"memberCount": len(members), "members": members})


async def fields(request: web.Request) -> dict[str, Any]:
    """Members of the body; Go reads their names in any case."""
    body = await request.json()
    if not isinstance(body, dict):
        raise No(400, "the body is not an object")
    return {key.lower(): value for key, value in body.items()}
