"""CXLTenantQuota: how much CXL memory a namespace may hold, over all blades."""

from typing import ClassVar

from pydantic import ConfigDict

from ballast_api.base import Column, Kind, Model, Rule, field
from ballast_api.meta import Amount, Metadata


class CXLTenantQuotaSpec(Model):
    """What the namespace may hold at most. What it holds already is not taken away."""

    immutable_but_for: ClassVar = ("maxBytes", "maxRegions", "maxAttachments")
    rules: ClassVar = (
        Rule(
            "has(self.maxBytes) || has(self.maxRegions) || has(self.maxAttachments)",
            "a quota limits maxBytes, maxRegions or maxAttachments; set one of them",
        ),
    )

    namespace: str = field("Namespace that is limited.", min_length=1, max_length=63)
    max_bytes: Amount | None = field(
        "Bytes of all regions, in whole blocks as they are taken from the appliance. Unset: no limit.",
        absent=None,
        examples=["256Gi"],
    )
    max_regions: int | None = field("Regions. Unset: no limit.", absent=None, ge=0)
    max_attachments: int | None = field(
        "Connections of regions to nodes at the same time. Unset: no limit.", absent=None, ge=0
    )


class Charge(Model):
    """What one region counts for."""

    model_config = ConfigDict(extra="ignore")

    uid: str = field("Identity of the region.")
    name: str = field("Name of the region.")
    bytes: Amount = field("Bytes of its blocks.")


class Used(Model):
    """What the namespace holds."""

    model_config = ConfigDict(extra="ignore")

    bytes: Amount = field("Bytes of all regions.", default="0")
    regions: int = field("Regions.", default=0, ge=0)
    attachments: int = field("Connections to nodes.", default=0, ge=0)


class Connection(Model):
    """One connection of a region to a node."""

    model_config = ConfigDict(extra="ignore")

    name: str = field("Name of the CXLAttachment.")


class CXLTenantQuotaStatus(Model):
    """What counts against the quota. Changed by compare-and-swap, before blocks are taken and after they are freed."""

    model_config = ConfigDict(extra="ignore")

    observed_generation: int | None = field("Generation of the spec that this describes.", absent=None)
    used: Used = field(default_factory=Used, shown=False)
    charges: list[Charge] = field(
        "Regions that count, until their blocks are free again.",
        default_factory=list,
        list_map_keys=["uid"],
        max_items=4096,
    )
    connections: list[Connection] = field(
        "Connections that count.", default_factory=list, list_map_keys=["name"], max_items=4096
    )


class CXLTenantQuota(Kind):
    """CXLTenantQuota limits the CXL memory of one namespace. With several quotas, each of them must have room."""

    kind: ClassVar[str] = "CXLTenantQuota"
    plural: ClassVar[str] = "cxltenantquotas"
    namespaced: ClassVar[bool] = False
    short_names: ClassVar = ("cxlq",)
    columns: ClassVar = (
        Column("Namespace", ".spec.namespace"),
        Column("Used", ".status.used.bytes"),
        Column("Limit", ".spec.maxBytes"),
        Column("Regions", ".status.used.regions", type="integer"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    )

    metadata: Metadata = field()
    spec: CXLTenantQuotaSpec = field()
    status: CXLTenantQuotaStatus = field(default_factory=CXLTenantQuotaStatus, shown=False)
