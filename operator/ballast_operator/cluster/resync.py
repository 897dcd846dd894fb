"""Full lists, at the start and now and then, against watch events that never came.

A watch that was cut and began anew does not say what was deleted meanwhile. Comparing the cache with a list does.
"""

from collections.abc import Iterable, Sequence

from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import Client
from ballast_operator.objects import OWNER_KIND, Key, owner_key
from ballast_operator.resources import Resource


async def resync(
    client: Client, cache: Cache, owners: Sequence[Resource], children: Iterable[Resource], namespaces: Sequence[str]
) -> set[Key]:
    """List everything into the cache; returns the keys of all owners, and of children whose owner is not known."""
    keys: set[Key] = set()
    for namespace in namespaces or [None]:  # type: ignore[list-item]
        for child in children:
            for changed in cache.replace(child, namespace, await client.list(child, namespace, OWNER_KIND)):
                if owner := owner_key(changed):
                    keys.add(owner)
        for resource in owners:
            listed = await client.list(resource, namespace)
            for obj in cache.replace(resource, namespace, listed) + listed:
                keys.add(Key(resource.kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
    return keys
