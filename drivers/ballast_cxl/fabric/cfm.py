"""A blade through Seagate's Composable Fabric Manager (OpenAPI 1.7.0), with Redfish to see what came of it.

CFM composes and frees by its own rules, but does not tell which blocks a memory has or which ports it is connected to,
takes the first connection for the only one, and matches ids by parts. So blocks are named when composing (PUT), never a
port with them (a compose whose port fails is a leak, 206), ports are assigned and cut off one by one, and everything is
looked up in Redfish, by whole ids.
"""

from collections.abc import Collection, Sequence

from ballast_cxl.fabric.http import Service
from ballast_cxl.fabric.interface import Declined, Inventory, Link, Memory, link_of
from ballast_cxl.fabric.redfish import Redfish


class Cfm:
    """One blade of one appliance."""

    def __init__(self, service: Service, appliance: str, blade: str, truth: Redfish) -> None:
        self._service, self._truth = service, truth
        self._memory = f"/cfm/v1/appliances/{appliance}/blades/{blade}/memory"

    async def look(self) -> Inventory:
        return await self._truth.look()

    async def ids(self, numbers: Collection[int]) -> list[str]:
        return await self._truth.ids(numbers)

    async def memories(self) -> Sequence[Memory]:
        return await self._truth.memories()

    async def memory(self, name: str) -> Memory | None:
        return await self._truth.memory(name)

    async def links(self) -> Sequence[Link]:
        return await self._truth.links()

    async def compose(self, blocks: Sequence[str]) -> str | None:
        answer, _ = await self._service.call("compose", "PUT", self._memory, {"memoryResources": list(blocks)})
        return str(answer["id"]) if isinstance(answer, dict) and "id" in answer else None

    async def assign(self, memory: str, port: str) -> None:
        await self._operate(memory, port, "assign")

    async def unassign(self, link: Link) -> None:
        """By CFM, and where its first connection was not the one that was meant, by Redfish."""
        try:
            await self._operate(link.memory, link.port, "unassign")
        except Declined:
            still = link_of(await self._truth.links(), link.memory, link.port)
            if still is None:
                raise
            await self._truth.unassign(still)

    async def free(self, memory: str) -> None:
        await self._service.call("free", "DELETE", f"{self._memory}/{memory}")

    async def close(self) -> None:
        await self._service.close()
        await self._truth.close()

    async def _operate(self, memory: str, port: str, operation: str) -> None:
        body = {"Port": port, "Operation": operation}
        await self._service.call(operation, "PATCH", f"{self._memory}/{memory}", body)
