"""Other people's objects in a namespace, listed now and then: no watch shows us what does not carry our labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from ballast_operator.cluster.client import Client
from ballast_operator.objects import Object
from ballast_operator.resources import Resource

PERIOD_SECONDS = 10.0


@dataclass
class Surroundings:
    """Lists of namespaces, each at most so many seconds old, shared by all objects of a namespace."""

    client: Client
    _seen: dict[tuple[Resource, str], tuple[float, list[Object]]] = field(default_factory=dict)

    async def look(self, resources: Sequence[Resource], namespace: str) -> list[Object]:
        """Every object of these resources in the namespace."""
        found: list[Object] = []
        for resource in resources:
            found += await self._list(resource, namespace)
        return found

    async def _list(self, resource: Resource, namespace: str) -> list[Object]:
        when, known = self._seen.get((resource, namespace), (float("-inf"), []))
        if monotonic() - when < PERIOD_SECONDS:
            return known
        if len(self._seen) > 1_000:
            self._seen.clear()
        listed = await self.client.list(resource, namespace)
        self._seen[resource, namespace] = (monotonic(), listed)
        return listed
