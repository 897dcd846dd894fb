"""CXLAttachment: the wish of one node to have one region, and the answer."""

from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from ballast_api.base import Column, Kind, Model, field
from ballast_api.meta import Amount, Metadata


class Purpose(StrEnum):
    """What a node wants a region for."""

    USE = "Use"
    SCRUB = "Scrub"


class RegionReference(Model):
    """A region, by name and identity."""

    namespace: str = field("Namespace of the CXLRegion.", min_length=1, max_length=63)
    name: str = field("Name of the CXLRegion.", min_length=1, max_length=63)
    uid: str = field("Identity of the CXLRegion, and of its entry in the blade's ledger.", min_length=1, max_length=63)


class CXLAttachmentSpec(Model):
    """Which region, on which node, and what for. It cannot change; deleting the object is the wish to detach."""

    immutable_but_for: ClassVar = ()

    region: RegionReference = field()
    node: str = field("Name of the node.", min_length=1, max_length=63)
    purpose: Purpose = field(
        "Use: for pods. Scrub: to overwrite the region with zeros, alone, after its last use.", default=Purpose.USE
    )
    read_only: bool = field("Whether the node may only read.", default=False)


class NodeScrub(Model):
    """How far the node is with overwriting the region."""

    model_config = ConfigDict(extra="ignore")

    bytes: int = field("Bytes overwritten with zeros and flushed.", default=0, ge=0)
    verified: int = field("Bytes read back as zeros.", default=0, ge=0)
    generation: int = field("Generation, as in status.generation, that was overwritten.", default=0, ge=0)


class NodeStatus(Model):
    """What the node says. Only its node plugin writes this."""

    model_config = ConfigDict(extra="ignore")

    state: str | None = field("Attaching, Attached, Down or Failed.", absent=None)
    device: str | None = field("Device file on the node.", absent=None, max_length=253)
    major: int | None = field("Major number of the device.", absent=None)
    minor: int | None = field("Minor number of the device.", absent=None)
    incarnation: str | None = field("Identity of the node's present boot.", absent=None, max_length=63)
    scrub: NodeScrub | None = field(absent=None)
    message: str | None = field("What is in the way, in one sentence.", absent=None, max_length=1024)


class CXLAttachmentStatus(Model):
    """What the region controller answers, and under `node` what the node says."""

    model_config = ConfigDict(extra="ignore")

    phase: str | None = field("Pending, Assigned, Refused or Detaching.", absent=None)
    reason: str | None = field("One word for programs that says why.", absent=None, max_length=128)
    message: str | None = field("One sentence for people that says why.", absent=None, max_length=1024)
    generation: int | None = field(
        "Number of the connection in the blade's ledger; a node may use the device only while the two are equal.",
        absent=None,
    )
    blade: str | None = field("Name of the CXLBlade.", absent=None)
    port: str | None = field("Port of the blade that leads to the node.", absent=None)
    memory_id: str | None = field("What the appliance calls the composed memory.", absent=None)
    serial: str | None = field("Serial number of the memory device that appears on the node.", absent=None)
    size: Amount | None = field("Bytes of the device.", absent=None)
    node: NodeStatus = field(default_factory=NodeStatus, shown=False)


class CXLAttachment(Kind):
    """CXLAttachment is the wish of one node to have one region. Node plugins and the region controller make them.

    It is named after the region's uid and a digest of the node's name, so a node can ask only once."""

    kind: ClassVar[str] = "CXLAttachment"
    plural: ClassVar[str] = "cxlattachments"
    namespaced: ClassVar[bool] = False
    short_names: ClassVar = ("cxla",)
    selectable: ClassVar = (
        ".spec.node",  # a node plugin watches its own
        ".spec.region.uid",  # the region controller asks who has a region, of thousands
    )
    columns: ClassVar = (
        Column("Namespace", ".spec.region.namespace"),
        Column("Region", ".spec.region.name"),
        Column("Node", ".spec.node"),
        Column("Purpose", ".spec.purpose"),
        Column("State", ".status.phase"),
        Column("On node", ".status.node.state"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
        Column("Port", ".status.port", priority=1),
        Column("Device", ".status.node.device", priority=1),
        Column("Message", ".status.message", priority=1),
    )

    metadata: Metadata = field()
    spec: CXLAttachmentSpec = field()
    status: CXLAttachmentStatus = field(default_factory=CXLAttachmentStatus, shown=False)
