"""How the API server calls the kinds that we read and write: group, version, plural, scope."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Resource:
    """One kind as the API server serves it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """Group without version; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object, or of its subresource."""
        parts = ["apis" if self.group else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(parts)


CONFIG_MAP = Resource("v1", "ConfigMap", "configmaps")
EVENT = Resource("v1", "Event", "events")
PERSISTENT_VOLUME_CLAIM = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
POD = Resource("v1", "Pod", "pods")
SERVICE_ACCOUNT = Resource("v1", "ServiceAccount", "serviceaccounts")
SERVICE = Resource("v1", "Service", "services")
CONTROLLER_REVISION = Resource("apps/v1", "ControllerRevision", "controllerrevisions")
DEPLOYMENT = Resource("apps/v1", "Deployment", "deployments")
HORIZONTAL_POD_AUTOSCALER = Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
JOB = Resource("batch/v1", "Job", "jobs")
LEASE = Resource("coordination.k8s.io/v1", "Lease", "leases")
RESOURCE_CLAIM = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
ROLE = Resource("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING = Resource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
NETWORK_POLICY = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
POD_DISRUPTION_BUDGET = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
RESOURCE_CLAIM_TEMPLATE = Resource("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
# Of other projects, and not in every cluster.
HTTP_ROUTE = Resource("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes")
LEADER_WORKER_SET = Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets")
POD_MONITOR = Resource("monitoring.coreos.com/v1", "PodMonitor", "podmonitors")
SCALED_OBJECT = Resource("keda.sh/v1alpha1", "ScaledObject", "scaledobjects")

OPTIONAL = (HTTP_ROUTE, LEADER_WORKER_SET, POD_MONITOR, SCALED_OBJECT)

_KNOWN = {
    (resource.api_version, resource.kind): resource
    for resource in (
        CONFIG_MAP,
        CONTROLLER_REVISION,
        DEPLOYMENT,
        EVENT,
        HORIZONTAL_POD_AUTOSCALER,
        JOB,
        LEASE,
        NETWORK_POLICY,
        PERSISTENT_VOLUME_CLAIM,
        POD,
        POD_DISRUPTION_BUDGET,
        RESOURCE_CLAIM_TEMPLATE,
        ROLE,
        ROLE_BINDING,
        SERVICE,
        SERVICE_ACCOUNT,
        *OPTIONAL,
    )
}


def resource_of(obj: dict[str, Any]) -> Resource:
    """The resource of an object by its `apiVersion` and `kind`. Raises LookupError for one that nobody registered."""
    try:
        return _KNOWN[(obj["apiVersion"], obj["kind"])]
    except KeyError:
        raise LookupError(f"{obj.get('apiVersion')} {obj.get('kind')} is not a kind that is handled here") from None


def register(resource: Resource) -> Resource:
    """Make a further resource known to `resource_of`; controllers with children of their own call this once."""
    _KNOWN[(resource.api_version, resource.kind)] = resource
    return resource
