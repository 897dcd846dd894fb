"""What an installation decides about the node plugin, read once from the environment (the chart sets it)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """All settings. Field docs give the variable and the default; times are in seconds."""

    node: str
    """BALLAST_CXL_NODE_NAME: of the node that the plugin runs on."""
    host: str = "linux"
    """BALLAST_CXL_HOST: `linux` for real devices, `emulated` for the emulator's."""
    emulated_root: Path = Path("/run/ballast-cxl")
    """BALLAST_CXL_EMULATED_ROOT: the emulator's folder, the same path for plugin, kubelet and runtime."""
    kubelet: Path = Path("/var/lib/kubelet")
    """BALLAST_CXL_KUBELET_DIR: kubelet's root folder; the plugin's own lies in it."""
    cdi: Path = Path("/var/run/cdi")
    """BALLAST_CXL_CDI_DIR: where the container runtime looks for files of devices that come and go."""
    namespace: str = "ballast-drivers"
    """POD_NAMESPACE: where the Lease of the node lies."""
    instance: str = ""
    """POD_UID: part of the sockets' names, so that two plugins can run side by side during an update."""
    prepare_seconds: float = 30.0
    """BALLAST_CXL_PREPARE_SECONDS: how long kubelet's call waits before it is told to retry; kubelet gives up at 45."""
    renew_seconds: float = 5.0
    """BALLAST_CXL_RENEW_SECONDS: how often the node's Lease is renewed and every device is looked at."""
    lease_seconds: float = 20.0
    """BALLAST_CXL_LEASE_SECONDS: after which the controller may take a silent node's devices away at the fabric."""
    stall_seconds: float = 120.0
    """BALLAST_CXL_STALL_SECONDS: without a pass over the devices, after which /healthz fails."""
    health_port: int = 8081
    """BALLAST_CXL_HEALTH_PORT: /healthz and /metrics; 0 for any free port."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Raises ValueError naming the variable that is missing or is not what it should be."""
        values: dict[str, object] = {}
        for name, variable in _VARIABLES.items():
            if (text := environment.get(variable)) is not None:
                values[name] = _parse(variable, text, getattr(cls, name, ""))
        if not values.get("node"):
            raise ValueError(f"{_VARIABLES['node']} must name the node that the plugin runs on")
        if values.get("host", cls.host) not in ("linux", "emulated"):
            raise ValueError(f"{_VARIABLES['host']} must be linux or emulated, not {values['host']!r}")
        return cls(**values)  # type: ignore[arg-type]

    @property
    def folder(self) -> Path:
        """The plugin's own: sockets, checkpoint, lock."""
        return self.kubelet / "plugins" / "cxl.ballast.dev"

    @property
    def registry(self) -> Path:
        """Where kubelet looks for sockets of plugins."""
        return self.kubelet / "plugins_registry"


_VARIABLES = {
    "node": "BALLAST_CXL_NODE_NAME",
    "host": "BALLAST_CXL_HOST",
    "emulated_root": "BALLAST_CXL_EMULATED_ROOT",
    "kubelet": "BALLAST_CXL_KUBELET_DIR",
    "cdi": "BALLAST_CXL_CDI_DIR",
    "namespace": "POD_NAMESPACE",
    "instance": "POD_UID",
    "prepare_seconds": "BALLAST_CXL_PREPARE_SECONDS",
    "renew_seconds": "BALLAST_CXL_RENEW_SECONDS",
    "lease_seconds": "BALLAST_CXL_LEASE_SECONDS",
    "stall_seconds": "BALLAST_CXL_STALL_SECONDS",
    "health_port": "BALLAST_CXL_HEALTH_PORT",
}


def _parse(variable: str, text: str, default: object) -> object:
    if isinstance(default, Path):
        return Path(text)
    if isinstance(default, int):
        if not text.isdigit():
            raise ValueError(f"{variable} must be a port, not {text!r}")
        return int(text)
    if isinstance(default, float):
        try:
            number = float(text)
        except ValueError:
            number = 0
        if number <= 0:
            raise ValueError(f"{variable} must be a number of seconds above 0, not {text!r}")
        return number
    return text
