"""`faults`: why the API server would refuse an object, said without a server, as for `kubectl ballast render -f`.

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
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        return ["metadata.name is required; add it"]
    judged = {key: value for key, value in obj.items() if key != "status"} | {"metadata": {"name": name}}
    whole = check.with_defaults(judged, schema)
    found = [*name_faults(name), *check.faults(whole, schema, "")] or [*check.broken_rules(whole, schema, "")]
    return [text.lstrip(".: ") for text in found]


def name_faults(name: str) -> list[str]:
    """Faults of metadata.name by the API server's own rule for every kind."""
    if all(NAME.fullmatch(part) for part in name.split(".")):
        return []
    return [f"metadata.name {name!r} may have only lower-case letters and digits, with '-' or '.' between them"]


@cache
def schema_of(kind: type[Kind]) -> dict[str, Any]:
    """The kind's schema, made once. The status is left out: it is the operator's, and the server drops a user's."""
    schema = root(kind)
    del schema["properties"]["status"]
    return schema
