"""Conditions: what an object says of itself, and the closed list of reasons it may give.

A condition's `status` is the answer, `reason` is for programs, `message` is one sentence for people. The time of the
last transition moves only when `status` flips.
"""

from enum import StrEnum

from ballast_api.base import Model, field


class Type(StrEnum):
    """What a condition is about. Jobs have the first four; long-running kinds have Ready to wait for."""

    PROGRESSING = "Progressing"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"
    READY = "Ready"


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


class Condition(Model):
    """One statement of an object about itself."""

    type: Type = field("What the condition is about.")
    status: str = field("True, False or Unknown.", pattern="^(True|False|Unknown)$")
    observed_generation: int = field("Generation of the object that this was computed from.", ge=0)
    last_transition_time: str = field("When `status` last changed.", schema={"type": "string", "format": "date-time"})
    reason: Reason = field("CamelCase word for programs.")
    message: str = field("One sentence for people.", max_length=1024)
