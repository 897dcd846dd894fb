"""What a machine must have, asked before anything is built: each answer is one sentence with the ways out."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from e2e.cluster import build, cache, shell
from e2e.cluster.cgroups import Cgroups
from e2e.cluster.errors import ClusterError
from e2e.cluster.versions import CORE

OTHERWISE = "or use CLUSTER=kind (needs Docker) or KUBECONFIG=... (any cluster)"
BUILD_BYTES = 9_000_000_000  # Go modules, Go's build cache and the programs
RUN_BYTES = 1_000_000_000


def check() -> None:
    """Raise ClusterError for the first thing that is missing."""
    if platform.system() != "Linux" or platform.machine() not in {"x86_64", "aarch64"}:
        machine = f"{platform.system()} on {platform.machine()}"
        raise ClusterError(f"the local cluster runs on Linux (x86_64, aarch64), not on {machine}; {OTHERWISE[3:]}")
    if os.geteuid() != 0:
        raise ClusterError(f"the local cluster needs root for namespaces and cgroups; run it with sudo -E, {OTHERWISE}")
    _namespaces()
    _overlay()
    Cgroups.detect()
    _disk()


def _namespaces() -> None:
    tried = shell.attempt("unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "true")
    if tried.returncode:
        raise ClusterError(
            f"this system does not let root make namespaces ({tried.stderr.strip()}); run on the machine itself or in "
            f"a privileged container, {OTHERWISE}"
        )


def _overlay() -> None:
    known = Path("/proc/filesystems").read_text()
    if "\toverlay\n" not in known and shell.attempt("modprobe", "overlay").returncode:
        raise ClusterError(f"the kernel has no overlay file system, which containers are made of; load it, {OTHERWISE}")


def _disk() -> None:
    needed = RUN_BYTES if all(map(build.built, CORE)) else BUILD_BYTES
    free = shutil.disk_usage(cache.folder("bin")).free
    if free < needed:
        raise ClusterError(
            f"{cache.root()} has {free / 1e9:.1f} GB of disk left and {needed / 1e9:.0f} GB are needed; free some, or "
            "set XDG_CACHE_HOME to a place on a larger disk"
        )
