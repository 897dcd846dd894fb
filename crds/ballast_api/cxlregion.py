"""CXLRegion: a piece of composable CXL memory that pods on several nodes share through one claim."""

from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from ballast_api.base import Column, Kind, Model, Rule, field
from ballast_api.conditions import Conditions
from ballast_api.meta import Metadata, Size, Time


class Sharing(StrEnum):
    """Whose pods may use a region."""

    NAMESPACE = "Namespace"
    EXPLICIT = "Explicit"


class ReclaimPolicy(StrEnum):
    """What becomes of a region's blocks when its object is deleted."""

    DELETE = "Delete"
    RETAIN = "Retain"


class Hosts(Model):
    """How many nodes must be able to use the region."""

    min: int = field(
        "Nodes that must be cabled to the blade that the region is placed on. A blade with fewer is passed over.",
        default=1,
        ge=1,
        le=1024,
    )


class CXLRegionSpec(Model):
    """How much memory, from where, and for whom. Size, class and hosts cannot change later."""

    immutable_but_for: ClassVar = ("sharing", "allowedNamespaces", "reclaimPolicy")
    rules: ClassVar = (
        Rule(
            "!has(self.allowedNamespaces) || self.allowedNamespaces.size() == 0 || self.sharing == 'Explicit'",
            "allowedNamespaces is read only with sharing: Explicit; set sharing or remove allowedNamespaces",
            ".allowedNamespaces",
        ),
    )

    size: Size = field(
        "Bytes asked for. The region gets whole blocks of the appliance, so it may have more; status.size says.",
        examples=["64Gi"],
    )
    class_: str = field(
        "Class of blades to take it from, as their spec.class.",
        default="default",
        alias="class",
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
    )
    hosts: Hosts = field(default_factory=Hosts)
    sharing: Sharing = field(
        "Namespace: pods of the region's own namespace may use it. Explicit: those of allowedNamespaces too.",
        default=Sharing.NAMESPACE,
    )
    allowed_namespaces: list[str] = field(
        "Further namespaces whose pods may use the region, with sharing: Explicit.",
        default_factory=list,
        max_items=64,
    )
    reclaim_policy: ReclaimPolicy = field(
        "Delete: when the object is deleted, the bytes are overwritten with zeros and the blocks become free. Retain: "
        "the blocks and their bytes are kept, in quarantine, until an administrator lets them go by the blade's "
        "spec.releaseQuarantined.",
        default=ReclaimPolicy.DELETE,
    )


class Placement(Model):
    """Where the region lies."""

    model_config = ConfigDict(extra="ignore")

    blade: str = field("Name of the CXLBlade.")
    blocks: list[int] = field("Blocks of the blade that are the region's, by number.", default_factory=list)
    memory_id: str | None = field("What the appliance calls the composed memory.", absent=None)


class RegionAttachment(Model):
    """One node that has the region."""

    model_config = ConfigDict(extra="ignore")

    node: str = field("Name of the node.")
    state: str = field("Pending, Assigned, Attached, Refused, Detaching or Lost.")
    port: str | None = field("Port of the blade that leads to the node.", absent=None)
    device: str | None = field("Device file on the node.", absent=None)


class ScrubProgress(Model):
    """How far overwriting with zeros is, after the last use."""

    model_config = ConfigDict(extra="ignore")

    node: str | None = field("Node that overwrites.", absent=None)
    generation: int | None = field("Generation of the reservation that is overwritten.", absent=None)
    bytes: int | None = field("Bytes overwritten so far.", absent=None)
    verified: int | None = field("Bytes read back as zeros so far.", absent=None)


class CXLRegionStatus(Model):
    """How the region stands, as the region controller sees it."""

    model_config = ConfigDict(extra="ignore")

    phase: str | None = field(
        "The conditions in one word: Pending, Reserved, Composing, Composed, Ready, Draining, Detaching, Scrubbing, "
        "Failed or Quarantined.",
        absent=None,
    )
    observed_generation: int | None = field("Generation of the spec that this describes.", absent=None)
    uid: str | None = field("Identity of the region in the blade's ledger: the object's own uid.", absent=None)
    size: str | None = field("Bytes that the region has, as a quantity.", absent=None)
    placement: Placement | None = field(absent=None)
    attached: int | None = field("Nodes that have the region now.", absent=None)
    attachments: list[RegionAttachment] = field(
        "Nodes that have, get or lose the region.", default_factory=list, list_map_keys=["node"], max_items=1024
    )
    scrub: ScrubProgress | None = field(absent=None)
    deletion_deadline: Time | None = field(
        "When a deletion that is stuck frees the object; its blocks then stay in quarantine.", absent=None
    )
    conditions: Conditions = field(
        "What the object says of itself: Ready, Composed, Published, Allocated, Degraded.",
        default_factory=list,
        list_map_keys=["type"],
        max_items=32,
    )


class CXLRegion(Kind):
    """CXLRegion is a piece of CXL memory from an appliance, shared by the pods of a namespace on several nodes.

    The region's ResourceClaim has its name; a pod that lists the claim finds the memory at /dev/ballast/NAME."""

    kind: ClassVar[str] = "CXLRegion"
    plural: ClassVar[str] = "cxlregions"
    short_names: ClassVar = ("cxlr",)
    columns: ClassVar = (
        Column("Size", ".status.size"),
        Column("State", ".status.phase"),
        Column("Blade", ".status.placement.blade"),
        Column("Nodes", ".status.attached", type="integer"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
        Column("Class", ".spec.class", priority=1),
        Column("Asked", ".spec.size", priority=1),
        Column("Memory", ".status.placement.memoryId", priority=1),
        Column("Blocks", ".status.placement.blocks", priority=1),
    )

    metadata: Metadata = field()
    spec: CXLRegionSpec = field()
    status: CXLRegionStatus = field(default_factory=CXLRegionStatus, shown=False)
