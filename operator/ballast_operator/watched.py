"""What a process watches, and whom to look after when it changes. The core knows this shape and no kind."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ballast_operator.kind import Kind
from ballast_operator.objects import OWNER_KIND, Key, Object, owner_key
from ballast_operator.resources import Resource


@dataclass(frozen=True)
class Watched:
    """One resource. keys: what to look after when an object of it changes; selector: labels that objects must have;
    always: whether a full list asks for all of them, or only for those that the watch had missed.
    """

    resource: Resource
    keys: Callable[[Object], Iterable[Key]]
    selector: str = ""
    always: bool = False


def own_key(obj: Object) -> list[Key]:
    """The object itself."""
    return [Key(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])]


def children_of(kinds: Mapping[str, Kind[Any]]) -> list[Resource]:
    """Every resource that some kind has as a child, once."""
    return list(dict.fromkeys(child for kind in kinds.values() for child in kind.children))


def of_kinds(kinds: Mapping[str, Kind[Any]]) -> list[Watched]:
    """Every kind, after every resource that is a child of one: owners come when their children are known."""

    def owner(obj: Object) -> list[Key]:
        key = owner_key(obj)
        return [key] if key and key.kind in kinds else []

    return [
        *(Watched(child, owner, OWNER_KIND) for child in children_of(kinds)),
        *(Watched(kind.resource, own_key, always=True) for kind in kinds.values()),
    ]
