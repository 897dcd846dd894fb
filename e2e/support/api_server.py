"""An API server with our CRD and nothing of ours running: what it says to an object, by the Python client."""

import json
from typing import Any

import kubernetes

from ballast_api.cfrsolve import CFRSolve
from ballast_api.moeserving import MoEServing
from ballast_api.schema import KINDS
from ballast_api.schema.crd import root

CRD = "cfrsolves.ballast.dev"
PLACE = ("ballast.dev", "v1alpha1", "default", "cfrsolves")
Object = dict[str, Any]
SCHEMA: Object = root(CFRSolve)
SERVING_PLACE = (*PLACE[:3], MoEServing.plural)
SERVING_SCHEMA: Object = root(MoEServing)


def solve(name: str = "solve", **changes: Any) -> Object:
    """A good object with members of its spec replaced, or removed if None."""
    spec = {"game": {"builtin": {"name": "leduc"}}, "stop": {"exploitability": "1e-3"}} | changes
    kept = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": "ballast.dev/v1alpha1", "kind": "CFRSolve", "metadata": {"name": name}, "spec": kept}


def serving(name: str = "serving", **changes: Any) -> Object:
    """The same, a MoEServing."""
    spec = {"model": {"builtin": {"name": "tiny-qwen3-moe"}}} | changes
    kept = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": "ballast.dev/v1alpha1", "kind": "MoEServing", "metadata": {"name": name}, "spec": kept}


def answer(api: Any, obj: Object) -> str:
    """The API server's refusal, or nothing. The server keeps nothing, and refuses unknown fields as kubectl asks it."""
    (plural,) = [kind.plural for kind in KINDS if kind.kind == obj["kind"]]
    try:
        api.create_namespaced_custom_object(*PLACE[:3], plural, obj, dry_run="All", field_validation="Strict")
    except kubernetes.client.ApiException as refused:
        assert refused.status in (400, 422), refused
        return str(json.loads(refused.body or "{}")["message"])
    return ""
