"""kopf's watches, wired to the cache and the queue. The only module that knows kopf.

kopf is used as an event source: `on.event` handlers that remember what they were shown and put a key on the queue. Its
other handlers would write finalizers and annotations onto users' objects and act on differences, which are a cache of
the past.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import kopf

from ballast_operator.health import Health
from ballast_operator.kind import Kind
from ballast_operator.objects import OWNER_KIND, Key, Object, owner_key
from ballast_operator.queue import Queue
from ballast_operator.reconciler import Reconciler
from ballast_operator.resources import Resource

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def registry(kinds: Mapping[str, Kind[Any]], core: Reconciler, queue: Queue[Key], health: Health) -> Any:
    """Handlers for every kind and every resource that is a child of one."""
    handlers = kopf.OperatorRegistry()

    def watch(resource: Resource, owned: bool) -> None:
        @kopf.on.event(resource.group, resource.version, resource.plural, registry=handlers, id=resource.plural)
        async def _seen(event: Any, **_: Any) -> None:
            health.watched = health.watched or {}
            health.watched[resource.plural] = monotonic()
            obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind} | dict(event["object"])
            news = core.cache.drop(obj) if event["type"] == "DELETED" else core.cache.put(obj)
            key = owner_key(obj) if owned else Key(resource.kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
            if news and key and key.kind in kinds:
                queue.add(key)

    for kind in kinds.values():
        watch(kind.resource, owned=False)
    for child in children_of(kinds):
        watch(child, owned=True)

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


def children_of(kinds: Mapping[str, Kind[Any]]) -> list[Resource]:
    """Every resource that some kind has as a child, once."""
    return list(dict.fromkeys(child for kind in kinds.values() for child in kind.children))


async def watch(
    kinds: Mapping[str, Kind[Any]],
    core: Reconciler,
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
    for child in children_of(kinds):
        settings.watching.label_selectors[child.group, child.version, child.plural] = OWNER_KIND
    await kopf.operator(
        registry=registry(kinds, core, queue, health),
        settings=settings,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )
