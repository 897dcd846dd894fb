"""Add-ons: parts of a cluster that are built when first asked for, each in a module of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from e2e.cluster import build
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import Layout
from e2e.cluster.node import Node
from e2e.cluster.versions import Component

Object = dict[str, Any]


@dataclass(frozen=True)
class Addon:
    """One add-on. `in_pods`: its program runs from an image, in `namespace`; otherwise it is a daemon of each node."""

    name: str
    component: Component
    objects: Callable[[Layout], list[Object]]
    ready: Callable[[Kubectl], bool]
    in_pods: bool = True
    on_node: Callable[[Node], None] | None = None
    packages: dict[str, str] = field(default_factory=dict)
    namespace: str = "kube-system"

    @property
    def built(self) -> bool:
        return build.built(self.component)


def deployed(name: str) -> Callable[[Kubectl], bool]:
    """Whether the Deployment of this name in kube-system has its one pod available, of the newest template."""

    def ready(kubectl: Kubectl) -> bool:
        found = kubectl.get("deployment", name, "--namespace=kube-system")
        status = found["status"]
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(current and status.get("updatedReplicas") == status.get("availableReplicas") == 1)

    return ready


def deployment(name: str, image: str, args: list[str], container: Object, volumes: list[Object]) -> Object:
    """A Deployment of one restricted pod in kube-system, with a ServiceAccount of the same name."""
    restricted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    labels = {"app.kubernetes.io/name": name}
    pod = {
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": name,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": args,
                "securityContext": restricted,
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                **container,
            }
        ],
        "volumes": volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name),
        "spec": {
            "replicas": 1,
            "minReadySeconds": 1,  # a program that ends at once is not ready, though nothing probes it
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def metadata(name: str, namespace: str = "kube-system") -> Object:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def account(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)}


def cluster_role(name: str, *rules: tuple[str, str, str]) -> Object:
    """A ClusterRole; each rule is (API group, resources, verbs), the last two separated by blanks."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(name, ""),
        "rules": [
            {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
            for group, resources, verbs in rules
        ],
    }


def bind(name: str, role: str, subject: Object, namespace: str = "") -> Object:
    """Give a role to a subject: in the whole cluster, or a Role in one namespace."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata(name, namespace),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role" if namespace else "ClusterRole",
            "name": role,
        },
        "subjects": [subject],
    }


def as_account(name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}


def as_user(name: str) -> Object:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


def config_map(name: str, data: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name), "data": data}


def service(name: str, selects: str, ports: list[Object], **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name),
        "spec": {"selector": {"app.kubernetes.io/name": selects}, "ports": ports, **spec},
    }
