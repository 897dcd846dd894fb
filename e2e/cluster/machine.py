"""What the machine looks like, as far as a cluster could change it: taken before and after, to compare."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from e2e.cluster import cgroups, shell
from e2e.cluster.host import MOUNT_POINTS, SYSCTLS

# Folders in which daemons of a cluster might leave something, and how deep to look.
WATCHED = {
    "/etc/cni": 2,
    "/etc/cdi": 2,
    "/opt": 1,
    "/run": 1,
    "/tmp": 1,
    "/usr/libexec": 2,
    "/var/lib": 1,
    "/var/log": 1,
    "/dev": 1,
}


def snapshot(ours: str = "") -> dict[str, set[str]]:
    """Facts by kind. With `ours` only those whose text has that in it, for a machine on which other clusters live."""
    facts = {
        "mounts": {line.split(" ", 3)[3] for line in Path("/proc/self/mountinfo").read_text().splitlines()},
        "links": {link["ifname"] for link in json.loads(shell.run("ip", "-json", "link"))},
        "routes": set(shell.run("ip", "-4", "route", "show", "table", "all").splitlines()),
        "cgroups": {str(p) for tree in cgroups.Cgroups.detect().trees for p in tree.glob("*/")},
        "network namespaces": set(shell.run("ip", "netns", "list").splitlines()) | _namespaces(),
        "firewall": set(_firewall()),
        "kernel settings": {f"{name} = {_read('/proc/sys/' + name.replace('.', '/'))}" for name in SYSCTLS},
        "files": set(_files()) | {p for p in MOUNT_POINTS.values() if Path(p).exists()},
        "processes": set(_daemons()),
    }
    return {kind: {fact for fact in found if ours in fact} for kind, found in facts.items()}


def changed(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    """What is new (+) and what is gone (-), by kind; empty when nothing changed."""
    found = {}
    for kind in before:
        new, gone = after[kind] - before[kind], before[kind] - after[kind]
        if new or gone:
            found[kind] = [*(f"+ {fact}" for fact in sorted(new)), *(f"- {fact}" for fact in sorted(gone))]
    return found


def _read(path: str) -> str:
    return " ".join(Path(path).read_text().split())


def _files() -> Iterable[str]:
    for folder, depth in WATCHED.items():
        for level in range(1, depth + 1):
            yield from (str(path) for path in Path(folder).glob("/".join("*" * level)))


def _firewall() -> list[str]:
    listed = shell.attempt("nft", "list", "tables")
    return listed.stdout.splitlines()


def _namespaces() -> set[str]:
    """Network namespaces that some process is in."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(str((process / "ns" / "net").readlink()))
        except OSError:
            continue
    return found


def _daemons() -> Iterable[str]:
    """Command lines of processes that could be a cluster's."""
    names = ("etcd", "k8sall", "containerd", "kube-router", "pause", "runc")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(name in Path(words[0]).name for name in names):
            yield " ".join(words)
