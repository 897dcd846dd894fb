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
JOB = Resource("batch/v1", "Job", "jobs")
LEASE = Resource("coordination.k8s.io/v1", "Lease", "leases")
RESOURCE_CLAIM = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
ROLE = Resource("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING = Resource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

_KNOWN = {
    (resource.api_version, resource.kind): resource
    for resource in (CONFIG_MAP, EVENT, PERSISTENT_VOLUME_CLAIM, POD, SERVICE_ACCOUNT, JOB, LEASE, ROLE, ROLE_BINDING)
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
