"""What the clusters of this machine share: who has which slot, and how the machine looked before.

A small folder of records, under one lock. The first cluster notes the kernel settings that it is going to change and
the folders that it has to make; the last one to go puts both back and removes the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from e2e.cluster import shell
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import SLOTS, Layout

RECORDS = Path("/var/lib/ballast-cluster")

# kubelet sets the vm.* and kernel.* ones for the whole machine, whatever namespace it runs in.
SYSCTLS = (
    "net.ipv4.ip_forward",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.keys.root_maxkeys",
    "kernel.keys.root_maxbytes",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
)

# Each kubelet and each control plane watch with several inotify instances, and pods with more; where nobody set it, a
# user has 128, for all clusters and whatever else runs.
WATCHES = {"max_user_instances": 1024, "max_user_watches": 524288}

# Each node has its own of these; the machine only lends the place to mount them on.
MOUNT_POINTS = {
    "kubelet": "/var/lib/kubelet",
    "containerd": "/var/lib/containerd",
    "cni": "/var/lib/cni",
    "run": "/run/containerd",
    "run-netns": "/run/netns",
    "run-cdi": "/run/cdi",
    "run-nri": "/run/nri",
    "etc-cni": "/etc/cni/net.d",
    "etc-cdi": "/etc/cdi",
    "log-pods": "/var/log/pods",
    "log-containers": "/var/log/containers",
}


class Host:
    """The records of one machine. `records` and `proc` differ only in tests."""

    def __init__(self, records: Path | None = None, proc: Path = Path("/proc/sys")) -> None:
        self.records, self.proc = records or RECORDS, proc

    def find(self, checkout: Path) -> Layout | None:
        """The cluster that this checkout has, running or not."""
        for file in self.records.glob("slot-*.json"):
            if json.loads(file.read_text())["checkout"] == str(checkout):
                return Layout(checkout, int(file.stem.removeprefix("slot-")))
        return None

    def claim(self, checkout: Path, mount_points: list[Path]) -> Layout:
        """The checkout's slot, an old one or a free one, with the machine noted down and its folders made."""
        with self._locked():
            layout = self.find(checkout) or self._free(checkout)
            self._remember(mount_points)
            _write(self.records / f"slot-{layout.slot}.json", {"checkout": str(checkout)})
            return layout

    def release(self, layout: Layout) -> None:
        """Give the slot back; the last cluster leaves the machine as the first one found it."""
        with self._locked():
            (self.records / f"slot-{layout.slot}.json").unlink(missing_ok=True)
            if not list(self.records.glob("slot-*.json")):
                self._restore()
                shutil.rmtree(self.records)

    def _free(self, checkout: Path) -> Layout:
        first = int(hashlib.sha256(str(checkout).encode()).hexdigest(), 16) % SLOTS
        routes = _routed()
        for offset in range(SLOTS):
            layout = Layout(checkout, (first + offset) % SLOTS)
            taken = (self.records / f"slot-{layout.slot}.json").exists()
            networks = (layout.links, layout.pods, layout.services)
            clash = any(net.overlaps(route) for net in networks for route in routes)
            if not taken and not clash and all(_port_is_free(port) for port in layout.ports.all()):
                return layout
        raise ClusterError(
            f"all {SLOTS} slots are taken by other checkouts' clusters, ports 17000-17159 or routes in 10.210.0.0/16, "
            f"10.211.0.0/16, 10.212.0.0/16; end one with `python -m e2e.cluster down` ({self.records} names them)"
        )

    def _remember(self, mount_points: list[Path]) -> None:
        file = self.records / "before.json"
        before: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"folders": []}
        before.setdefault("sysctls", {name: self._sysctl(name).read_text().strip() for name in SYSCTLS})
        for point in mount_points:
            absent = [p for p in (point, *point.parents) if not p.exists()]
            before["folders"] += [str(p) for p in reversed(absent)]
        _write(file, before)  # before the folders are made: a crash in between must not lose track of them
        for point in mount_points:
            point.mkdir(parents=True, exist_ok=True)

    def _restore(self) -> None:
        before = json.loads((self.records / "before.json").read_text())
        for name, value in before["sysctls"].items():
            if self._sysctl(name).read_text().strip() != value:
                self._sysctl(name).write_text(value)
        for folder in reversed(before["folders"]):
            try:
                Path(folder).rmdir()
            except OSError:
                continue  # someone else put something into it: theirs now

    def _sysctl(self, name: str) -> Path:
        return self.proc / name.replace(".", "/")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        while True:
            self.records.mkdir(parents=True, exist_ok=True)
            path = self.records / "lock"
            with path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # The last cluster removes the lock with the folder: then this one locks nobody out, so take the new.
                if path.exists() and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                    yield
                    return


def enable_forwarding(proc: Path = Path("/proc/sys")) -> None:
    """Let the machine pass packets between nodes and itself."""
    (proc / "net/ipv4/ip_forward").write_text("1")


def allow_watches(proc: Path = Path("/proc/sys")) -> None:
    """Let root watch as many files as several clusters need. A machine that forbids the change may have enough."""
    for name, least in WATCHES.items():
        path = proc / "fs/inotify" / name
        with suppress(OSError):
            if int(path.read_text()) < least:
                path.write_text(str(least))


@contextmanager
def one_at_a_time(checkout: Path) -> Iterator[None]:
    """`up` and `down` of one checkout wait for each other. The lock is the folder itself: it leaves no file."""
    handle = os.open(checkout, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(path: Path, content: Any) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content, indent=1) + "\n")
    fresh.rename(path)


def _routed() -> list[IPv4Network]:
    """Networks this machine has routes to, the default one apart."""
    routes = json.loads(shell.run("ip", "-json", "-4", "route", "show", "table", "all"))
    return [IPv4Network(r["dst"]) for r in routes if r["dst"] != "default" and r.get("type") != "multicast"]


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
