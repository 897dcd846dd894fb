"""What tests and other programs use of the cluster: get one, load images, make parts of it fail.

`ensure` chooses by the environment, as the commands do: KUBECONFIG=... any cluster, CLUSTER=kind Docker and kind, and
else the local one. Only the local one can be made to fail; on others those methods raise NotLocalError.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import images, kind
from e2e.cluster.addons import table
from e2e.cluster.down import down, drop
from e2e.cluster.errors import ClusterError
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.local import LocalCluster
from e2e.cluster.node import Node
from e2e.cluster.steps import Steps
from e2e.cluster.up import up

ALL_ADDONS = tuple(table.ALL)
DEFAULT_ADDONS = table.DEFAULT


class NotLocalError(ClusterError):
    """The cluster at hand is not the local one, so it cannot be made to fail."""


@dataclass(frozen=True)
class Cluster:
    """A cluster to test against. `audit_log` (JSON lines, level Metadata) is known of the local one only."""

    kubeconfig: Path
    state_dir: Path
    local: LocalCluster | None = None
    kind: bool = False

    @property
    def audit_log(self) -> Path | None:
        return self.local.layout.audit_log if self.local else None

    @property
    def kubectl(self) -> Kubectl:
        """Runs kubectl as this cluster's admin."""
        return Kubectl(self.kubeconfig, self.state_dir)

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return [node["metadata"]["name"] for node in self.kubectl.get("nodes")["items"]]

    def node(self, name: str) -> Node:
        """A node with `restart_kubelet()`, `stop()`, `start()` and `reboot()`."""
        return self._local().node(name)

    def stop_apiserver(self) -> None:
        """Kill the API server; etcd, controllers and nodes go on."""
        self._local().stop_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        self._local().start_apiserver()

    def ensure_images(self, steps: Steps | None = None, targets: Sequence[str] = images.DEFAULT) -> dict[str, str]:
        """Names of the project's images by target, built and in every node.

        On a cluster of someone else's they must have been pushed before: there the names are only computed.
        """
        steps = steps or Steps()
        if self.kind:
            return kind.loaded(kind.build(targets, steps), steps)
        if self.local:
            return images.loaded(self.local, images.build(steps, targets), steps)
        return images.names(targets=targets)

    def ensure_image(self, target: str, steps: Steps | None = None) -> str:
        """Name of one image, built and in every node; the large ones that `ensure_images` leaves out too."""
        steps = steps or Steps()
        if self.kind:
            return kind.loaded(kind.build([target], steps), steps)[target]
        if not self.local:
            return images.planned(target).name
        if target not in images.LAYERED:
            return images.loaded(self.local, images.build(steps, [target]), steps)[target]
        return images.loaded_layered(self.local, images.build_layered(target, steps), steps)

    def drop_addon(self, name: str, steps: Steps | None = None) -> None:
        """Take an add-on out of the local cluster, which goes on without it."""
        (addon,) = table.chosen([name])
        drop(self._local(), addon, steps or Steps())

    def _local(self) -> LocalCluster:
        if self.local is None:
            raise NotLocalError("this needs the local cluster; unset KUBECONFIG and CLUSTER")
        return self.local


def given() -> str | None:
    """The KUBECONFIG of a cluster that is not made here; None if it is unset, or names the local or kind one."""
    path = os.environ.get("KUBECONFIG")
    ours = {str(CHECKOUT / ".cluster" / "kubeconfig"), str(kind.KUBECONFIG)}
    return path if path and str(Path(path).resolve()) not in ours else None


def uses_kind() -> bool:
    chosen = os.environ.get("CLUSTER", "")
    if chosen not in {"", "kind", "local"}:
        raise ClusterError(f"CLUSTER={chosen} is not known; it is kind or local (the default)")
    return chosen == "kind"


def exists() -> bool:
    """Whether `ensure` would find a cluster rather than make one."""
    return given() is not None or (kind.exists() if uses_kind() else LocalCluster.find() is not None)


def ensure(addons: Sequence[str] = DEFAULT_ADDONS, steps: Steps | None = None) -> Cluster:
    """The cluster to work with, brought up if need be. `addons` concerns the local one; others bring their own."""
    steps = steps or Steps()
    path = given()
    if path is not None:
        return Cluster(Path(path), CHECKOUT / ".cluster")
    if uses_kind():
        return Cluster(kind.up(steps), CHECKOUT / ".cluster", kind=True)
    local = up(addons, steps)
    return Cluster(local.layout.kubeconfig, local.layout.state, local)


def remove(steps: Steps | None = None) -> bool:
    """Take down the local or kind cluster; False if there was none. A given one is left alone."""
    steps = steps or Steps()
    if given() is not None:
        return False
    return kind.down(steps) if uses_kind() else down(steps)
