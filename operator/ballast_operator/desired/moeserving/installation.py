"""What an installation decides about every serving: images, where the operator runs, what the cluster has."""

from dataclasses import dataclass, field

from ballast_api.moeserving import MoEServing

HTTP_ROUTE = "HTTPRoute"
LEADER_WORKER_SET = "LeaderWorkerSet"
POD_MONITOR = "PodMonitor"
SCALED_OBJECT = "ScaledObject"


@dataclass(frozen=True)
class Installation:
    """Images by use; optional: kinds of other projects that this cluster has; metrics_namespaces: who may read
    metrics, everybody if empty."""

    image: str
    gpu_image: str
    router_image: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    operator_namespace: str = "ballast-system"
    metrics_namespaces: tuple[str, ...] = ()
    optional: frozenset[str] = field(default_factory=frozenset)

    def engine_image(self, serving: MoEServing) -> str:
        """The GPU image for pods that get a device, else the CPU image."""
        return self.gpu_image if has_device(serving) else self.image


def has_device(serving: MoEServing) -> bool:
    """Whether the engine's pods get a device: by an extended resource (its name has a domain), or by a claim."""
    resources = serving.spec.resources or {}
    asked = {**resources.get("requests", {}), **resources.get("limits", {})}
    return bool(serving.spec.devices or resources.get("claims") or any("/" in name for name in asked))
