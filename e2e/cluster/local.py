"""The local cluster as a whole: made by `up`, ended by `down`, looked at by `status`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.cluster import control_plane
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.errors import ClusterError
from e2e.cluster.host import Host
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import CHECKOUT, Layout
from e2e.cluster.node import Node
from e2e.cluster.processes import Daemons

NODE_PARTS = ("init", "containerd", "kubelet", "kube-proxy")


class LocalCluster:
    """One checkout's cluster, in the slot it holds."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.daemons = Daemons(layout)
        self.control_plane = ControlPlane(layout, self.daemons)
        self.kubectl = Kubectl(layout.kubeconfig, layout.state)
        self.nodes = [Node(node, self.daemons) for node in layout.nodes]

    @classmethod
    def find(cls, checkout: Path = CHECKOUT) -> LocalCluster | None:
        """The cluster of this checkout, if there is one, running or not."""
        layout = Host().find(checkout)
        return cls(layout) if layout else None

    @property
    def addons(self) -> list[str]:
        """Names of the add-ons that were started."""
        known = self.layout.state / "addons.json"
        return list(json.loads(known.read_text())) if known.exists() else []

    def note_addons(self, names: Iterable[str]) -> None:
        """Remember which add-ons there are now."""
        (self.layout.state / "addons.json").write_text(json.dumps(sorted(names)))

    def node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise ClusterError(f"there is no node {name}; nodes are {', '.join(n.name for n in self.nodes)}")

    @property
    def running(self) -> bool:
        """Every process that should run does. Whether nodes are Ready is `unready`'s question."""
        return all(self.daemons.get(name) for name in self.expected())

    def expected(self) -> list[str]:
        """Names of the daemons of a whole cluster, add-ons apart."""
        return [*control_plane.NAMES, *(f"{n.name}-{part}" for n in self.nodes for part in NODE_PARTS)]

    def unready(self, since: datetime | None = None) -> list[str]:
        """Nodes that are not Ready, or were last heard of before `since`: a dead node stays Ready for a while."""
        ready = {
            node["metadata"]["name"]: _time(condition["lastHeartbeatTime"])
            for node in self.kubectl.get("nodes")["items"]
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready" and condition["status"] == "True"
        }
        # In whole seconds, as the API server keeps these times.
        earliest = since.replace(microsecond=0) if since else datetime.min.replace(tzinfo=UTC)
        return [n.name for n in self.nodes if n.name not in ready or ready[n.name] < earliest]

    def symptoms(self) -> str:
        """What each node that is not Ready says of itself, for an error message: the condition, or how its log ends."""
        said = {
            node["metadata"]["name"]: f"{condition['reason']}: {condition['message']}"
            for node in self.kubectl.get("nodes")["items"]
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready"
        }
        return "; ".join(self._symptoms(name, said) for name in self.unready())

    def _symptoms(self, name: str, said: Mapping[str, str]) -> str:
        ended = [part for part in NODE_PARTS if not self.daemons.get(f"{name}-{part}")]
        words = f"{name} says {said[name]}" if name in said else f"{name} never joined"
        words += f", {' and '.join(ended)} ended" if ended else ""
        logs = (
            f"the log of its {part} ends: {self.daemons.last_words(f'{name}-{part}')}" for part in ended or ["kubelet"]
        )
        return f"{words}; {'; '.join(logs)}"

    def pods_at_fault(self, namespace: str) -> str:
        """Pods of a namespace that are not Ready, with what was last said of them, for an error message."""
        events = self.kubectl.get("events", "-n", namespace)["items"]
        last = {event["involvedObject"]["name"]: event["message"] for event in events}
        pods = [pod for pod in self.kubectl.get("pods", "-n", namespace)["items"] if not _is_ready(pod)]
        names = [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in pods]
        return "; ".join(f"{name} is {phase}: {last.get(name, 'no event')}" for name, phase in names)

    def stop_apiserver(self) -> None:
        """Kill the API server; etcd, controllers and nodes go on."""
        self.control_plane.stop_api()

    def start_apiserver(self, **flags: str) -> None:
        """Start the API server and wait until it is ready. flags: further ones, for this run only."""
        self.control_plane.start_api(**flags)

    def load(self, archive: Path) -> None:
        """Import an image archive into every node, at the same time."""
        if not archive.is_file():
            raise ClusterError(f"image archive {archive} does not exist; make one with `python -m e2e.cluster images`")
        each(lambda node: node.load(archive.resolve()), self.nodes)


def each(action: Callable[[Node], object], nodes: Iterable[Node]) -> None:
    """Do the same to several nodes at the same time; the first error is raised."""
    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(action, node) for node in nodes]:
            future.result()


def _is_ready(pod: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
