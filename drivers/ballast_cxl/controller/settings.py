"""What an installation decides about the region controller, read once from the environment (the chart sets it)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ballast_operator.settings import read

LEAKS = ("Report", "Free")


@dataclass(frozen=True)
class Settings:
    """All settings. Field docs give the variable and the default; times are in seconds."""

    namespaces: tuple[str, ...] = ()
    """BALLAST_CXL_NAMESPACES: regions of these only. Empty: all."""
    lease_name: str = "ballast-cxl"
    """BALLAST_CXL_LEASE_NAME; empty: no election. The ledger is right without one; it only saves work."""
    lease_namespace: str = "ballast-system"
    """POD_NAMESPACE: where the Lease, the grants and the appliances' credentials lie."""
    drivers_namespace: str = "ballast-drivers"
    """BALLAST_CXL_DRIVERS_NAMESPACE: where the node plugins' Leases lie."""
    workers: int = 8
    """BALLAST_CXL_WORKERS: objects looked after at once."""
    resync_seconds: int = 600
    """BALLAST_CXL_RESYNC_SECONDS: how often everything is listed anew, against watch events that never came."""
    stall_seconds: int = 120
    """BALLAST_CXL_STALL_SECONDS: after which a stuck queue or worker makes /healthz fail."""
    metrics_port: int = 8080
    """BALLAST_CXL_METRICS_PORT: /metrics; 0 for any free port."""
    health_port: int = 8081
    """BALLAST_CXL_HEALTH_PORT: /healthz and /readyz; 0 for any free port."""
    call_seconds: int = 8
    """BALLAST_CXL_CALL_SECONDS: for one request to an appliance."""
    rest_seconds: int = 10
    """BALLAST_CXL_REST_SECONDS: that an appliance is left alone after it was silent three times."""
    operation_seconds: int = 30
    """BALLAST_CXL_OPERATION_SECONDS: that a process may take for one operation at an appliance, until another may take
    it over. It must be longer than an appliance can work on a request that it has been sent."""
    node_lost_seconds: int = 40
    """BALLAST_CXL_NODE_LOST_SECONDS: without a sign of a node's plugin, after which the node may be cut off."""
    fence_seconds: int = 300
    """BALLAST_CXL_FENCE_SECONDS: of trying to cut a node off, after which the region's blocks go into quarantine."""
    scrub_seconds: int = 3600
    """BALLAST_CXL_SCRUB_SECONDS: of trying to overwrite a region, after which its blocks go into quarantine."""
    deletion_seconds: int = 7200
    """BALLAST_CXL_DELETION_SECONDS: of a deletion, after which the object goes and its blocks go into quarantine."""
    sweep_seconds: int = 60
    """BALLAST_CXL_SWEEP_SECONDS: between two comparisons of a ledger with its appliance."""
    leak_seconds: int = 600
    """BALLAST_CXL_LEAK_SECONDS: that memory must be without an owner before anything is done about it."""
    leaks: str = "Report"
    """BALLAST_CXL_LEAKS: Report memory that the ledger knows nothing of, or Free it after overwriting it."""
    publish_seconds: int = 30
    """BALLAST_CXL_PUBLISH_SECONDS: between two comparisons of the ResourceSlices with what they should be."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Raises ValueError naming the variable that is not what it should be."""
        settings = read(cls, environment, "BALLAST_CXL_")
        if settings.leaks not in LEAKS:
            raise ValueError(f"BALLAST_CXL_LEAKS must be {' or '.join(LEAKS)}, not {settings.leaks!r}")
        if settings.operation_seconds <= settings.call_seconds:
            raise ValueError(
                f"BALLAST_CXL_OPERATION_SECONDS must be more than BALLAST_CXL_CALL_SECONDS ({settings.call_seconds}), "
                f"not {settings.operation_seconds}"
            )
        return settings
