"""`faults`: why the API server would refuse an object, said without a server. For `kubectl ballast render -f` and tests.

It reads the same schema and the same CEL rules that the CRD carries, so there is no second list of rules. Importing
it needs the `operator` extra (a CEL evaluator); the models themselves do not.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ballast_api import API_VERSION
from ballast_api.base import Kind
from ballast_api.schema import KINDS, check
from ballast_api.schema.crd import root

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def faults(obj: Mapping[str, Any]) -> list[str]:
    """Sentences, one for each reason why the object cannot be created; empty if it can."""
    kind = next((k for k in KINDS if (API_VERSION, k.kind) == (obj.get("apiVersion"), obj.get("kind"))), None)
    if kind is None:
        known = ", ".join(k.kind for k in KINDS)
        return [f"kind {obj.get('kind')} of {obj.get('apiVersion')} is not known; known in {API_VERSION}: {known}"]
    schema = schema_of(kind)
    whole = check.with_defaults({key: value for key, value in obj.items() if key != "status"}, schema)
    found = name_faults(whole.get("metadata"), schema)
    members = schema["properties"] | {"metadata": {"type": "object", "additionalProperties": {}}}
    for key in schema["required"]:
        found += [f"{key} is required; add it"] if key not in whole else []
    for key, value in whole.items():
        if key == "metadata":
            continue
        found += check.faults(value, members[key], key) if key in members else [f"{key} is not a field; remove it"]
    if found:
        return found
    bare = {key: members[key] for key in whole if key != "metadata"} | {"metadata": {}}
    return [text.lstrip(".: ") for text in check.broken_rules(whole, schema | {"properties": bare}, "")]


def name_faults(metadata: Any, schema: Mapping[str, Any]) -> list[str]:
    """Faults of metadata.name; the rest of metadata is the API server's own."""
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        return ["metadata.name is required; add it"]
    longest = schema["properties"]["metadata"]["properties"]["name"]["maxLength"]
    if len(name) > longest:
        return [f"metadata.name has {len(name)} characters, but may have at most {longest}"]
    if not all(NAME.fullmatch(part) for part in name.split(".")):
        return [f"metadata.name {name!r} may have only lower-case letters, digits and '-' between them"]
    return []


@cache
def schema_of(kind: type[Kind]) -> dict[str, Any]:
    """The kind's schema, made once."""
    return root(kind)
