"""Conditions: what an object says of itself, and the closed list of reasons it may give.

A condition's `status` is the answer, `reason` is for programs, `message` is one sentence for people. The time of the
last transition moves only when `status` flips.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ballast_api.base import Model, OpenAPI, field
from ballast_api.meta import Time


class Type(StrEnum):
    """What a condition is about. Jobs have the first four; long-running kinds have Ready to wait for, and the rest.

    VampActive and VampDisabled are a serving's that asks for VAMP. The last four are a memory region's: composed at the
    appliance, offered to pods, taken by a claim, not as it should.
    """

    PROGRESSING = "Progressing"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"
    READY = "Ready"
    AVAILABLE = "Available"
    AUTOSCALING = "Autoscaling"
    VAMP_ACTIVE = "VampActive"
    VAMP_DISABLED = "VampDisabled"
    COMPOSED = "Composed"
    PUBLISHED = "Published"
    ALLOCATED = "Allocated"
    DEGRADED = "Degraded"


class Reason(StrEnum):
    """Why a condition is as it is. Closed: a new way to be stuck is a new member, with its row in the docs."""

    # the object itself
    INVALID_SPEC = "InvalidSpec"
    DELETING = "Deleting"
    # what stands in the way
    CHILD_CONFLICT = "ChildConflict"
    FORBIDDEN = "Forbidden"
    QUOTA_EXCEEDED = "QuotaExceeded"
    DEPENDENCY_MISSING = "DependencyMissing"
    NO_DEFAULT_STORAGE_CLASS = "NoDefaultStorageClass"
    VOLUME_PENDING = "VolumePending"
    CLAIM_PENDING = "ClaimPending"
    DEVICE_UNAVAILABLE = "DeviceUnavailable"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CONFIG_INVALID = "ContainerConfigInvalid"
    QUEUED = "Queued"
    # a job on its way
    STARTING = "Starting"
    RUNNING = "Running"
    RETRYING = "Retrying"
    DISRUPTED = "Disrupted"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    WAITING_FOR_PODS = "WaitingForPods"
    # a job at its end
    TARGET_REACHED = "TargetReached"
    ITERATION_LIMIT = "IterationLimit"
    TIME_LIMIT = "TimeLimit"
    RESULT_TOO_LARGE = "ResultTooLarge"
    INVALID_GAME = "InvalidGame"
    CHECKPOINT_MISMATCH = "CheckpointMismatch"
    OUT_OF_MEMORY = "OutOfMemory"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    SOLVER_FAILED = "SolverFailed"
    JOB_COMPLETE = "JobComplete"
    # serving: whether it is ready
    ALL_REPLICAS_READY = "AllReplicasReady"
    SOME_REPLICAS_READY = "SomeReplicasReady"
    MODEL_LOADING = "ModelLoading"
    PODS_NOT_READY = "PodsNotReady"
    ROUTER_NOT_READY = "RouterNotReady"
    SCALED_TO_ZERO = "ScaledToZero"
    HOLDING = "Holding"
    ROLLING_OUT = "RollingOut"
    ROLLED_OUT = "RolledOut"
    ROLLOUT_BLOCKED = "RolloutBlocked"
    # serving: what is wrong with a pod
    CRASH_LOOPING = "CrashLooping"
    MODEL_NOT_FOUND = "ModelNotFound"
    INVALID_ENGINE_ARGS = "InvalidEngineArgs"
    STARTUP_TIMEOUT = "StartupTimeout"
    ENGINE_FAILED = "EngineFailed"
    # autoscaling
    FOLLOWING_LOAD = "FollowingLoad"
    DELEGATED = "Delegated"
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    AUTOSCALER_CONFLICT = "AutoscalerConflict"
    AUTOSCALER_OFF = "AutoscalerOff"
    # VAMP: how it goes, and the plugin's own reasons to stay out (ballast_vamp/reasons.py)
    BALANCING = "Balancing"
    RANKS_DISAGREE = "RanksDisagree"
    PLUGIN_MISSING = "PluginMissing"
    DRY_RUN = "DryRun"
    VERSION_MISMATCH = "VersionMismatch"
    BAD_CONFIGURATION = "BadConfiguration"
    NOT_MOE = "NotMoE"
    NO_CUDA = "NoCuda"
    NO_VMM = "NoVmm"
    UNSUPPORTED_BACKEND = "UnsupportedBackend"
    UNSUPPORTED_OPTION = "UnsupportedOption"
    HOST_MEMORY_TOO_SMALL = "HostMemoryTooSmall"
    ROUTING_TOO_FLAT = "RoutingTooFlat"
    UNKNOWN_REASON = "UnknownReason"
    # a memory region on its way
    RESERVED = "Reserved"
    COMPOSING = "Composing"
    COMPOSED = "Composed"
    PUBLISHING = "Publishing"
    PUBLISHED = "Published"
    READY = "Ready"
    ALLOCATED = "Allocated"
    NOT_ALLOCATED = "NotAllocated"
    HEALTHY = "Healthy"
    # a memory region on its way out
    DRAINING = "Draining"
    DETACHING = "Detaching"
    SCRUBBING = "Scrubbing"
    RETAINED = "Retained"
    # what stands in a memory region's way, or in a blade's
    NO_BLADE = "NoBlade"
    NO_FREE_PORT = "NoFreePort"
    APPLIANCE_UNREACHABLE = "ApplianceUnreachable"
    GEOMETRY_CHANGED = "GeometryChanged"
    DRIFT = "Drift"
    COMPOSE_FAILED = "ComposeFailed"
    MEMORY_LOST = "MemoryLost"
    NODE_LOST = "NodeLost"
    FENCE_FAILED = "FenceFailed"
    SCRUB_FAILED = "ScrubFailed"
    QUARANTINED = "Quarantined"


# The schema takes any CamelCase word, though the lists above are closed: an operator that is newer than the installed
# schema must still be able to say why something is stuck.
_WORD = OpenAPI({"type": "string", "pattern": "^[A-Za-z]([A-Za-z0-9_,:.-]*[A-Za-z0-9])?$", "maxLength": 128})
_ANSWERS = ["True", "False", "Unknown"]


class Condition(Model):
    """One statement of an object about itself."""

    type: Annotated[Type, _WORD] = field("What the condition is about.")
    status: Annotated[str, Field(pattern="^(True|False|Unknown)$"), OpenAPI({"type": "string", "enum": _ANSWERS})] = (
        field("Whether the statement holds.")
    )
    observed_generation: int = field("Generation of the object that this was computed from.", ge=0)
    last_transition_time: Time = field("When `status` last changed.")
    reason: Annotated[Reason, _WORD] = field("One word for programs that says why.")
    message: str = field("One sentence for people: what happened or is in the way, with names.", max_length=1024)


def readable(conditions: Any) -> Any:
    """Leave out what this version cannot read: another controller's condition, or a reason of a newer operator.

    A stored status must never keep an object from being reconciled; the operator writes its own conditions anyway.
    """
    if not isinstance(conditions, list):
        return conditions
    return [
        c for c in conditions if isinstance(c, Condition) or (c.get("type") in _TYPES and c.get("reason") in _REASONS)
    ]


_TYPES = frozenset(Type)
_REASONS = frozenset(Reason)
Conditions = Annotated[list[Condition], BeforeValidator(readable)]
