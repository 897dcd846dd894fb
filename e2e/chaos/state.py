"""The state that a namespace ends in, in a form in which two ends can be compared."""

import copy
from typing import Any

from e2e.support.kube import Kube, Object

CHILDREN = "configmaps,serviceaccounts,roles,rolebindings,persistentvolumeclaims,jobs"
SERVING_CHILDREN = "deployments,services,poddisruptionbudgets,networkpolicies,controllerrevisions"
OWNED = "ballast.dev/owner-kind"
_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "namespace")


def end_state(kube: Kube) -> list[Object]:
    """Objects and children without what is different in every run: identities, times, and who wrote which field."""
    owners = [_owner(obj) for obj in kube.list("cfr,moe")]
    children = [_child(obj, kube.namespace) for obj in kube.list(f"{CHILDREN},{SERVING_CHILDREN}", OWNED)]
    return sorted(owners + children, key=lambda o: (o["kind"], o["metadata"]["name"]))


def _owner(obj: Object) -> Object:
    status = obj.get("status", {})
    return {
        "kind": obj["kind"],
        "metadata": {"name": obj["metadata"]["name"], "finalizers": obj["metadata"].get("finalizers", [])},
        "spec": obj["spec"],
        "phase": status.get("phase"),
        "conditions": [
            {key: c[key] for key in ("type", "status", "reason", "observedGeneration")}
            for c in status.get("conditions", [])
        ],
    }


def _child(obj: Object, namespace: str) -> Object:
    lean = copy.deepcopy(obj)
    lean.pop("status", None)
    lean.pop("data", None)
    lean["metadata"] = {k: v for k, v in lean["metadata"].items() if k not in _OWN}
    lean["metadata"]["ownerReferences"] = [o["name"] for o in lean["metadata"].get("ownerReferences", [])]
    lean["metadata"].get("annotations", {}).pop("volume.kubernetes.io/selected-node", None)
    if lean["kind"] == "Job":
        lean["spec"].pop("selector", None)
        lean["spec"]["template"]["metadata"]["labels"] = {
            k: v for k, v in lean["spec"]["template"]["metadata"]["labels"].items() if "controller-uid" not in k
        }
    if lean["kind"] == "Deployment":
        lean["metadata"].pop("annotations", None)
    if lean["kind"] == "Service":
        lean["spec"] = {key: value for key, value in lean["spec"].items() if not key.startswith("clusterIP")}
    if lean["kind"] == "PersistentVolumeClaim":
        lean["spec"].pop("volumeName", None)
        lean["metadata"].pop("annotations", None)
    replaced: Object = _replace(lean, namespace)
    return replaced


def _replace(value: Any, namespace: str) -> Any:
    """The namespace of the test appears in arguments and subjects; it is another one each time."""
    if isinstance(value, dict):
        return {key: _replace(member, namespace) for key, member in value.items()}
    if isinstance(value, list):
        return [_replace(member, namespace) for member in value]
    return value.replace(namespace, "NAMESPACE") if isinstance(value, str) else value
