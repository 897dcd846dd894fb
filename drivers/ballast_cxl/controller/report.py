"""Write a status if it says anything new, and tell people what changed in it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import STATUS_MANAGER, Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.cluster.recorder import Recorder
from ballast_operator.kind import Notice
from ballast_operator.metrics import CONDITION
from ballast_operator.objects import Key, Object, digest

GOOD = ("Ready", "Composed", "Published", "Publishing", "Allocated", "NotAllocated", "Healthy")
ON_ITS_WAY = ("Reserved", "Composing", "Deleting", "Draining", "Detaching", "Scrubbing")


@dataclass
class Reporter:
    """Statuses and Events of one kind."""

    client: Client
    cache: Cache
    clock: Callable[[], datetime]
    _left: dict[Key, tuple[str, Object]] = field(default_factory=dict)  # digest of ours, and as it was stored

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.client)

    async def report(self, obj: Object, status: Object) -> None:
        """Store the status, and an Event for each condition that has a new reason."""
        meta, previous = obj["metadata"], obj.get("status") or {}
        key = Key(obj["kind"], meta["namespace"], meta["name"])
        if status == previous or self._left.get(key) == (digest(status), previous):
            return
        named = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
        body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": named, "status": status}
        try:
            stored = await self.client.apply(body, subresource="status", manager=STATUS_MANAGER)
        except ApiError as error:
            if error.not_found or error.conflict:  # deleted, or another one of this name
                return
            raise
        self._left[key] = (digest(status), stored.get("status") or {})
        self.cache.put(stored)
        for condition in status["conditions"]:
            CONDITION.labels(key.kind, key.namespace, key.name, condition["type"]).set(condition["status"] == "True")
        for notice in notices(previous, status):
            await self.recorder.tell(obj, notice, self.clock())

    def forget(self, key: Key) -> None:
        """Drop what is remembered of an object that is gone."""
        _, status = self._left.pop(key, ("", {}))
        for condition in status.get("conditions", []):
            CONDITION.remove(key.kind, key.namespace, key.name, condition["type"])


def notices(previous: Object, status: Object) -> list[Notice]:
    """What people should be told: why it is (not) ready, and what is wrong with it, whenever that changes."""
    before = {c["type"]: c["reason"] for c in previous.get("conditions", [])}
    return [
        Notice(condition["reason"], condition["message"], warning=condition["reason"] not in (*GOOD, *ON_ITS_WAY))
        for condition in status["conditions"]
        if condition["type"] in ("Ready", "Degraded")
        and before.get(condition["type"]) != condition["reason"]
        and condition["reason"] not in ("Healthy", *ON_ITS_WAY)
    ]
