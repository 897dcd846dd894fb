"""What the watches said last: owners by key, children by their owner's labels.

A cache is a copy of the past. It is right most of the time, so it decides when nothing needs doing; before anything
that could harm (making a second writer, taking over an object) the reconciler asks the server itself. `replace`, fed
by a full list now and then, takes out what a watch forgot to mention.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ballast_operator.objects import Identity, Key, Object, fingerprint, identity, owner_key
from ballast_operator.resources import Resource

_UNKNOWN = 2**63
MOST_GONE = 10_000  # deleted objects whose late news is known to be late


@dataclass
class Cache:
    """Objects by identity, and which of them belong to which owner."""

    _objects: dict[Identity, Object] = field(default_factory=dict)
    _children: dict[Key, set[Identity]] = field(default_factory=dict)
    _kinds: dict[tuple[str, str], dict[Identity, None]] = field(default_factory=dict)
    _gone: dict[str, int] = field(default_factory=dict)  # versions of deletions, by uid

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, obj: Object) -> bool:
        """Remember an object; True if it tells something new. An older version than the one known, or than its
        deletion, is not news: answers and watch events overtake one another."""
        if _version(obj) <= self._gone.get(obj["metadata"].get("uid", ""), -1):
            return False
        known = self._objects.get(identity(obj))
        if known is not None:
            if known["metadata"].get("uid") == obj["metadata"].get("uid") and _version(obj) <= _version(known):
                return False
            self._forget(known)
        lean = _lean(obj)
        self._objects[identity(obj)] = lean
        self._kinds.setdefault((lean["apiVersion"], lean["kind"]), {})[identity(lean)] = None
        if owner := owner_key(lean):
            self._children.setdefault(owner, set()).add(identity(lean))
        return known is None or _differs(known, lean)

    def drop(self, obj: Object) -> bool:
        """Forget an object that is gone; not a younger namesake of it. True if it was known."""
        if (uid := obj["metadata"].get("uid")) and (version := _version(obj)) < _UNKNOWN:
            self._gone[uid] = version
            if len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]
        known = self._objects.get(identity(obj))
        if known is None or known["metadata"].get("uid") != obj["metadata"].get("uid"):
            return False
        self._forget(known)
        return True

    def replace(self, before: Collection[Object], listed: Iterable[Object]) -> list[Object]:
        """Make the cache agree with a full list; returns what changed by it, missing ones included.

        before: what was known when the list was asked for. What came since is younger than the list and stays.
        """
        current = {identity(obj): obj for obj in listed}
        changed = [obj for obj in current.values() if self.put(obj)]
        for known in before:
            now = self._objects.get(identity(known))
            same = now is not None and now["metadata"].get("uid") == known["metadata"].get("uid")
            if same and identity(known) not in current:
                self._forget(known)
                changed.append(known)
        return changed

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects.get(Identity(resource.api_version, resource.kind, namespace, name))

    def all(self, resource: Resource) -> list[Object]:
        """Every object of one resource that is known."""
        return [self._objects[name] for name in self._kinds.get((resource.api_version, resource.kind), ())]

    def children(self, owner: Key) -> list[Object]:
        """Everything labelled as made for this owner, in a stable order."""
        names = self._children.get(owner, ())
        return [self._objects[name] for name in sorted(names, key=lambda n: (n.kind, n.name))]

    def _forget(self, obj: Object) -> None:
        name = identity(obj)
        self._objects.pop(name, None)
        self._kinds.get((name.api_version, name.kind), {}).pop(name, None)
        if (owner := owner_key(obj)) and (names := self._children.get(owner)):
            names.discard(name)
            if not names:
                del self._children[owner]


def _version(obj: Object) -> int:
    """Resource versions of one resource are ordered numbers (KEP-5504); anything else counts as new."""
    text = str(obj["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdigit() else _UNKNOWN


def _lean(obj: Object) -> Object:
    """Without `managedFields`, which make up most of an object and which nothing here reads."""
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": meta}


def _differs(old: Object, new: Object) -> bool:
    return fingerprint(old) != fingerprint(new) or old.get("status") != new.get("status")
