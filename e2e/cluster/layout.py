"""Where everything of one checkout's cluster is: folders, addresses, ports and names.

All of it follows from the checkout's path and its slot, a small number that no other cluster on the machine holds
(host.py gives it out), so that two checkouts can have a cluster each at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
SLOTS = 16
NODES = 2

_LINKS = IPv4Network("10.210.0.0/16")  # nodes: a /24 for each slot
_PODS = IPv4Network("10.211.0.0/16")  # pods: a /20 for each slot, a /24 of it for each node
_SERVICES = IPv4Network("10.212.0.0/16")  # services: a /20 for each slot


def _part(network: IPv4Network, prefix: int, index: int) -> IPv4Network:
    return list(network.subnets(new_prefix=prefix))[index]


@dataclass(frozen=True)
class Ports:
    """Ports of the control plane, on this machine's own network."""

    api: int
    etcd: int
    etcd_peer: int
    controllers: int
    scheduler: int

    def all(self) -> tuple[int, ...]:
        return (self.api, self.etcd, self.etcd_peer, self.controllers, self.scheduler)


@dataclass(frozen=True)
class Layout:
    """One checkout's cluster in one slot."""

    checkout: Path
    slot: int

    @property
    def state(self) -> Path:
        """Everything the cluster writes; `down` removes it."""
        return self.checkout / ".cluster"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        return self.state / "log"

    @property
    def pids(self) -> Path:
        return self.state / "pid"

    @property
    def bin(self) -> Path:
        return self.state / "bin"

    @property
    def kubeconfig(self) -> Path:
        """For people: portable, the certificates are in it."""
        return self.state / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON object a line: every request to the API server, with who and what, without bodies."""
        return self.logs / "audit.log"

    @property
    def name(self) -> str:
        """Prefix of everything of ours that has a name on the machine."""
        return f"ballast{self.slot}"

    @property
    def bridge(self) -> str:
        return self.name

    @cached_property
    def links(self) -> IPv4Network:
        return _part(_LINKS, 24, self.slot)

    @cached_property
    def pods(self) -> IPv4Network:
        return _part(_PODS, 20, self.slot)

    @cached_property
    def services(self) -> IPv4Network:
        return _part(_SERVICES, 20, self.slot)

    @property
    def gateway(self) -> str:
        """This machine, as nodes and pods see it; the API server answers here."""
        return str(self.links[1])

    @property
    def dns(self) -> str:
        return str(self.services[10])

    @property
    def ports(self) -> Ports:
        base = 17000 + 10 * self.slot
        return Ports(api=base, etcd=base + 1, etcd_peer=base + 2, controllers=base + 3, scheduler=base + 4)

    @property
    def server(self) -> str:
        """The API server, for programs on this machine."""
        return f"https://127.0.0.1:{self.ports.api}"

    @cached_property
    def nodes(self) -> tuple[NodeLayout, ...]:
        return tuple(NodeLayout(self, number) for number in range(1, NODES + 1))


@dataclass(frozen=True)
class NodeLayout:
    """One node: node1, node2."""

    cluster: Layout
    number: int

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def state(self) -> Path:
        return self.cluster.state / self.name

    @property
    def ip(self) -> str:
        return str(self.cluster.links[10 + self.number])

    @property
    def pods(self) -> IPv4Network:
        return list(self.cluster.pods.subnets(new_prefix=24))[self.number]

    @property
    def link(self) -> str:
        """The machine's end of the cable to the node (a name of at most 15 letters)."""
        return f"{self.cluster.name}n{self.number}"

    @property
    def cgroup(self) -> str:
        return f"{self.cluster.name}-{self.name}"
