"""`template`: what a pod needs in the real world, one type for every role of every kind.

`PodTemplate` is for a role whose kind has a field `resources` of its own, `Template` for all others.
"""

from typing import ClassVar

from ballast_api import core
from ballast_api.base import Model, Rule, field


class PodTemplate(Model):
    """What the pod needs in this cluster; every member has the meaning it has in a pod of core/v1."""

    rules: ClassVar = (
        Rule(
            "!has(self.labels) || !self.labels.exists(k, k.startsWith('ballast.dev/'))",
            "template.labels: keys that begin with ballast.dev/ are the operator's own; use another prefix",
            ".labels",
        ),
    )

    labels: dict[str, str] = field("Further labels of the pod.", default_factory=dict, max_items=64)
    annotations: dict[str, str] = field("Further annotations of the pod.", default_factory=dict)
    node_selector: dict[str, str] = field(
        "Labels that a node must have to take the pod. Unset: any node.", default_factory=dict
    )
    tolerations: list[core.Toleration] = field(
        "Taints that the pod tolerates, such as those of GPU nodes.", default_factory=list
    )
    affinity: core.Affinity | None = field("Nodes and pods that the pod wants to be near or far from.", absent=None)
    scheduler_name: str | None = field(
        "Scheduler that places the pod. Unset: the cluster's default scheduler.", absent=None, max_length=253
    )
    priority_class_name: str | None = field(
        "PriorityClass of the pod. Unset: the cluster's default priority.", absent=None, max_length=253
    )
    service_account_name: str | None = field(
        "ServiceAccount that the pod runs as. Unset: for a job one is made, for what serves it is one without rights. "
        "The account of a job is given one right, to patch the ConfigMap of its result.",
        absent=None,
        max_length=253,
    )
    image_pull_secrets: list[core.ImagePullSecret] = field(
        "Secrets to pull images with, besides the operator's own list.", default_factory=list, list_map_keys=["name"]
    )
    security_context: core.PodSecurityContext | None = field(
        "Security context of the pod, laid over the default: user 65532, not root, seccomp RuntimeDefault.",
        absent=None,
    )
    resource_claims: list[core.PodResourceClaim] = field(
        "Claims for devices that the pod brings; `resources.claims` hands them to the container.",
        default_factory=list,
        list_map_keys=["name"],
    )
    env: list[core.EnvVar] = field(
        "Environment variables of the main container.", default_factory=list, list_map_keys=["name"]
    )
    volumes: list[core.Volume] = field(
        "Further volumes of the pod.", default_factory=list, list_map_keys=["name"], max_items=64
    )
    volume_mounts: list[core.VolumeMount] = field(
        "Where the main container mounts the volumes.",
        default_factory=list,
        list_map_keys=["mountPath"],
        max_items=64,
    )


class Template(PodTemplate):
    """What the pod needs in this cluster; every member has the meaning it has in a pod of core/v1."""

    resources: core.ResourceRequirements | None = field(
        "Requests, limits and claims of the main container. Fractions of a core are written in thousandths (`500m`), "
        "memory with a unit (`2Gi`). A container gets the device of a claim only if it lists the claim here.",
        absent=None,
    )
