"""MoEServing: replicas of an inference engine behind one address, which holds requests while no replica is ready."""

from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from ballast_api import core
from ballast_api.autoscaling import Autoscaling
from ballast_api.base import Column, Kind, Model, Rule, field
from ballast_api.conditions import Conditions
from ballast_api.engine import Engine, ModelSource, Parallelism
from ballast_api.meta import Metadata, SecretKeyRef, Size, Time
from ballast_api.template import PodTemplate, Template
from ballast_api.vamp import RULES as VAMP_RULES
from ballast_api.vamp import Vamp


class RoutingPolicy(StrEnum):
    """How the router chooses a replica."""

    PREFIX_AWARE = "PrefixAware"
    SESSION_AWARE = "SessionAware"
    LEAST_LOADED = "LeastLoaded"
    ROUND_ROBIN = "RoundRobin"


class AccessMode(StrEnum):
    """Who may mount the cache's volume."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_WRITE_MANY = "ReadWriteMany"


class DeviceClaim(Model):
    """Devices of one pod by dynamic resource allocation (DRA), instead of an extended resource in `resources`."""

    device_class_name: str = field(
        "DeviceClass that the devices are of.", min_length=1, max_length=253, examples=["gpu.nvidia.com"]
    )
    count: int = field("Devices of one pod.", default=1, ge=1, le=32)
    selectors: list[str] = field(
        "CEL expressions that a device must fulfil, as in a ResourceClaim.", default_factory=list, max_items=8
    )


class Startup(Model):
    """How long a replica may take until it serves."""

    timeout_seconds: int = field(
        "Seconds from the start of the container until the model is loaded; then it is started again.",
        default=900,
        ge=10,
        le=86400,
    )


class Drain(Model):
    """How a replica ends."""

    timeout_seconds: int = field(
        "Seconds that running requests get to finish when a pod is deleted.", default=120, ge=1, le=7200
    )


class Rollout(Model):
    """How replicas are replaced when the spec changes. Unset: a new one first if the cluster has room for it, else one
    after the other. maxSurge and maxUnavailable go together."""

    rules: ClassVar = (
        Rule(
            "has(self.maxSurge) == has(self.maxUnavailable)",
            "rollout takes maxSurge and maxUnavailable together; add the other one, or remove both",
        ),
        Rule(
            "!has(self.maxSurge) || !has(self.maxUnavailable) || self.maxSurge + self.maxUnavailable > 0",
            "rollout.maxSurge and rollout.maxUnavailable must not both be 0, which would allow no step; raise one",
        ),
    )

    max_surge: int | None = field("Replicas more than asked for during a rollout.", absent=None, ge=0, le=1000)
    max_unavailable: int | None = field("Replicas fewer than asked for during a rollout.", absent=None, ge=0, le=1000)


class Hold(Model):
    """What becomes of requests while no replica is ready: they wait in the router."""

    max_requests: int = field(
        "Requests that one pod of the router holds; further ones get 503.", default=256, ge=0, le=100000
    )
    timeout_seconds: int = field("Seconds that a request is held; then it gets 503.", default=600, ge=1, le=7200)


class Router(Model):
    """The pods in front of the replicas: they choose a replica, and hold requests while none is ready."""

    policy: RoutingPolicy = field(
        "How a replica is chosen. PrefixAware: requests with the same beginning go to one replica, whose cache has it, "
        "unless that one has too much to do. SessionAware: requests of one session (header X-Session-ID) stay "
        "together. LeastLoaded: of two replicas the one with fewer requests. RoundRobin: one after the other.",
        default=RoutingPolicy.PREFIX_AWARE,
    )
    replicas: int = field("Pods of the router.", default=2, ge=1, le=100)
    hold: Hold = field(default_factory=Hold)
    template: Template = field(default_factory=Template)


class GatewayRef(Model):
    """A Gateway of the Gateway API."""

    name: str = field("Name of the Gateway.", min_length=1, max_length=253)
    namespace: str | None = field(
        "Namespace of the Gateway. Unset: that of the object.", absent=None, min_length=1, max_length=63
    )


class Access(Model):
    """Who reaches the model, and from where. Unset: pods of the cluster, without a key."""

    rules: ClassVar = (
        Rule(
            "!has(self.hostnames) || has(self.gatewayRef)",
            "access.hostnames are names at a Gateway; add access.gatewayRef or remove them",
            ".hostnames",
        ),
    )

    api_key_secret_ref: SecretKeyRef | None = field(
        "Secret with the key that requests must carry as a bearer token. Its key is `api-key` if unset. Unset: none is "
        "asked for.",
        absent=None,
    )
    gateway_ref: GatewayRef | None = field(
        "Gateway that a route to the model is attached to (HTTPRoute, of the Gateway API).", absent=None
    )
    hostnames: list[str] = field(
        "Names that the route answers to. Unset: all of the Gateway's.", default_factory=list, max_items=16
    )


class CacheClaim(Model):
    """A PersistentVolumeClaim of this namespace."""

    claim_name: str = field("Name of the PersistentVolumeClaim, in this namespace.", min_length=1, max_length=253)


class Cache(Model):
    """Where downloaded weights and compiled kernels lie. Unset: in each pod, lost with it. At most one of
    persistentVolumeClaim and size."""

    at_most_one_of: ClassVar = ("persistentVolumeClaim", "size")
    rules: ClassVar = (
        Rule(
            "has(self.size) || !has(self.storageClassName) && !has(self.accessMode)",
            "cache.storageClassName and cache.accessMode are for the volume that the operator makes; add cache.size or "
            "remove them",
        ),
    )

    persistent_volume_claim: CacheClaim | None = field(
        "A volume of yours; it outlives the object. Replicas on several nodes need one that all of them can mount.",
        absent=None,
    )
    size: Size | None = field(
        "Size of a volume that the operator makes, called NAME-cache; it goes with the object.", absent=None
    )
    storage_class_name: str | None = field(
        "StorageClass of the volume that the operator makes. Unset: the cluster's default.",
        absent=None,
        min_length=1,
        max_length=253,
    )
    access_mode: AccessMode | None = field(
        "Whether pods on several nodes may mount it. Unset: ReadWriteMany.", absent=None
    )


OWN_VOLUMES = ("scratch", "cache", "shm", "model", "vamp-profile")
OWN_FOLDERS = ("/tmp", "/ballast", "/dev/shm")


class MoEServingSpec(Model):
    """What to serve, and how. Every field can change later; a change of the engine's pods rolls them out."""

    rules: ClassVar = (
        Rule(
            "!has(self.template) || !has(self.template.volumes)"
            f" || !self.template.volumes.exists(v, v.name in {list(OWN_VOLUMES)!r})",
            f"template.volumes: {', '.join(OWN_VOLUMES)} are the engine's own volumes; use another name",
            ".template.volumes",
        ),
        Rule(
            "!has(self.template) || !has(self.template.volumeMounts)"
            f" || !self.template.volumeMounts.exists(m, m.mountPath in {list(OWN_FOLDERS)!r}"
            " || m.mountPath.startsWith('/ballast/'))",
            f"template.volumeMounts: {', '.join(OWN_FOLDERS)} are the engine's own folders; mount the volume elsewhere",
            ".template.volumeMounts",
        ),
        Rule(
            "!has(self.devices) || !has(self.template) || !has(self.template.resourceClaims)"
            " || !self.template.resourceClaims.exists(c, c.name == 'devices')",
            "template.resourceClaims: devices is the name of the claim made for spec.devices; use another name",
            ".template.resourceClaims",
        ),
        *VAMP_RULES,
    )

    model: ModelSource = field()
    replicas: int = field(
        "Replicas of the engine. Leave it out of what you apply where something else scales: `kubectl scale`, an "
        "autoscaler.",
        default=1,
        ge=0,
        le=1000,
    )
    engine: Engine = field(default_factory=Engine)
    parallelism: Parallelism = field(default_factory=Parallelism)
    resources: core.ResourceRequirements | None = field(
        "Requests, limits and claims of each pod of the engine. With a device (`nvidia.com/gpu: 1`, or a claim) the "
        "installation's GPU image is used, without one its CPU image.",
        absent=None,
    )
    devices: DeviceClaim | None = field(absent=None)
    autoscaling: Autoscaling | None = field(absent=None)
    startup: Startup = field(default_factory=Startup)
    drain: Drain = field(default_factory=Drain)
    rollout: Rollout = field(default_factory=Rollout)
    router: Router = field(default_factory=Router)
    access: Access = field(default_factory=Access)
    cache: Cache = field(default_factory=Cache)
    shared_memory: Size = field("Size of /dev/shm in each pod of the engine.", default="1Gi")
    vamp: Vamp | None = field(absent=None)
    template: PodTemplate = field(default_factory=PodTemplate)


