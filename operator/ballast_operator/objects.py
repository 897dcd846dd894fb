"""Kubernetes objects as plain dictionaries, and the few questions everybody asks of them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

Object = dict[str, Any]

# Every child carries these; the cache finds a child's owner by them, and watches are limited to objects that have them.
OWNER_KIND = "ballast.dev/owner-kind"
OWNER_NAME = "ballast.dev/owner-name"


class Key(NamedTuple):
    """Which object to bring right. The only thing an event carries."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Identity:
    """Name of one object of one kind in the cache."""

    api_version: str
    kind: str
    namespace: str
    name: str


def identity(obj: Mapping[str, Any]) -> Identity:
    meta = obj["metadata"]
    return Identity(obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])


def describe(obj: Mapping[str, Any]) -> str:
    """`ConfigMap team-a/leduc-strategy`, as messages name an object."""
    meta = obj["metadata"]
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj['kind']} {where}{meta['name']}"


def owner_key(obj: Mapping[str, Any]) -> Key | None:
    """Key of the object of ours that made this child, by its labels; None for anybody else's object."""
    labels = obj["metadata"].get("labels") or {}
    kind, name = labels.get(OWNER_KIND), labels.get(OWNER_NAME)
    return Key(kind, obj["metadata"].get("namespace", ""), name) if kind and name else None


def controller_uid(obj: Mapping[str, Any]) -> str | None:
    """Identity of the controlling owner, or None for an object that nobody controls."""
    for reference in obj["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def digest(value: Any) -> str:
    """Short digest of a JSON value; equal values have equal digests whatever their key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fingerprint(obj: Mapping[str, Any]) -> str:
    """Digest of all that people and controllers can set on an object: everything but status and bookkeeping.

    A Job that counts pods keeps its fingerprint; one whose `parallelism` somebody edited does not.
    """
    meta = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in ("resourceVersion", "managedFields", "generation", "selfLink")
    }
    body = {name: value for name, value in obj.items() if name not in ("status", "metadata")}
    return digest([meta, body])


def project(obj: Any, shape: Any) -> Any:
    """The part of an object that `shape` speaks of, as the server has it: defaults and other people's fields left out.

    Quantities keep the form that the server gave them, so two projections of stored objects can be compared, while a
    stored object and what was asked for cannot.
    """
    if isinstance(shape, dict):
        found = obj if isinstance(obj, dict) else {}
        return {name: project(found.get(name), member) for name, member in shape.items()}
    if isinstance(shape, list) and isinstance(obj, list) and len(obj) == len(shape):
        return [project(*pair) for pair in zip(obj, shape, strict=True)]
    return obj


def parse_time(text: str) -> datetime:
    """RFC 3339 as the API server writes it, to an aware datetime."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def format_time(moment: datetime) -> str:
    """An aware datetime as RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
