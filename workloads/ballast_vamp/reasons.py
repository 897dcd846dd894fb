"""Why VAMP stays out. One closed list: the metric `vamp:disabled_info` and the operator's condition use these words."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason, as the label `reason` of `vamp:disabled_info` has it."""

    VERSION_MISMATCH = "VersionMismatch"
    BAD_CONFIGURATION = "BadConfiguration"
    NOT_MOE = "NotMoE"
    NO_CUDA = "NoCuda"
    NO_VMM = "NoVmm"
    UNSUPPORTED_BACKEND = "UnsupportedBackend"
    UNSUPPORTED_OPTION = "UnsupportedOption"
    HOST_MEMORY_TOO_SMALL = "HostMemoryTooSmall"
    ROUTING_TOO_FLAT = "RoutingTooFlat"
    DRY_RUN = "DryRun"


class Disabled(Exception):
    """VAMP does not move pages here. Never fatal: vLLM is served as it is without the plugin."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"