class PodProblem(Model):
    """What is wrong with one pod."""

    model_config = ConfigDict(extra="ignore")

    pod: str = field("Name of the pod.")
    reason: str = field("One word, as in a condition.")
    message: str = field("One sentence.", max_length=1024)


class MetricStatus(Model):
    """A metric as it was last measured."""

    model_config = ConfigDict(extra="ignore")

    type: str = field("Which metric.")
    current: str | None = field("Measured average of the replicas. Absent: it could not be measured.", absent=None)
    target: str = field("What the average should be.")


class AutoscalingStatus(Model):
    """What the autoscaler of mode Operator last saw and did."""

    model_config = ConfigDict(extra="ignore")

    desired_replicas: int | None = field("Replicas that it last asked for.", absent=None)
    last_scale_time: Time | None = field("When it last changed the number of replicas.", absent=None)
    metrics: list[MetricStatus] = field("Metrics, as last measured.", default_factory=list, max_items=8)


class MoEServingStatus(Model):
    """How the serving is going, as the operator sees it."""

    model_config = ConfigDict(extra="ignore")

    observed_generation: int | None = field("Generation of the spec that this describes.", absent=None)
    url: str | None = field("Address of the OpenAI-compatible API within the cluster.", absent=None)
    model: str | None = field("Name that clients put into `model` of a request.", absent=None)
    image: str | None = field("Image of the engine. It stays until the spec changes.", absent=None)
    revision: str | None = field("Revision of the engine's pods that the spec asks for.", absent=None)
    replicas: int | None = field("Pods, or groups of pods, that there are.", absent=None)
    updated_replicas: int | None = field("Replicas of the present revision.", absent=None)
    available_replicas: int | None = field("Replicas that serve.", absent=None)
    held_requests: int | None = field("Requests that the router holds, since no replica is ready.", absent=None)
    selector: str | None = field("Label selector of the engine's pods, for autoscalers.", absent=None)
    autoscaling: AutoscalingStatus | None = field(absent=None)
    problems: list[PodProblem] = field(
        "What is wrong with single pods, at most five.", default_factory=list, max_items=5
    )
    conditions: Conditions = field(
        "What the object says of itself: Ready (all replicas serve what the spec asks for), Available (requests are "
        "answered, if after a wait), Progressing (a rollout goes on), Autoscaling (replicas follow the load), "
        "VampActive (every replica moves memory between experts and KV cache), VampDisabled (one does not, and why).",
        default_factory=list,
        list_map_keys=["type"],
        max_items=32,
    )


