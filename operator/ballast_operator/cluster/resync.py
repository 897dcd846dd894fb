"""Full lists, at the start and now and then, against watch events that never came.

A watch that was cut and began anew does not say what was deleted meanwhile; nor does one that has just been set up say
what went between our first list and its own. Comparing the cache with a list does.
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
            known = cache.all(watch.resource)
            before = [o for o in known if namespace is None or o["metadata"].get("namespace") == namespace]
            listed = await client.list(watch.resource, namespace, watch.selector)
            changed = cache.replace(before, listed)
            for obj in changed + listed if watch.always else changed:
                keys.update(watch.keys(obj))
    return keys
