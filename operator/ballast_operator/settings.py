"""What an installation decides, read once from the environment (the chart sets it)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True)
class Settings:
    """All settings of the operator. Field docs give the variable and the default."""

    namespaces: tuple[str, ...] = ()
    """BALLAST_NAMESPACES, comma-separated: watch these only, with Roles instead of ClusterRoles. Empty: all."""
    cfr_image: str = "docker.io/ballast/cfr:dev"
    """BALLAST_CFR_IMAGE: image of the CFR solver."""
    cfr_gpu_image: str = "docker.io/ballast/cfr-gpu:dev"
    """BALLAST_CFR_GPU_IMAGE: the same, for pods that have a GPU."""
    image_pull_policy: str = "IfNotPresent"
    """BALLAST_IMAGE_PULL_POLICY: of the pods that the operator makes."""
    image_pull_secrets: tuple[str, ...] = ()
    """BALLAST_IMAGE_PULL_SECRETS, comma-separated: added to every pod that the operator makes."""
    lease_name: str = "ballast-operator"
    """BALLAST_LEASE_NAME; empty: no election, for a single process run by hand."""
    lease_namespace: str = "ballast-system"
    """POD_NAMESPACE: where the Lease lies."""
    workers: int = 8
    """BALLAST_WORKERS: objects reconciled at once."""
    resync_seconds: int = 600
    """BALLAST_RESYNC_SECONDS: how often everything is listed anew, against watch events that never came."""
    stall_seconds: int = 120
    """BALLAST_STALL_SECONDS: after which a stuck queue or worker makes /healthz fail."""
    metrics_port: int = 8080
    """BALLAST_METRICS_PORT: /metrics; 0 for any free port."""
    health_port: int = 8081
    """BALLAST_HEALTH_PORT: /healthz and /readyz; 0 for any free port."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Raises ValueError naming the variable that is not what it should be."""
        return read(cls, environment, "BALLAST_")


S = TypeVar("S")


def read(kind: type[S], environment: Mapping[str, str], prefix: str) -> S:
    """Settings of a dataclass with defaults: field `x` is the variable PREFIX_X, but for where the process runs."""
    values: dict[str, object] = {}
    for name in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        variable = "POD_NAMESPACE" if name == "lease_namespace" else f"{prefix}{name.upper()}"
        if (text := environment.get(variable)) is not None:
            values[name] = _parse(variable, text, getattr(kind, name))
    return kind(**values)


def _parse(variable: str, text: str, default: object) -> object:
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, int):
        if not text.isdigit():
            raise ValueError(f"{variable} must be a whole number, not {text!r}")
        return int(text)
    return text
