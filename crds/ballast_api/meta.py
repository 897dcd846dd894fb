"""What all kinds share: metadata as the operator reads it, references to other objects, and types of single values."""

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field

from ballast_api.base import Model, OpenAPI, Rule, field

# An exponent of two digits keeps double() finite: CEL turns an overflow into an error without a sentence.
DECIMAL = r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"
SIGNED_DECIMAL = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
POSITIVE_QUANTITY = r"^([0-9]*[1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[kMGTPE])?$"

QUANTITY = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$"


def _text(value: Any) -> Any:
    """A quantity may be written without a unit, as a number; it reads as text everywhere else."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Decimal = Annotated[str, Field(pattern=DECIMAL, max_length=32)]
SignedDecimal = Annotated[str, Field(pattern=SIGNED_DECIMAL, max_length=32)]
Time = Annotated[str, OpenAPI({"type": "string", "format": "date-time"})]
Size = Annotated[
    str,
    BeforeValidator(_text),
    Field(pattern=POSITIVE_QUANTITY),
    OpenAPI({"x-kubernetes-int-or-string": True, "pattern": POSITIVE_QUANTITY, "minimum": 1, "maxLength": 32}),
]

Amount = Annotated[  # a size that may be nothing, as in a status
    str,
    BeforeValidator(_text),
    Field(pattern=QUANTITY),
    OpenAPI({"x-kubernetes-int-or-string": True, "pattern": QUANTITY, "maxLength": 32}),
]


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


class ConfigMapKeyRef(Model):
    """One key of a ConfigMap of this namespace."""

    name: str = field("Name of the ConfigMap, in this namespace.", min_length=1, max_length=253)
    key: str = field("Key in the ConfigMap that holds the file.", pattern="^[-._a-zA-Z0-9]+$", max_length=253)


class VolumePath(Model):
    """A path on a PersistentVolumeClaim of this namespace."""

    rules: ClassVar = (
        Rule(
            r"!self.path.matches('^/|(^|/)\\.\\.(/|$)')",
            "path is relative to the root of the volume and stays on it; remove the leading slash and every '..'",
            ".path",
        ),
    )

    claim_name: str = field("Name of the PersistentVolumeClaim, in this namespace.", min_length=1, max_length=253)
    path: str = field(
        "Path on the volume, without a leading slash.", min_length=1, max_length=1024, examples=["games/leduc.efg"]
    )


class SecretKeyRef(Model):
    """One key of a Secret of this namespace; the operator never reads it, only the pod does."""

    name: str = field("Name of the Secret, in this namespace.", min_length=1, max_length=253)
    key: str | None = field(
        "Key in the Secret. Unset: the usual one, as the field that refers to it says.",
        absent=None,
        pattern="^[-._a-zA-Z0-9]+$",
        max_length=253,
    )
