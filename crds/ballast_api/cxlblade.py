"""CXLBlade: one blade of a memory appliance. Its status is the ledger of who holds which block."""

from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from ballast_api.base import Column, Kind, Model, Rule, field
from ballast_api.conditions import Conditions
from ballast_api.meta import Amount, LocalObjectReference, Metadata, Time


class Protocol(StrEnum):
    """What the appliance speaks."""

    CFM = "CFM"
    REDFISH = "Redfish"


class Contiguity(StrEnum):
    """Whether the blocks of one region must lie side by side."""

    REQUIRED = "Required"
    NONE = "None"


class Drain(StrEnum):
    """Whether a blade is being emptied."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class ReservationState(StrEnum):
    """What a region's blocks are in. None of them is free in any of these."""

    RESERVED = "Reserved"
    COMPOSED = "Composed"
    LOST = "Lost"
    SCRUBBING = "Scrubbing"
    QUARANTINED = "Quarantined"


class AttachmentState(StrEnum):
    """What a region's connection to one node is in."""

    ASSIGNING = "Assigning"
    ASSIGNED = "Assigned"
    DETACHING = "Detaching"
    FENCED = "Fenced"


class Appliance(Model):
    """How the appliance is reached. Only the region controller talks to it."""

    immutable_but_for: ClassVar = ("protocol", "url", "redfishURL", "credentialsSecretRef")

    name: str = field("What the appliance is called at `url`.", min_length=1, max_length=63)
    protocol: Protocol = field(
        "CFM: Seagate's Composable Fabric Manager, with Redfish for what it does not tell. Redfish: Redfish alone.",
        default=Protocol.CFM,
    )
    url: str = field(
        "Address of the service, without a path.",
        pattern="^https?://[^/ ]+$",
        max_length=253,
        examples=["http://cfm.example.com:8080"],
    )
    redfish_url: str | None = field(
        "Address of the Redfish service, if it is not at `url` as well.",
        absent=None,
        pattern="^https?://[^/ ]+$",
        max_length=253,
        alias="redfishURL",
    )
    credentials_secret_ref: LocalObjectReference | None = field(
        "Secret with the keys username and password, in the region controller's namespace. Unset: none are sent.",
        absent=None,
    )


class Port(Model):
    """One port of the blade and the node at the other end of its cable. A port carries one region at a time."""

    name: str = field("What the appliance calls the port.", min_length=1, max_length=63)
    node: str = field("Name of the node.", min_length=1, max_length=63)
    host_port: str | None = field("What the node calls its end.", absent=None, max_length=63)


class CXLBladeSpec(Model):
    """Which blade of which appliance, and which nodes it is cabled to."""

    immutable_but_for: ClassVar = ("class", "ports", "appliance", "drain", "releaseQuarantined")
    rules: ClassVar = (
        Rule(
            "!has(self.ports) || self.ports.all(p, !p.name.contains('/'))",
            "ports: a name takes no '/'; write it as the appliance does",
            ".ports",
        ),
    )

    class_: str = field(
        "Class that regions ask for by their spec.class.",
        default="default",
        alias="class",
        pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
    )
    appliance: Appliance = field()
    blade: str = field("What the appliance calls the blade.", min_length=1, max_length=63)
    contiguity: Contiguity = field(
        "Required: a region's blocks are consecutive on every channel, as on a Seagate appliance. None: any blocks.",
        default=Contiguity.REQUIRED,
    )
    ports: list[Port] = field(
        "Ports of the blade and the nodes they lead to. A node that is not here cannot use the blade's memory.",
        default_factory=list,
        list_map_keys=["name"],
        max_items=1024,
    )
    drain: Drain = field(
        "NoSchedule: nothing new is placed on the blade. NoExecute: pods that use its memory are evicted as well, so "
        "that it can be taken out.",
        default=Drain.NONE,
    )
    release_quarantined: list[str] = field(
        "Identities of reservations in quarantine that may be overwritten with zeros and freed.",
        default_factory=list,
        max_items=1024,
    )


class Geometry(Model):
    """How the blade is divided, as the appliance told when it was first asked. Block number = row * channels + channel.

    A change of it stops all placement, since the numbers in the ledger would mean other blocks."""

    model_config = ConfigDict(extra="ignore")

    channels: int = field("Channels that a region is spread over.", ge=1)
    blocks_per_channel: int = field("Blocks on each channel; blocks of one number on all channels are a row.", ge=1)
    block_size: Amount = field("Bytes of one block.")


