"""Bring an owner's children to what they should be: apply what differs, remove what is no longer wanted.

Server-side apply is idempotent, but not free, and quiet is a promise: an object that already is as we last left it is
skipped. What we remember is the digest of what we asked for and of what the server made of just those fields; if either
differs, we apply again. What other controllers add to the object does not count. After a restart everything is applied
once, and the server finds nothing to change.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ChildConflict
from ballast_operator.objects import (
    Identity,
    Key,
    Object,
    controller_uid,
    describe,
    digest,
    identity,
    project,
)
from ballast_operator.resources import Resource, resource_of

log = logging.getLogger(__name__)


class Result(StrEnum):
    """What an apply came to."""

    CREATED = "created"
    CORRECTED = "corrected"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    REMOVED = "removed"


@dataclass(frozen=True)
class Change:
    """One thing that was done to one child."""

    result: Result
    child: str


@dataclass
class _Left:
    """How we left a child: digests of what we asked for, and of those fields as the server stored them."""

    wanted: str
    found: str


@dataclass
class Applier:
    """Applies and prunes the children of one owner at a time; shared by all workers."""

    client: Client
    cache: Cache
    _left: dict[Identity, _Left] = field(default_factory=dict)
    _made: dict[Key, set[Identity]] = field(default_factory=dict)

    async def converge(self, owner: Object, key: Key, want: Sequence[Object]) -> list[Change]:
        """Apply `want` in order. Raises ChildConflict for a name that somebody else's object has."""
        return [await self._bring(owner, key, obj) for obj in want]

    async def prune(
        self, key: Key, owner: Object, want: Iterable[Object], removable: Sequence[Resource]
    ) -> list[Change]:
        """Delete the owner's children that are not wanted; their own children go first (no second writer ever)."""
        wanted = {identity(obj) for obj in want}
        changes = []
        for child in self.cache.children(key):
            if identity(child) in wanted or child["metadata"].get("deletionTimestamp"):
                continue
            if controller_uid(child) != owner["metadata"]["uid"]:
                continue
            resource = next((r for r in removable if (r.api_version, r.kind) == _kind(child)), None)
            if resource and await self.client.delete(resource, child, propagation="Foreground"):
                changes.append(Change(Result.REMOVED, describe(child)))
        return changes

    def forget(self, key: Key) -> None:
        """Drop what is remembered for an owner that is gone."""
        for name in self._made.pop(key, set()):
            self._left.pop(name, None)

    async def _bring(self, owner: Object, key: Key, obj: Object) -> Change:
        name, wanted = identity(obj), digest(obj)
        live = self.cache.get(resource_of(obj), name.namespace, name.name)
        left = self._left.get(name)
        same = left is not None and left.wanted == wanted
        if live and left and same and left.found == digest(project(live, obj)):
            return Change(Result.SKIPPED, describe(obj))
        if live is None:  # never take over what the watch does not show us: it may be somebody's, or our own, unseen
            live = await self.client.get(resource_of(obj), name.namespace, name.name)
        _refuse_others(owner, obj, live)
        stored = await self.client.apply(obj)
        found = digest(project(stored, obj))
        self._left[name] = _Left(wanted, found)
        self._made.setdefault(key, set()).add(name)
        self.cache.put(stored)
        if live is None:
            return Change(Result.CREATED, describe(obj))
        changed = Result.CORRECTED if same else Result.CHANGED
        return Change(changed if digest(project(live, obj)) != found else Result.UNCHANGED, describe(obj))


def _refuse_others(owner: Object, obj: Object, live: Object | None) -> None:
    if live is None:
        return
    if live["metadata"].get("deletionTimestamp"):
        raise ChildConflict(f"{describe(obj)} is still being deleted; waiting until it is gone")
    if controller_uid(live) == owner["metadata"]["uid"]:
        return
    if _of_a_namesake(owner, live):
        raise ChildConflict(
            f"{describe(obj)} belongs to an earlier {describe(owner)}, which was deleted; waiting until it is gone too"
        )
    raise ChildConflict(
        f"{describe(obj)} exists and does not belong to this object; delete or rename it, or use another name here"
    )


def _of_a_namesake(owner: Object, live: Object) -> bool:
    """Whether the garbage collector is about to delete it: its owner had the name of this one, and is no more."""
    return any(
        reference.get("controller")
        and (reference["kind"], reference["name"]) == (owner["kind"], owner["metadata"]["name"])
        for reference in live["metadata"].get("ownerReferences") or []
    )


def _kind(obj: Object) -> tuple[str, str]:
    return obj["apiVersion"], obj["kind"]
