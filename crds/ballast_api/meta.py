"""What all kinds share: metadata as the operator reads it, and references to other objects."""

from pydantic import ConfigDict

from ballast_api.base import Model, field


class Metadata(Model):
    """The part of `metadata` that the operator reads. The API server owns the rest."""

    model_config = ConfigDict(extra="ignore")

    name: str = field("Name of the object.")
    namespace: str = field("Namespace of the object.", default="default")
    uid: str = field("Identity of the object over its life.", default="")
    generation: int = field("Counts changes of the spec.", default=0)
    creation_timestamp: str | None = field("When the object was made.", absent=None)
    deletion_timestamp: str | None = field("When deletion was asked for.", absent=None)
    labels: dict[str, str] = field("Labels.", default_factory=dict)
    annotations: dict[str, str] = field("Annotations.", default_factory=dict)


class LocalObjectReference(Model):
    """An object of the same namespace, by name."""

    name: str = field("Name of the object, in this namespace.", min_length=1, max_length=253)
