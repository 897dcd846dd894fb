"""A node: its namespaces, and in them containerd, kubelet and kube-proxy. It can fail the ways a machine can."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

from e2e.cluster import build, namespaces, network, node_config, seed, shell
from e2e.cluster.cgroups import Cgroups
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import NodeLayout
from e2e.cluster.processes import Daemons, Process, wait_gone
from e2e.cluster.versions import CONTAINERD, CTR, K8S

CONTAINERD_SECONDS = 30
KUBELET_SECONDS = 60
KUBELET_PORT = 10250


class Node:
    """One node of the cluster. Every method is safe to repeat."""

    def __init__(self, layout: NodeLayout, daemons: Daemons) -> None:
        self.layout, self.daemons = layout, daemons
        self.name = layout.name

    # -- life

    @property
    def planted(self) -> bool:
        """Whether the node has its disk."""
        return self._store.exists()

    def plant(self, seeded: Path) -> None:
        """Give a new node its disk, with images on it."""
        self.layout.state.mkdir(parents=True, exist_ok=True)
        seed.plant(seeded, self._store)

    @property
    def process(self) -> Process | None:
        """Process 1 of the node, if the node is on."""
        return self.daemons.get(namespaces.holder(self.layout))

    def start(self) -> None:
        """Switch the node on, or start what is missing in it."""
        process = self.process
        if process is None:
            self.stop()  # a node that lost its process 1 has left things behind
            process = self._switch_on()
        if not self._running("containerd"):
            self._in_node("containerd", build.path(CONTAINERD), "--config", self.layout.state / "containerd.toml")
        there = self.layout.state / "run/containerd.sock"
        hint = f"see {self.daemons.log(f'{self.name}-containerd')}"
        shell.wait_for(f"containerd of {self.name}", there.is_socket, CONTAINERD_SECONDS, hint, 0.02)
        if not self._running("kubelet"):
            self._start_kubelet()
        if not self._running("kube-proxy"):
            self._in_node(
                "kube-proxy", build.path(K8S), "kube-proxy", "--config", self.layout.state / "kube-proxy.json"
            )

    def stop(self) -> None:
        """Switch the node off, as by pulling the plug; its disk stays."""
        pods = Cgroups.detect()
        processes = [p for p in map(Process.of, pods.processes(self.layout.cgroup)) if p]
        self.daemons.stop([namespaces.holder(self.layout)])
        wait_gone(processes)
        for part in ("containerd", "kubelet", "kube-proxy", "kube-router"):
            self.daemons.stop([f"{self.name}-{part}"])
        pods.remove(self.layout.cgroup)
        network.unplug(self.layout)
        for folder in ("run", "run-netns", "run-cdi", "run-nri"):  # a real machine has these in memory
            shutil.rmtree(self.layout.state / folder, ignore_errors=True)

    def reboot(self) -> None:
        self.stop()
        self.start()

    def restart_kubelet(self) -> None:
        """Kill kubelet and start it again; its pods go on running meanwhile."""
        self.daemons.stop([f"{self.name}-kubelet"])
        self._start_kubelet()

    # -- use

    def run(self, name: str, *argv: object) -> None:
        """Start a further daemon inside the node, unless it runs."""
        if not self._running(name):
            self._in_node(name, *argv)

    def load(self, archive: Path) -> None:
        """Import an OCI or Docker archive; pods that name one of its images can then start here."""
        self.ctr("images", "import", str(archive))

    def importing(self) -> list[str]:
        """The command that imports an archive from its standard input."""
        return self._entered(build.path(CTR), "--namespace", "k8s.io", "images", "import", "-")

    def images(self) -> dict[str, str]:
        """Names of the images this node has, with their digests."""
        rows = [line.split() for line in self.ctr("images", "list").splitlines()[1:]]
        return {row[0]: row[2] for row in rows if len(row) > 2}

    def ctr(self, *arguments: str) -> str:
        """containerd's own tool, in the namespace that kubelet uses."""
        return self.command(build.path(CTR), "--namespace", "k8s.io", *arguments)

    def command(self, *argv: object) -> str:
        """Run a program inside the node and return its output."""
        return shell.run(*self._entered(*argv))

    def _entered(self, *argv: object) -> list[str]:
        process = self.process
        if process is None:
            raise ClusterError(f"{self.name} is off; start it with `python -m e2e.cluster node start {self.name}`")
        return namespaces.enter(process.pid, *argv)

    # -- parts

    @property
    def _store(self) -> Path:
        return self.layout.state / "containerd"

    def _switch_on(self) -> Process:
        if not self.planted:
            raise ClusterError(f"{self.name} has no disk yet; make it with `python -m e2e.cluster up`")
        Cgroups.detect().make(self.layout.cgroup)
        process = namespaces.open_up(self.layout, self.daemons)
        network.plug_in(self.layout, process.pid)
        node_config.write(self.layout)
        return process

    def _start_kubelet(self) -> None:
        """Start kubelet, and again if it ends at once, as systemd would: it does where containerd has its socket and is
        not ready to serve yet."""
        until = time.monotonic() + KUBELET_SECONDS
        while True:
            self._in_node(
                "kubelet",
                build.path(K8S),
                "kubelet",
                f"--config={self.layout.state / 'kubelet.json'}",
                f"--kubeconfig={self.layout.cluster.pki / self.name}.kubeconfig",
                f"--hostname-override={self.name}",
                f"--node-ip={self.layout.ip}",
                "--root-dir=/var/lib/kubelet",
            )
            hint = f"see {self.daemons.log(f'{self.name}-kubelet')}"
            shell.wait_for(f"kubelet of {self.name}", self._kubelet_is_settled, KUBELET_SECONDS, hint, 0.05)
            if self._running("kubelet"):
                return
            if time.monotonic() > until:
                raise ClusterError(f"kubelet of {self.name} ended: {self.daemons.last_words(f'{self.name}-kubelet')}")
            time.sleep(0.5)

    def _kubelet_is_settled(self) -> bool:
        """Whether it serves, or has ended."""
        if not self._running("kubelet"):
            return True
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((str(self.layout.ip), KUBELET_PORT)) == 0

    def _running(self, part: str) -> bool:
        return self.daemons.get(f"{self.name}-{part}") is not None

    def _in_node(self, part: str, *argv: object) -> None:
        process = self.process
        assert process is not None, f"{self.name} is off"
        self.daemons.start(f"{self.name}-{part}", namespaces.enter(process.pid, *argv), forks=True)
