"""Full lists, at the start and now and then, against watch events that never came.

A watch that was cut and began anew does not say what was deleted meanwhile. Comparing the cache with a list does.
"""

from collections.abc import Iterable, Sequence

from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import Client
from ballast_operator.objects import Key
from ballast_operator.watched import Watched


async def resync(client: Client, cache: Cache, watched: Iterable[Watched], namespaces: Sequence[str]) -> set[Key]:
    """List everything into the cache; returns the keys to look after."""
    keys: set[Key] = set()
    for namespace in namespaces or [None]:  # type: ignore[list-item]
        for watch in watched:
            listed = await client.list(watch.resource, namespace, watch.selector)
            changed = cache.replace(watch.resource, namespace, listed)
            for obj in changed + listed if watch.always else changed:
                keys.update(watch.keys(obj))
    return keys
