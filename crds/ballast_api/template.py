"""`template`: what a pod needs in the real world, one type for every role of every kind."""

from typing import Any

from ballast_api.base import Model, field


class Template(Model):
    """What a role's pod needs in this cluster; everything has core/v1's meaning."""

    labels: dict[str, str] = field("Further labels of the pod.", default_factory=dict)
    annotations: dict[str, str] = field("Further annotations of the pod.", default_factory=dict)
    node_selector: dict[str, str] = field("Labels that the node must have.", default_factory=dict)
    tolerations: list[dict[str, Any]] = field("Taints that the pod tolerates.", default_factory=list)
    affinity: dict[str, Any] | None = field("Where the pod wants to be.", absent=None)
    scheduler_name: str | None = field("Scheduler to use.", absent=None)
    priority_class_name: str | None = field("PriorityClass of the pod.", absent=None)
    service_account_name: str | None = field("ServiceAccount to use instead of the made one.", absent=None)
    image_pull_secrets: list[dict[str, Any]] = field("Secrets to pull images with.", default_factory=list)
    security_context: dict[str, Any] | None = field("Pod security context, over the restricted default.", absent=None)
    resources: dict[str, Any] | None = field("Requests, limits and claims of the main container.", absent=None)
    resource_claims: list[dict[str, Any]] = field("Claims of the pod.", default_factory=list)
    env: list[dict[str, Any]] = field("Environment of the main container.", default_factory=list)
    volumes: list[dict[str, Any]] = field("Further volumes of the pod.", default_factory=list)
    volume_mounts: list[dict[str, Any]] = field("Where the main container mounts them.", default_factory=list)
