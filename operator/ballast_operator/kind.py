"""What a kind has to say so that the one loop can reconcile it. The core knows this shape and no kind."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from ballast_operator.objects import Object
from ballast_operator.resources import Resource

M = TypeVar("M")


@dataclass(frozen=True)
class Children:
    """The objects that were made for one owner, as last seen. All questions are answered from memory."""

    objects: Sequence[Object] = ()

    def all(self, kind: str) -> list[Object]:
        """All of one kind, oldest first."""
        found = [obj for obj in self.objects if obj["kind"] == kind]
        return sorted(found, key=lambda obj: (obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]))

    def get(self, kind: str, name: str) -> Object | None:
        return next((o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name), None)


@dataclass(frozen=True)
class Trouble:
    """Why the children could not be brought to what they should be. reason: a word of the API's closed list."""

    reason: str
    message: str


@dataclass(frozen=True)
class Need:
    """An object of the user's that a child will use, and the field that names it; key: an entry it must have.

    there: the object was found, so that only its entry is missing."""

    resource: Resource
    name: str
    field: str
    key: str | None = None
    there: bool = False

    def met_by(self, found: Object | None) -> bool:
        """Whether the object is there, with its entry."""
        if found is None:
            return False
        return self.key is None or self.key in (found.get("data") or {}) or self.key in (found.get("binaryData") or {})

    def missing_from(self, namespace: str) -> str:
        """What is not there, and what to do about it, for a status: a sentence without its end."""
        lack = "does not exist; create it" + (f" with key {self.key}" if self.key else "")
        if self.there:
            lack = f"has no key {self.key}; add it"
        return f"{self.resource.kind} {namespace}/{self.name}, named by {self.field}, {lack}"


@dataclass(frozen=True)
class Situation(Generic[M]):
    """All that a status is computed from.

    model: the object, or None if its spec cannot be read; previous: the status as last written; faults: what is wrong
    with the spec; trouble: what the API server refused; missing: needs that nothing meets; complaint: the last warning
    about a child that says nothing itself; reported: what the workload said of itself, if it was asked; gathered:
    answers of the pods that were asked, by URL, None for one that did not answer; around: other people's objects in
    the namespace that bear on this one; remembered: what the last observation wanted remembered, None after a restart.
    """

    model: M | None
    children: Children
    previous: Object
    generation: int
    now: datetime
    faults: Sequence[str] = ()
    trouble: Trouble | None = None
    missing: Sequence[Need] = ()
    complaint: str | None = None
    reported: Any | None = None
    gathered: Mapping[str, Any] = field(default_factory=dict)
    around: Sequence[Object] = ()
    remembered: Any | None = None


@dataclass(frozen=True)
class Notice:
    """Something worth telling. warning: shown as Warning, else Normal."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True)
class Observation:
    """The status to store, when to look again, and whether the object's time is up.

    again: seconds, or None to wait for a change; expired: the object asked to be deleted at this time; replicas: what
    to write to the object's /scale, or None to leave it; scaled: what to tell once that is written; remember: what the
    next observation is given.
    """

    status: Object
    again: float | None = None
    expired: bool = False
    replicas: int | None = None
    scaled: Notice | None = None
    remember: Any | None = None


@dataclass(frozen=True)
class Probe:
    """Where a workload reports on itself, how often to ask (seconds), and what an answer (of so many bytes) means."""

    url: str
    period: float
    read: Callable[[bytes], Any] = json.loads
    largest: int = 65536


@dataclass(frozen=True)
class Kind(Generic[M]):
    """One kind of ours.

    desired: the children it should have, or None to leave them as they are; observe: its status; both pure.
    children: what to watch; removable: what to delete when it is no longer wanted; alone: a child that is made only
    when, by a fresh list, no pod of the owner can still be running, so that there is one writer of its state; needs:
    objects of the user's to look for while nothing runs; silent: a child that does not go on and does not say why, so
    that its warnings are read; probe: where the workload can be asked how far it is; probes: the same for a kind with
    several pods to ask; around: other people's resources that bear on the object.
    """

    resource: Resource
    model: type[M]
    children: Sequence[Resource]
    removable: Sequence[Resource]
    desired: Callable[[M, Children], list[Object] | None]
    observe: Callable[[Situation[M]], Observation]
    needs: Callable[[M, Children], list[Need]]
    silent: Callable[[Children], Object | None]
    probe: Callable[[Children], Probe | None]
    alone: Resource | None = None
    probes: Callable[[M, Children], list[Probe]] = lambda _model, _children: []
    around: Callable[[M], list[Resource]] = lambda _model: []
