"""A kind's whole CustomResourceDefinition: names, columns, status subresource, and the schema from its models."""

from typing import Any

from ballast_api import GROUP, VERSION
from ballast_api.base import Column, Kind
from ballast_api.schema import structural

LABEL_VALUE = 63  # longest value of a label, and longest name of a child that becomes one
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
ROOT = {
    "apiVersion": f"Version of the API that the object is written in: {GROUP}/{VERSION}.",
    "kind": "Kind of the object: {kind}.",
}


def crd(kind: type[Kind]) -> dict[str, Any]:
    """The CustomResourceDefinition as a JSON object."""
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": list(kind.short_names),
        "categories": ["ballast"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "labels": {"app.kubernetes.io/part-of": "ballast"}},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version(kind)],
        },
    }


def version(kind: type[Kind]) -> dict[str, Any]:
    """The one version that is served and stored."""
    found = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column(c) for c in kind.columns],
        "subresources": {"status": {}} | ({"scale": SCALE} if kind.scaled else {}),
        "schema": {"openAPIV3Schema": root(kind)},
    }
    if kind.selectable:
        found["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    return found


def column(c: Column) -> dict[str, Any]:
    """One column of `kubectl get`."""
    found: dict[str, Any] = {"name": c.name, "type": c.type, "jsonPath": c.path}
    if c.format:
        found["format"] = c.format
    if c.priority:
        found["priority"] = c.priority
    return found


def root(kind: type[Kind]) -> dict[str, Any]:
    """Schema of the whole object; metadata is the API server's, but for the bounds on the name."""
    schema = structural.of_model(kind, kind.kind, kind.kind)
    members = {
        key: {"description": text.format(kind=kind.kind), "type": "string"} for key, text in ROOT.items()
    } | schema["properties"]
    members["metadata"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": longest_name(kind)}},
    }
    required = [key for key in schema["required"] if key != "metadata"]
    validations = [dotless(kind), *schema.get("x-kubernetes-validations", [])]
    return schema | {"required": required, "properties": members, "x-kubernetes-validations": validations}


def longest_name(kind: type[Kind]) -> int:
    """Characters that leave room for the longest suffix of a child's name."""
    return LABEL_VALUE - max((len(suffix) for suffix in kind.child_suffixes), default=0)


def dotless(kind: type[Kind]) -> dict[str, str]:
    """A name is also a label value and the begin of other names, where a dot has a meaning of its own."""
    named = "pods" if any(kind.child_suffixes) else "devices"
    return {
        "rule": "!self.metadata.name.contains('.')",
        "message": f"metadata.name of a {kind.kind} takes no dots, since {named} are named after it; use '-' instead",
    }
