"""A blade through Redfish (DSP0268): resource blocks, memory chunks, and the connections of a fabric.

Chunks are composed by posting their resource blocks to /redfish/v1/Systems; a port is an endpoint of the blade's
fabric, and a Connection of type Memory ties a chunk to it. Collections are read with `$expand`, and member by member
from services that do not know it.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Any

from ballast_cxl.fabric.http import Service
from ballast_cxl.fabric.interface import Block, Declined, Inventory, Link, Memory

MIB = 1 << 20
ROOT = "/redfish/v1"
BLOCKS_SECONDS = 30.0  # that a list of blocks is good for: hardware, and the longest list of an appliance


class Redfish:
    """One blade. blade: its Chassis, its Fabric and its memory domain bear this name."""

    def __init__(self, service: Service, blade: str) -> None:
        self._service, self._blade = service, blade
        self._fabric = f"{ROOT}/Fabrics/{blade}"
        self._chunks = f"{ROOT}/Chassis/{blade}/MemoryDomains/CXL/MemoryChunks"
        self._blocks: list[Block] = []
        self._blocks_until = 0.0

    async def look(self) -> Inventory:
        """Memories and connections as they are now, of blocks as they were lately."""
        if monotonic() >= self._blocks_until:
            self._blocks, self._blocks_until = await self._all_blocks(), monotonic() + BLOCKS_SECONDS
        chunks = await self._members(self._chunks)
        connections = await self._members(f"{self._fabric}/Connections")
        return Inventory(
            blocks=self._blocks,
            memories=[_memory(chunk) for chunk in chunks],
            links=[_link(connection) for connection in connections],
        )

    async def _all_blocks(self) -> list[Block]:
        """Those of this blade; the service lists the whole appliance's."""
        blocks = await self._members(f"{ROOT}/CompositionService/ResourceBlocks")
        chassis = f"{ROOT}/Chassis/{self._blade}"
        return [_block(b) for b in blocks if chassis in [link["@odata.id"] for link in b["Links"]["Chassis"]]]

    async def compose(self, blocks: Sequence[str]) -> None:
        wanted = [{"@odata.id": f"{ROOT}/CompositionService/ResourceBlocks/{block}"} for block in blocks]
        await self._service.call("compose", "POST", f"{ROOT}/Systems", {"Links": {"ResourceBlocks": wanted}})

    async def assign(self, memory: str, port: str) -> None:
        body = {
            "ConnectionType": "Memory",
            "MemoryChunkInfo": [{"MemoryChunk": {"@odata.id": f"{self._chunks}/{memory}"}}],
            "Links": {"TargetEndpoints": [{"@odata.id": f"{self._fabric}/Endpoints/{port}"}]},
        }
        await self._service.call("assign", "POST", f"{self._fabric}/Connections", body)

    async def unassign(self, memory: str, port: str) -> None:
        link = (await self.look()).link(memory, port)
        if link is None:
            raise Declined(404, f"memory {memory} is not connected to port {port}; there is nothing to cut off")
        await self.cut(link)

    async def cut(self, link: Link) -> None:
        """Remove exactly this connection."""
        await self._service.call("unassign", "DELETE", f"{self._fabric}/Connections/{link.id}")

    async def free(self, memory: str) -> None:
        await self._service.call("free", "DELETE", f"{self._chunks}/{memory}")

    async def close(self) -> None:
        await self._service.close()

    async def _members(self, path: str) -> list[Any]:
        answer, _ = await self._service.call("look", "GET", f"{path}?$expand=.")
        found = []
        for member in answer["Members"]:
            if "Id" not in member:
                member, _ = await self._service.call("look", "GET", member["@odata.id"])
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
