"""A blade through Redfish (DSP0268): resource blocks, memory chunks, and the connections of a fabric.

Chunks are composed by posting their resource blocks to /redfish/v1/Systems; a port is an endpoint of the blade's
fabric, and a Connection of type Memory ties a chunk to it. Collections are read with `$expand`, and member by member
from services that do not know it. That a connection is gone is read from the list of all that are there: a service
that has lost its way says 404 of a single one, too.
"""

from collections.abc import Collection, Mapping, Sequence
from time import monotonic
from typing import Any

from ballast_cxl.fabric.http import Service
from ballast_cxl.fabric.interface import Block, Declined, Inventory, Link, Memory
from ballast_cxl.fabric.shared import Shared

MIB = 1 << 20
ROOT = "/redfish/v1"
BLOCKS_SECONDS = 30.0  # that a list of blocks is good for: hardware, and the longest list of an appliance


class Hardware:
    """The resource blocks of one appliance, which lists those of all its blades at once. Blades share what was read."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reading = Shared(self._read)
        self._blocks: Mapping[str, list[Block]] = {}
        self._until = 0.0

    async def blocks(self, blade: str) -> Sequence[Block]:
        """Those of one blade, as they were lately."""
        if monotonic() >= self._until:
            await self._reading.lately()
        return self._blocks.get(f"{ROOT}/Chassis/{blade}", [])

    async def close(self) -> None:
        await self._service.close()

    async def _read(self) -> None:
        found: dict[str, list[Block]] = {}
        for block in await members(self._service, f"{ROOT}/CompositionService/ResourceBlocks"):
            for chassis in block["Links"]["Chassis"]:
                found.setdefault(chassis["@odata.id"], []).append(_block(block))
        self._blocks, self._until = found, monotonic() + BLOCKS_SECONDS


class Redfish:
    """One blade. blade: its Chassis, its Fabric and its memory domain bear this name."""

    def __init__(self, service: Service, blade: str, hardware: Hardware) -> None:
        self._service, self._blade, self._hardware = service, blade, hardware
        self._fabric = f"{ROOT}/Fabrics/{blade}"
        self._chunks = f"{ROOT}/Chassis/{blade}/MemoryDomains/CXL/MemoryChunks"
        self._memories, self._links = Shared(self._all_memories), Shared(self._all_links)

    async def look(self) -> Inventory:
        blocks = await self._hardware.blocks(self._blade)
        return Inventory(blocks, await self.memories(), await self.links())

    async def ids(self, numbers: Collection[int]) -> list[str]:
        return Inventory(await self._hardware.blocks(self._blade), [], []).ids(numbers)

    async def memories(self) -> Sequence[Memory]:
        return await self._memories.now()

    async def memory(self, name: str) -> Memory | None:
        try:
            chunk, _ = await self._service.call("look", "GET", f"{self._chunks}/{name}")
        except Declined as no:
            if no.status != 404:
                raise
            return None
        found = _memory(chunk)
        return found if found.id == name else None

    async def links(self) -> Sequence[Link]:
        return await self._links.now()

    async def compose(self, blocks: Sequence[str]) -> str | None:
        wanted = [{"@odata.id": f"{ROOT}/CompositionService/ResourceBlocks/{block}"} for block in blocks]
        body = {"Links": {"ResourceBlocks": wanted}}
        _, headers = await self._service.call("compose", "POST", f"{ROOT}/Systems", body)
        return last_part(headers["Location"]) if "Location" in headers else None

    async def assign(self, memory: str, port: str) -> None:
        body = {
            "ConnectionType": "Memory",
            "MemoryChunkInfo": [{"MemoryChunk": {"@odata.id": f"{self._chunks}/{memory}"}}],
            "Links": {"TargetEndpoints": [{"@odata.id": f"{self._fabric}/Endpoints/{port}"}]},
        }
        await self._service.call("assign", "POST", f"{self._fabric}/Connections", body)

    async def unassign(self, link: Link) -> None:
        await self._service.call("unassign", "DELETE", f"{self._fabric}/Connections/{link.id}")

    async def free(self, memory: str) -> None:
        await self._service.call("free", "DELETE", f"{self._chunks}/{memory}")

    async def close(self) -> None:
        await self._service.close()

    async def _all_memories(self) -> list[Memory]:
        return [_memory(chunk) for chunk in await members(self._service, self._chunks)]

    async def _all_links(self) -> list[Link]:
        return [_link(connection) for connection in await members(self._service, f"{self._fabric}/Connections")]


async def members(service: Service, path: str) -> list[Any]:
    """All of a collection, whole."""
    answer, _ = await service.call("look", "GET", f"{path}?$expand=.")
    found = []
    for member in answer["Members"]:
        if "Id" not in member:
            member, _ = await service.call("look", "GET", member["@odata.id"])
        found.append(member)
    return found


def _block(block: Any) -> Block:
    (module,) = block["Memory"]
    place = module["MemoryLocation"]
    return Block(block["Id"], place["Channel"], place["Slot"], module["CapacityMiB"] * MIB)


def _memory(chunk: Any) -> Memory:
    blocks = [last_part(member["Memory"]["@odata.id"]) for member in chunk["InterleaveSets"]]
    return Memory(chunk["Id"], frozenset(blocks))


def _link(connection: Any) -> Link:
    (info,) = connection["MemoryChunkInfo"]
    (endpoint,) = connection["Links"]["TargetEndpoints"]
    return Link(
        id=connection["Id"],
        memory=last_part(info["MemoryChunk"]["@odata.id"]),
        port=last_part(endpoint["@odata.id"]),
        serial=connection["Identifiers"][0]["DurableName"].lower().removeprefix("0x").replace("-", ""),
    )


def last_part(link: str) -> str:
    """The id that an @odata.id ends with."""
    return link.rstrip("/").rpartition("/")[2]
