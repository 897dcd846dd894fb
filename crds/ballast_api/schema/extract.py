"""From a server's OpenAPI v3 document of core/v1 to the few types that a pod template here takes.

A pod's schema is 500 kB of compact JSON, a CRD that `kubectl apply` can store at most 262 kB. So references are
resolved, of each description the first sentence stays (at most 80 characters), and of volumes the nine usual kinds.
Opaque types would be smaller still, but would swallow a typo in a toleration without a word.
"""

import re
from collections.abc import Mapping
from typing import Any

ROOTS = (
    "Affinity",
    "EnvVar",
    "LocalObjectReference",
    "PodResourceClaim",
    "PodSecurityContext",
    "ResourceRequirements",
    "Toleration",
    "Volume",
    "VolumeMount",
)
VOLUME_KINDS = frozenset(
    {"configMap", "csi", "emptyDir", "hostPath", "image", "iscsi", "nfs", "persistentVolumeClaim", "secret"}
)
CORE = "io.k8s.api.core.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
# No sign: every quantity in these types is an amount, which core/v1 refuses below zero, if only when the pod is made.
AMOUNT = (
    r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
KEPT = ("type", "format", "enum", "required", "x-kubernetes-map-type", "x-kubernetes-list-type")
LONGEST = 80

Schema = dict[str, Any]


def extract(document: Mapping[str, Any]) -> dict[str, Schema]:
    """The roots' structural schemas, by short name, out of a whole OpenAPI v3 document."""
    named = document["components"]["schemas"]
    return {root: resolved({"$ref": f"#/components/schemas/{CORE}{root}"}, named) for root in ROOTS}


def resolved(node: Schema, named: Mapping[str, Schema]) -> Schema:
    """A schema without references, defaults or long words."""
    name = reference(node)
    if name == QUANTITY:
        return described(node, {"x-kubernetes-int-or-string": True, "pattern": AMOUNT})
    if name == INT_OR_STRING:
        return described(node, {"x-kubernetes-int-or-string": True})
    if name is not None:
        whole = resolved(named[name], named)
        return described(node, whole) if "description" in node else whole
    found: Schema = {key: node[key] for key in KEPT if key in node}
    if "properties" in node:
        kept = {key: value for key, value in sorted(node["properties"].items()) if wanted(key, node)}
        found["properties"] = {key: resolved(value, named) for key, value in kept.items()}
        required = sorted({*node.get("required", []), *(key for key, value in kept.items() if needed(value))})
        found |= {"required": required} if required else {}
    if "additionalProperties" in node:
        found["additionalProperties"] = resolved(node["additionalProperties"], named)
    if "items" in node:
        found |= {"items": resolved(node["items"], named)} | list_keys(node)
        found["items"].pop("description", None)  # of a list, only the list's own words are of use
        require_keys(found)
    return described(node, found)


def reference(node: Schema) -> str | None:
    """Name of the schema that a node stands for; core writes it bare or as the one member of allOf."""
    for part in (node, *node.get("allOf", [])):
        if "$ref" in part:
            return str(part["$ref"]).rsplit("/", 1)[-1]
    return None


def wanted(key: str, parent: Schema) -> bool:
    """Whether a member stays. Only a volume loses some: it is the one type that has both these members."""
    volume = {"emptyDir", "gcePersistentDisk"} <= parent["properties"].keys()
    return not volume or key == "name" or key in VOLUME_KINDS


def needed(node: Schema) -> bool:
    """Core has names that may be empty only for the sake of old objects; its description says so."""
    return "effectively required" in node.get("description", "")


def list_keys(node: Schema) -> Schema:
    """The keys of a list that is a map. Core marks some only for the older merge patch."""
    if "x-kubernetes-list-map-keys" not in node:
        return {}
    return {"x-kubernetes-list-map-keys": node["x-kubernetes-list-map-keys"]}


def require_keys(array: Schema) -> None:
    """A CRD wants the keys of a list that is a map required, or with a default, which would be an empty name here."""
    keys = array.get("x-kubernetes-list-map-keys", [])
    if keys:
        item = array["items"]
        item["required"] = sorted({*item.get("required", []), *keys})


def described(node: Schema, schema: Schema) -> Schema:
    """The schema with the node's own description, cut to one short sentence."""
    text = sentence(node.get("description", ""))
    return ({"description": text} if text else {}) | {
        key: schema[key] for key in schema if not text or key != "description"
    }


def sentence(text: str) -> str:
    """The first sentence, in at most LONGEST characters, cut between words."""
    first = re.split(r"(?<=[a-z0-9)\"'`])(?<!e\.g)(?<!i\.e)\.(?:\s|$)|\n\n|: *\n", text.strip(), maxsplit=1)[0]
    first = " ".join(first.split()).rstrip(".:")
    if len(first) >= LONGEST:
        first = re.sub(r" \([^()]*\)", "", first)
    if len(first) < LONGEST:
        return f"{first}." if first else ""
    return first[: LONGEST - 1].rsplit(" ", 1)[0].rstrip(",;(") + "…"
