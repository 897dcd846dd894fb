"""A node's namespaces: mounts, network, processes and host name, held by one process.

Process 1 of a node holds all four; when it ends, the kernel ends every process of the node, and the mounts and links
inside go too. In the mount namespace the node's own folders lie over the places where kubelet, containerd and CNI keep
their things, so hostPath volumes, sockets and device files look as they do on a machine of its own.
"""

from __future__ import annotations

import shlex

from e2e.cluster import build, shell
from e2e.cluster.errors import ClusterError
from e2e.cluster.host import MOUNT_POINTS
from e2e.cluster.layout import NodeLayout
from e2e.cluster.processes import Daemons, Process
from e2e.cluster.versions import PAUSE


def holder(node: NodeLayout) -> str:
    """Name of the daemon that is process 1 of a node."""
    return f"{node.name}-init"


def open_up(node: NodeLayout, daemons: Daemons) -> Process:
    """Make a node's namespaces and return its process 1, as this machine sees it."""
    ready = node.state / "namespaces-ready"
    ready.unlink(missing_ok=True)
    script = ["set -e", f"echo {node.name} > /proc/sys/kernel/hostname"]
    for folder, point in MOUNT_POINTS.items():
        (node.state / folder).mkdir(parents=True, exist_ok=True)
        script.append(f"mount --bind {shlex.quote(str(node.state / folder))} {point}")
    # Shared, so that a mount made by kubelet shows in a container that asked for it, and the other way round.
    script += ["mount --make-rshared /", f"touch {shlex.quote(str(ready))}", f"exec {build.path(PAUSE)}"]
    unshare = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
    process = daemons.start(holder(node), [*unshare, "sh", "-c", "\n".join(script)], forks=True)
    hint = f"see {daemons.log(holder(node))}"
    shell.wait_for(f"the namespaces of {node.name}", lambda: ready.exists() or not process.alive, 10, hint, 0.01)
    if not process.alive:
        raise ClusterError(f"{node.name} has no namespaces: {daemons.last_words(holder(node))}")
    return process


def enter(pid: int, *argv: object) -> list[str]:
    """The command line that runs argv inside the namespaces of process `pid`; it starts in `/`."""
    inside = ["nsenter", "-t", str(pid), "--mount", "--net", "--uts", "--pid", "--"]
    return [*inside, *(str(a) for a in argv)]
