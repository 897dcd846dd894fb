"""The paths of Redfish that a composer needs: resource blocks, memory chunks, connections."""

from typing import Any

from aiohttp import web

from ballast_cxl.emulator.appliance import Appliance, Blade, No

ROOT = "/redfish/v1"
BLOCKS = f"{ROOT}/CompositionService/ResourceBlocks"
CHUNKS = f"{ROOT}/Chassis/{{blade}}/MemoryDomains/CXL/MemoryChunks"
FABRIC = f"{ROOT}/Fabrics/{{blade}}"


class RedfishApi:
    """South side of one appliance."""

    def __init__(self, appliance: Appliance) -> None:
        self._appliance = appliance

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(BLOCKS, self.blocks),
            web.get(f"{BLOCKS}/{{block}}", self.block),
            web.post(f"{ROOT}/Systems", self.compose),
            web.get(CHUNKS, self.chunks),
            web.get(f"{CHUNKS}/{{chunk}}", self.chunk),
            web.delete(f"{CHUNKS}/{{chunk}}", self.free),
            web.get(f"{FABRIC}/Endpoints", self.endpoints),
            web.get(f"{FABRIC}/Connections", self.connections),
            web.get(f"{FABRIC}/Connections/{{connection}}", self.connection),
            web.post(f"{FABRIC}/Connections", self.connect),
            web.delete(f"{FABRIC}/Connections/{{connection}}", self.cut),
        ]

    async def blocks(self, request: web.Request) -> web.Response:
        found = []
        for blade in self._appliance.blades.values():
            used = blade.state.in_use()
            found += [self._block(blade, name, used) for name in blade.layout.block_names()]
        return collection(request, BLOCKS, found)

    async def block(self, request: web.Request) -> web.Response:
        blade = self._holding(request.match_info["block"])
        return web.json_response(self._block(blade, request.match_info["block"], blade.state.in_use()))

    async def compose(self, request: web.Request) -> web.Response:
        body = await request.json()
        names = [link["@odata.id"].rpartition("/")[2] for link in body["Links"]["ResourceBlocks"]]
        if not names:
            raise No(400, "Links.ResourceBlocks is empty")
        blade = self._holding(names[0])
        chunk = await self._appliance.compose(blade, names)
        return created(self._chunk(blade, chunk))

    async def chunks(self, request: web.Request) -> web.Response:
        blade = self._blade(request)
        return collection(request, request.path, [self._chunk(blade, name) for name in blade.state.memories])

    async def chunk(self, request: web.Request) -> web.Response:
        blade, name = self._blade(request), request.match_info["chunk"]
        if name not in blade.state.memories:
            raise No(404, f"memory chunk {name} not found")
        return web.json_response(self._chunk(blade, name))

    async def free(self, request: web.Request) -> web.Response:
        blade, name = self._blade(request), request.match_info["chunk"]
        if any(c.memory == name for c in blade.state.connections.values()):
            raise No(409, f"memory chunk {name} is connected")
        await self._appliance.free(blade, name)
        return web.Response(status=204)

    async def endpoints(self, request: web.Request) -> web.Response:
        blade = self._blade(request)
        return collection(request, request.path, [{"Id": name} for name in blade.layout.port_names()])

    async def connections(self, request: web.Request) -> web.Response:
        blade = self._blade(request)
        return collection(request, request.path, [self._connection(blade, name) for name in blade.state.connections])

    async def connection(self, request: web.Request) -> web.Response:
        blade, name = self._blade(request), request.match_info["connection"]
        if name not in blade.state.connections:
            raise No(404, f"connection {name} not found")
        return web.json_response(self._connection(blade, name))

    async def connect(self, request: web.Request) -> web.Response:
        blade, body = self._blade(request), await request.json()
        (info,), (endpoint,) = body["MemoryChunkInfo"], body["Links"]["TargetEndpoints"]
        chunk, port = (link["@odata.id"].rpartition("/")[2] for link in (info["MemoryChunk"], endpoint))
        name = await self._appliance.assign(blade, chunk, port)
        return created(self._connection(blade, name))

    async def cut(self, request: web.Request) -> web.Response:
        await self._appliance.cut(self._blade(request), request.match_info["connection"])
        return web.Response(status=204)

    def _block(self, blade: Blade, name: str, used: set[str]) -> dict[str, Any]:
        channel, row = blade.layout.block_names()[name]
        composed = name in used
        return {
            "@odata.id": f"{BLOCKS}/{name}",
            "Id": name,
            "ResourceBlockType": ["Memory"],
            "CompositionStatus": {"CompositionState": "Composed" if composed else "Unused", "Reserved": False},
            "Memory": [{"CapacityMiB": blade.layout.mib, "MemoryLocation": {"Channel": channel, "Slot": row}}],
            "Links": {"Chassis": [{"@odata.id": f"{ROOT}/Chassis/{blade.layout.name}"}]},
        }

    def _chunk(self, blade: Blade, name: str) -> dict[str, Any]:
        blocks = blade.state.memories[name]
        return {
            "@odata.id": f"{CHUNKS.format(blade=blade.layout.name)}/{name}",
            "Id": name,
            "AddressRangeType": "Volatile",
            "MemoryChunkSizeMiB": len(blocks) * blade.layout.mib,
            "InterleaveSets": [{"Memory": {"@odata.id": f"{BLOCKS}/{block}"}} for block in blocks],
        }

    def _connection(self, blade: Blade, name: str) -> dict[str, Any]:
        found = blade.state.connections[name]
        fabric = FABRIC.format(blade=blade.layout.name)
        chunk = f"{CHUNKS.format(blade=blade.layout.name)}/{found.memory}"
        return {
            "@odata.id": f"{fabric}/Connections/{name}",
            "Id": name,
            "ConnectionType": "Memory",
            "MemoryChunkInfo": [{"AccessCapabilities": ["Read", "Write"], "MemoryChunk": {"@odata.id": chunk}}],
            "Links": {"TargetEndpoints": [{"@odata.id": f"{fabric}/Endpoints/{found.port}"}]},
            "Identifiers": [{"DurableNameFormat": "EUI", "DurableName": f"0x{found.serial}"}],
        }

    def _blade(self, request: web.Request) -> Blade:
        return self._appliance.blade(request.match_info["blade"])

    def _holding(self, block: str) -> Blade:
        for blade in self._appliance.blades.values():
            if block in blade.layout.block_names():
                return blade
        raise No(404, f"resource block {block} not found")


def collection(request: web.Request, path: str, members: list[dict[str, Any]]) -> web.Response:
    """Members whole with $expand, else links to them."""
    shown = members if "$expand" in request.query else [{"@odata.id": f"{path}/{m['Id']}"} for m in members]
    return web.json_response({"@odata.id": path, "Members@odata.count": len(members), "Members": shown})


def created(body: dict[str, Any]) -> web.Response:
    return web.json_response(body, status=201, headers={"Location": body["@odata.id"]})
