"""Control groups of the nodes: one group a node, in every hierarchy there is.

On version 1 each controller is a tree of its own; on version 2 there is one tree. Only our own groups are made and
removed: the others belong to the machine.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError

ROOT = Path("/sys/fs/cgroup")
NEEDED = ("cpu", "cpuset", "memory", "pids")


@dataclass(frozen=True)
class Cgroups:
    """The machine's hierarchies: `trees` are the folders in which a node gets its group."""

    version: int
    trees: tuple[Path, ...]

    @classmethod
    def detect(cls, root: Path = ROOT) -> Cgroups:
        """Version 2 has cgroup.controllers at its root; version 1, hybrid or not, a folder for each controller."""
        if (root / "cgroup.controllers").exists():
            _require((root / "cgroup.controllers").read_text().split(), root)
            return cls(2, (root,))
        folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.is_symlink()) if root.is_dir() else []
        trees = tuple(p for p in folders if (p / "cgroup.procs").exists())
        # cpu and cpuacct may be one tree, with a link for each name.
        _require([name for p in root.iterdir() for name in p.name.split(",")] if trees else [], root)
        return cls(1, trees)

    def make(self, name: str) -> None:
        """Make a node's group. Safe to repeat."""
        if self.version == 2:
            _hand_down(self.trees[0])
        for tree in self.trees:
            group = tree / name
            group.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                # Version 1 gives a new cpuset no CPU at all, and then nothing can be put into it.
                if self.version == 1 and (group / file).exists():
                    (group / file).write_text((tree / file).read_text())

    def groups(self, name: str) -> list[Path]:
        return [tree / name for tree in self.trees if (tree / name).is_dir()]

    def processes(self, name: str) -> set[int]:
        """Every process in a node's group: what its pods run."""
        pids: set[int] = set()
        for group in self.groups(name):
            for file in group.rglob("cgroup.procs"):
                try:
                    pids |= {int(pid) for pid in file.read_text().split()}
                except OSError:
                    continue  # the group went away meanwhile
        return pids - {0}

    def remove(self, name: str, seconds: float = 10.0) -> None:
        """Remove a node's groups, whose processes were killed: the kernel takes a moment to let go of them."""
        deadline = time.monotonic() + seconds
        while groups := self.groups(name):
            for group in groups:
                for folder, _, _ in os.walk(group, topdown=False):
                    try:
                        Path(folder).rmdir()
                    except OSError as error:
                        if time.monotonic() > deadline:
                            raise ClusterError(f"cgroup {folder} cannot be removed: {error.strerror}") from error
            time.sleep(0.02)


def _require(controllers: list[str], root: Path) -> None:
    absent = [c for c in NEEDED if c not in controllers]
    if absent:
        raise ClusterError(
            f"{root} offers no cgroup controllers {', '.join(absent)}; run on the machine itself or in a privileged "
            "container with its own cgroups, or use CLUSTER=kind or KUBECONFIG=..."
        )


def _hand_down(root: Path) -> None:
    """Version 2 gives a group only those controllers that its parent hands down."""
    control = root / "cgroup.subtree_control"
    wanted = [c for c in NEEDED if c not in control.read_text().split()]
    if not wanted:
        return
    try:
        control.write_text(" ".join(f"+{c}" for c in wanted))
    except OSError as error:
        raise ClusterError(
            f"{control} does not take {' '.join(wanted)} ({error.strerror}): in a container, move its processes out "
            f"of {root}/cgroup.procs into a group of their own first"
        ) from error
