"""Names and labels of children. A child's name is its owner's with a suffix, so people can guess it."""

from dataclasses import dataclass

from ballast_api import API_VERSION
from ballast_api.meta import Metadata
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Object

MANAGED_BY = "ballast"


@dataclass(frozen=True)
class Names:
    """Names, labels and owner reference of one object's children."""

    kind: str
    owner: Metadata

    def child(self, suffix: str) -> str:
        return f"{self.owner.name}-{suffix}"

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": self.kind.lower(),
            "app.kubernetes.io/instance": self.owner.name,
            "app.kubernetes.io/managed-by": MANAGED_BY,
            OWNER_KIND: self.kind,
            OWNER_NAME: self.owner.name,
        }

    def metadata(self, suffix: str) -> Object:
        """Metadata of the child with this suffix: same namespace as the owner, controlled by it."""
        return {
            "name": self.child(suffix),
            "namespace": self.owner.namespace,
            "labels": self.labels,
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": self.kind,
                    "name": self.owner.name,
                    "uid": self.owner.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
