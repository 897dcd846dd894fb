"""kopf's watches, wired to the cache and the queue. The only module that knows kopf.

kopf is used as an event source: `on.event` handlers that remember what they were shown and put a key on the queue. Its
other handlers would write finalizers and annotations onto users' objects and act on differences, which are a cache of
the past.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import kopf

from ballast_operator.cluster.cache import Cache
from ballast_operator.health import Health
from ballast_operator.objects import Key, Object
from ballast_operator.queue import Queue
from ballast_operator.watched import Watched

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def registry(watched: Sequence[Watched], cache: Cache, queue: Queue[Key], health: Health) -> Any:
    """Handlers for every resource that is watched."""
    handlers = kopf.OperatorRegistry()

    def watch(seen: Watched) -> None:
        resource = seen.resource

        @kopf.on.event(resource.group, resource.version, resource.plural, registry=handlers, id=resource.plural)
        async def _seen(event: Any, **_: Any) -> None:
            health.watched = health.watched or {}
            health.watched[resource.plural] = monotonic()
            obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind} | dict(event["object"])
            news = cache.drop(obj) if event["type"] == "DELETED" else cache.put(obj)
            for key in seen.keys(obj) if news else ():
                queue.add(key)

    for one in watched:
        watch(one)

    @kopf.on.login(registry=handlers)
    def _login(**kwargs: Any) -> Any:
        return service_account() or kopf.login_with_kubeconfig(**kwargs)

    return handlers


def service_account(folder: Path = SERVICE_ACCOUNT) -> kopf.ConnectionInfo | None:
    """The pod's own account, by the server's address: kopf's login goes by name, and so would need cluster DNS."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    token = folder / "token"
    if not host or not token.exists():
        return None
    address = f"[{host}]" if ":" in host else host
    return kopf.ConnectionInfo(
        server=f"https://{address}:{port}",
        ca_path=str(folder / "ca.crt"),
        scheme="Bearer",
        token=token.read_text().strip(),
    )


async def watch(
    watched: Sequence[Watched],
    cache: Cache,
    queue: Queue[Key],
    health: Health,
    namespaces: tuple[str, ...],
    stop: asyncio.Event,
) -> None:
    """Watch until `stop` is set. Raises what kopf cannot recover from."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # no rights on CustomResourceDefinitions or Namespaces are needed
    settings.posting.enabled = False
    settings.networking.error_backoffs = [0.1, 0.3, 0.5, 1, 1, 1, 2, 2, 2, 2] + [3] * 200  # ten minutes of outage
    settings.watching.reconnect_backoff = 0.1
    settings.networking.connect_timeout = 5
    for one in watched:
        if one.selector:
            resource = one.resource
            settings.watching.label_selectors[resource.group, resource.version, resource.plural] = one.selector
    await kopf.operator(
        registry=registry(watched, cache, queue, health),
        settings=settings,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )
