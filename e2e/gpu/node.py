"""This machine as the one node of a Kubernetes, with its GPU: no namespaces, no network of its own, nothing installed.

The control plane is the local cluster's. The node is the machine itself: a bridge made by ioctl (there may be no `ip`),
containerd, the kubelet, and NVIDIA's device plugin, which hands GPUs to pods through CDI.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import struct
from pathlib import Path
from typing import Any

from e2e.cluster import archive, build, node_config, pki, shell
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import Layout, NodeLayout
from e2e.cluster.processes import Daemons
from e2e.cluster.static_images import NOBODY, PAUSE_IMAGE
from e2e.cluster.steps import Steps
from e2e.cluster.versions import (
    BRIDGE,
    CONTAINER_TOOLKIT,
    CONTAINERD,
    COREDNS,
    CTR,
    DEVICE_PLUGIN,
    HOST_LOCAL,
    K8S,
    LOOPBACK,
    PAUSE,
    RUNC,
    SHIM,
)

GPU = "nvidia.com/gpu"
SOCKET = Path("/run/containerd/containerd.sock")
CNI_CONFIG = Path("/etc/cni/net.d/10-ballast.conflist")
CNI_BIN = Path("/opt/cni/bin")

COREFILE = """.:53 {{
    kubernetes cluster.local {{
        kubeconfig {kubeconfig}
    }}
}}
"""

# Images hold mount points only; what runs comes from these folders of the machine. /usr as a whole would not do: CDI
# writes links below /usr/local.
HOST_FOLDERS = (
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/include"),
    *("/usr/local/cuda-13.0", "/opt/torch"),
)
_ADD_BRIDGE, _SET_ADDRESS, _SET_NETMASK, _GET_FLAGS, _SET_FLAGS = 0x89A0, 0x8916, 0x891C, 0x8913, 0x8914


class GpuNode:
    """Brought up once, by `up`; every part is a daemon of `daemons`."""

    def __init__(self, state: Path) -> None:
        self.layout = Layout(state, 0)
        self.node: NodeLayout = self.layout.nodes[0]
        self.daemons = Daemons(self.layout)
        self.kubectl = Kubectl(self.layout.kubeconfig, self.layout.state)

    def up(self, steps: Steps) -> None:
        """From nothing to a node that offers its GPU."""
        for folder in (self.layout.logs, self.layout.pids, self.node.state, CNI_CONFIG.parent, Path("/var/run/cdi")):
            folder.mkdir(parents=True, exist_ok=True)
        build.link((CONTAINERD, SHIM, CTR, RUNC, CONTAINER_TOOLKIT), self.layout.bin)
        build.link((BRIDGE, HOST_LOCAL, LOOPBACK), CNI_BIN)
        os.environ["PATH"] = f"{self.layout.bin}:{os.environ['PATH']}"
        pki.ensure(self.layout)
        make_bridge(self.layout.bridge, [self.layout.gateway, self.node.ip])
        with steps.step("control plane"):
            plane = ControlPlane(self.layout, self.daemons)
            plane.start_etcd()
            plane.start_api()
            plane.start_controllers()
        with steps.step("containerd, images"):
            self._containerd()
        with steps.step("DNS, kubelet"):
            self._dns()
            self._kubelet()
        with steps.step("device plugin"):
            self._device_plugin()

    def load(self, image: archive.Image, root: Path | None = None) -> None:
        """Make an image and import it."""
        packed = self.node.state / "image.tar"
        archive.write(image, packed, root)
        shell.run(build.path(CTR), "--address", SOCKET, "--namespace", "k8s.io", "images", "import", packed)
        packed.unlink()

    def load_host_image(self, name: str, entrypoint: list[str], env: dict[str, str]) -> None:
        """An image whose programs are this machine's own, by way of HOST_FOLDERS."""
        root = self.node.state / "root"
        shutil.rmtree(root, ignore_errors=True)
        for folder in (*HOST_FOLDERS, "/usr/local/nvidia", "/etc", "/tmp", "/proc", "/sys", "/dev", "/run", "/var"):
            (root / folder.lstrip("/")).mkdir(parents=True)
        for link in ("bin", "sbin", "lib", "lib64"):
            (root / link).symlink_to(f"usr/{link}")
        for file in ("passwd", "group", "ld.so.conf"):
            shutil.copy(Path("/etc") / file, root / "etc")
        shutil.copytree("/etc/ld.so.conf.d", root / "etc/ld.so.conf.d")
        variables = [f"{key}={value}" for key, value in env.items()]
        self.load(archive.Image(name, entrypoint, NOBODY, variables), root)

    def down(self) -> None:
        """End every pod, which would otherwise go on with its GPU, and every daemon."""
        self.daemons.stop(["kubelet"])
        ctr: list[shell.Arg] = [build.path(CTR), "--address", SOCKET, "--namespace", "k8s.io", "tasks"]
        if tasks := shell.attempt(*ctr, "ls", "--quiet").stdout.split():
            shell.attempt(*ctr, "delete", "--force", *tasks)
        self.daemons.stop(sorted(path.name for path in self.layout.pids.iterdir()))

    def _containerd(self) -> None:
        config = self.node.state / "containerd.toml"
        config.write_text(node_config.containerd())
        bridge = next(p for p in node_config.cni(self.node)["plugins"] if p["type"] == "bridge")
        CNI_CONFIG.write_text(json.dumps({"cniVersion": "1.0.0", "name": "ballast", "plugins": [bridge]}))
        SOCKET.unlink(missing_ok=True)  # of a run before this one
        self.daemons.start("containerd", [str(self.layout.bin / "containerd"), "-c", str(config)])
        shell.wait_for("containerd", SOCKET.is_socket, 30, f"see {self.daemons.log('containerd')}")
        self.load(archive.Image(PAUSE_IMAGE, ["/pause"], NOBODY, files={"/pause": build.path(PAUSE)}))

    def _dns(self) -> None:
        """Names of Services: routers find their engines by a headless one. Addresses of others are not routed here."""
        config = self.node.state / "Corefile"
        config.write_text(COREFILE.format(kubeconfig=self.layout.kubeconfig))
        self.daemons.start("coredns", [str(build.path(COREDNS)), "-conf", str(config)])

    def _kubelet(self) -> None:
        left_out = ("cgroupRoot", "systemReserved", "enforceNodeAllocatable")
        config: dict[str, Any] = {k: v for k, v in node_config.kubelet(self.node).items() if k not in left_out}
        config["clusterDNS"] = [self.node.ip]
        path = self.node.state / "kubelet.json"
        path.write_text(json.dumps(config))
        flags = {
            "config": path,
            "kubeconfig": self.layout.pki / f"{self.node.name}.kubeconfig",
            "hostname-override": self.node.name,
            "node-ip": self.node.ip,
            "root-dir": "/var/lib/kubelet",
        }
        self.daemons.start("kubelet", [str(build.path(K8S)), "kubelet", *(f"--{k}={v}" for k, v in flags.items())])
        shell.wait_for("Ready", self._ready, 60, f"see {self.daemons.log('kubelet')}", 0.2)

    def _ready(self) -> bool:
        found = self.kubectl.attempt("get", "node", self.node.name, "-o", "json")
        if found.returncode:
            return False
        conditions = json.loads(found.stdout)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _device_plugin(self) -> None:
        flags = {
            "device-list-strategy": "cdi-cri",
            # By its plain name: NVIDIA's library takes any other for a program that needs no `hook` before its words.
            "nvidia-cdi-hook-path": self.layout.bin / CONTAINER_TOOLKIT.name,
            "fail-on-init-error": "true",
            "mig-strategy": "none",
            "device-id-strategy": "index",
            "nvidia-driver-root": "/",
            "container-driver-root": "/",
        }
        self.daemons.start("device-plugin", [str(build.path(DEVICE_PLUGIN)), *(f"--{k}={v}" for k, v in flags.items())])
        shell.wait_for("the GPU", lambda: self.gpus() > 0, 60, f"see {self.daemons.log('device-plugin')}", 0.2)

    def gpus(self) -> int:
        """GPUs that the node offers to pods."""
        found = self.kubectl.get("node", self.node.name)
        return int(found["status"].get("allocatable", {}).get(GPU, 0))


def make_bridge(name: str, addresses: list[str]) -> None:
    """A bridge with addresses of a /24, made by ioctl; one that is there keeps what it has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if not Path(f"/sys/class/net/{name}").exists():
            fcntl.ioctl(control, _ADD_BRIDGE, name.encode().ljust(16, b"\0"))
        for number, address in enumerate(addresses):
            label = (name if number == 0 else f"{name}:{number}").encode()
            _set(control, _SET_ADDRESS, label, address)
            _set(control, _SET_NETMASK, label, "255.255.255.0")
        request = struct.pack("16sH14x", name.encode(), 0)
        flags = struct.unpack("16sH", fcntl.ioctl(control, _GET_FLAGS, request)[:18])[1]
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", name.encode(), flags | 1))  # up


def _set(control: socket.socket, what: int, label: bytes, address: str) -> None:
    packed = struct.pack("16sHH4s8s", label, socket.AF_INET, 0, socket.inet_aton(address), b"\0" * 8)
    fcntl.ioctl(control, what, packed)