class MoEServing(Kind):
    """MoEServing serves a model with vLLM: as many replicas as asked for, behind one address that never refuses while
    they are scaled, rolled out or moved."""

    kind: ClassVar[str] = "MoEServing"
    plural: ClassVar[str] = "moeservings"
    short_names: ClassVar = ("moe",)
    child_suffixes: ClassVar = ("-replicas", "-engine", "-router", "-cache", "-engine-999-0123456789")
    scaled: ClassVar[bool] = True
    rules: ClassVar = (
        Rule(
            "self.metadata.name.matches('^[a-z]')",
            "metadata.name of a MoEServing begins with a letter, since a Service is named after it; use another name",
        ),
    )
    columns: ClassVar = (
        Column("Model", ".status.model"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        Column("Desired", ".spec.replicas", type="integer"),
        Column("Updated", ".status.updatedReplicas", type="integer"),
        Column("Available", ".status.availableReplicas", type="integer"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
        Column("URL", ".status.url", priority=1),
        Column("VAMP", '.status.conditions[?(@.type=="VampActive")].status', priority=1),
        Column("Image", ".status.image", priority=1),
        Column("Selector", ".status.selector", priority=1),
    )

    metadata: Metadata = field()
    spec: MoEServingSpec = field()
    status: MoEServingStatus = field(default_factory=MoEServingStatus)
