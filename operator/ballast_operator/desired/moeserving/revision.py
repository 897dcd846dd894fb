"""Revisions of a role's pods: rendered once, and kept until the spec asks for something else.

A revision is named by a digest of the part of the spec that pods are made from, so the same spec always finds the same
one, and A, B, A ends in A's. What was rendered lies in a ControllerRevision, whose data the API server keeps as they
are: a newer operator with other images, or other ideas of a pod, finds it and rolls nothing.
"""

from collections.abc import Callable, Mapping

from pydantic import BaseModel

from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.parts import REVISION, Part
from ballast_operator.kind import Children
from ballast_operator.objects import Object, digest

LENGTH = 10
_ENGINE = {
    "model",
    "engine",
    "parallelism",
    "resources",
    "devices",
    "startup",
    "drain",
    "cache",
    "shared_memory",
    "vamp",
    "template",
}


def engine_revision(serving: MoEServing) -> str:
    """Digest of what the engine's pods are made from: not of how many there are, nor of what stands in front."""
    return _digest(_part(serving.spec, _ENGINE), {"key": _key(serving)})


def router_revision(serving: MoEServing) -> str:
    """Digest of what the router's pods are made from."""
    router = _part(serving.spec.router, {"policy", "hold", "template"})
    return _digest(router, {"key": _key(serving), "drain": serving.spec.drain.timeout_seconds})


def pinned(part: Part, revision: str, children: Children, render: Callable[[], Object]) -> Object:
    """The ControllerRevision of a revision: as it was made, or newly rendered."""
    name = f"{part.role}-{revision}"
    kept = children.get("ControllerRevision", part.names.child(name))
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": part.metadata(name),
        "data": kept["data"] if kept else render(),
        "revision": 1,  # the name tells revisions apart; the API demands a number
    }


def still_used(part: Part, revision: str, children: Children) -> list[Object]:
    """Children of earlier revisions of which a pod is left: a rollout may go back, and a pod's claim has a template."""
    pods = (pod["metadata"].get("labels") or {} for pod in children.all("Pod"))
    names = {
        part.names.child(f"{part.role}-{labels[REVISION]}")
        for labels in pods
        if REVISION in labels and part.selector.items() <= labels.items() and labels[REVISION] != revision
    }
    return [
        _as_applied(obj, part)
        for kind in ("ControllerRevision", "ResourceClaimTemplate")
        for obj in children.all(kind)
        if obj["metadata"]["name"] in names
    ]


def _as_applied(obj: Object, part: Part) -> Object:
    body = {name: obj[name] for name in ("data", "revision", "spec") if name in obj}
    metadata = part.metadata() | {"name": obj["metadata"]["name"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata} | body


def _key(serving: MoEServing) -> Object | None:
    key = serving.spec.access.api_key_secret_ref
    return key.model_dump(mode="json", exclude_none=True) if key else None


def _part(model: BaseModel, fields: set[str]) -> Object:
    """The named fields without defaults: a field that a newer API adds, at its default, changes no digest."""
    return model.model_dump(mode="json", by_alias=True, include=fields, exclude_defaults=True)


def _digest(*parts: Mapping[str, object]) -> str:
    return digest(list(parts))[:LENGTH]
