"""The one right that a solver's pod has: to patch the one ConfigMap made for its strategy."""

from ballast_api.cfrsolve import CFRSolve
from ballast_operator.desired.names import Names
from ballast_operator.objects import Object

_RBAC = "rbac.authorization.k8s.io"


def service_account(names: Names) -> Object:
    """An account of the solve's own, so that its right is nobody else's."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": names.metadata("solve"),
        "automountServiceAccountToken": False,
    }


def role(names: Names) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": names.metadata("solve"),
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": [names.child("strategy")],
                "verbs": ["patch"],
            }
        ],
    }


def role_binding(solve: CFRSolve, names: Names) -> Object:
    account = solve.spec.template.service_account_name or names.child("solve")
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": names.metadata("solve"),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": names.child("solve")},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": solve.metadata.namespace}],
    }