class LedgerAttachment(Model):
    """A region's connection to one node, at the fabric."""

    model_config = ConfigDict(extra="ignore")

    node: str = field("Name of the node.")
    port: str = field("Port of the blade.")
    generation: int = field("Number of this connection; a later one of the same region has a larger one.", ge=0)
    state: AttachmentState = field("Assigning, Assigned, Detaching or Fenced.")


class Reservation(Model):
    """Who holds some blocks. Blocks of any entry, whatever its state, are nobody else's."""

    model_config = ConfigDict(extra="ignore")

    uid: str = field("Identity of the region, and of every operation for it.")
    namespace: str = field("Namespace of the region.")
    name: str = field("Name of the region.")
    blocks: list[int] = field("Numbers of the blocks.", default_factory=list)
    generation: int = field("Number of the reservation; grows whenever the blocks were overwritten with zeros.", ge=0)
    state: ReservationState = field("Reserved, Composed, Lost, Scrubbing or Quarantined.")
    memory_id: str | None = field(
        "What the appliance calls the composed memory. Unset: nothing is composed.", absent=None
    )
    zeroed: bool = field(
        "Whether the bytes were overwritten with zeros and read back after the last use.", default=False
    )
    retired: Time | None = field("When the region was given up, and overwriting with zeros began.", absent=None)
    operation: str | None = field("What is being done at the appliance now. Unset: nothing.", absent=None)
    holder: str | None = field("Process that does it.", absent=None)
    deadline: Time | None = field("When another process may take the operation over.", absent=None)
    claim: str | None = field(
        "Uid of the ResourceClaim whose allocation chose the blocks. Unset: the controller did.", absent=None
    )
    retain: bool = field(
        "Whether the bytes are kept, in quarantine, once the region is gone: its reclaimPolicy is Retain. It is read "
        "here when somebody took the region's finalizer off.",
        default=False,
    )
    message: str | None = field("Why the blocks are in quarantine.", absent=None)
    attachments: list[LedgerAttachment] = field(
        "Nodes that are connected.", default_factory=list, list_map_keys=["node"], max_items=1024
    )


class Drift(Model):
    """Memory at the appliance that the ledger knows nothing of."""

    model_config = ConfigDict(extra="ignore")

    memory_id: str = field("What the appliance calls it.")
    blocks: list[int] = field("Numbers of its blocks.", default_factory=list)
    since: Time = field("When it was first seen.")
    message: str | None = field("What will be done about it.", absent=None)


class Observed(Model):
    """What the ledger comes to."""

    model_config = ConfigDict(extra="ignore")

    size: Amount = field("Bytes of the blade.", default="0")
    free: Amount = field("Bytes that nobody holds.", default="0")
    largest_extent: Amount = field("Bytes of the largest region that could be placed now.", default="0")
    regions: int = field("Entries of the ledger.", default=0, ge=0)


class CXLBladeStatus(Model):
    """The ledger. Every change of it is one compare-and-swap by resource version, so two can never take one block."""

    model_config = ConfigDict(extra="ignore")

    observed_generation: int | None = field("Generation of the spec that this describes.", absent=None)
    epoch: int = field("Counts the changes of the ledger.", default=0, ge=0)
    geometry: Geometry | None = field(absent=None)
    reservations: list[Reservation] = field(
        "Who holds which blocks.", default_factory=list, list_map_keys=["uid"], max_items=4096
    )
    drift: list[Drift] = field(
        "Memory at the appliance that the ledger knows nothing of.",
        default_factory=list,
        list_map_keys=["memoryId"],
        max_items=4096,
    )
    observed: Observed = field(default_factory=Observed, shown=False)
    conditions: Conditions = field(
        "What the blade says of itself: Ready, Degraded.",
        default_factory=list,
        list_map_keys=["type"],
        max_items=32,
    )


class CXLBlade(Kind):
    """CXLBlade is one blade of a memory appliance, with the nodes that are cabled to it.

    Its status is the ledger of who holds which block; only the region controller writes it."""

    kind: ClassVar[str] = "CXLBlade"
    plural: ClassVar[str] = "cxlblades"
    namespaced: ClassVar[bool] = False
    short_names: ClassVar = ("cxlb",)
    columns: ClassVar = (
        Column("Class", ".spec.class"),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        Column("Size", ".status.observed.size"),
        Column("Free", ".status.observed.free"),
        Column("Largest", ".status.observed.largestExtent"),
        Column("Regions", ".status.observed.regions", type="integer"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
        Column("Drain", ".spec.drain", priority=1),
        Column("Appliance", ".spec.appliance.url", priority=1),
    )

    metadata: Metadata = field()
    spec: CXLBladeSpec = field()
    status: CXLBladeStatus = field(default_factory=CXLBladeStatus, shown=False)
