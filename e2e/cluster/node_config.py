"""Configuration files of the daemons in a node."""

from __future__ import annotations

import json
import os
from typing import Any

from e2e.cluster import tools
from e2e.cluster.layout import NODES, NodeLayout
from e2e.cluster.static_images import PAUSE_IMAGE


def write(node: NodeLayout) -> None:
    """Write all of them; the same files each time."""
    (node.state / "containerd.toml").write_text(containerd())
    (node.state / "kubelet.json").write_text(json.dumps(kubelet(node), indent=1))
    (node.state / "kube-proxy.json").write_text(json.dumps(kube_proxy(node), indent=1))
    (node.state / "etc-cni" / "10-ballast.conflist").write_text(json.dumps(cni(node), indent=1))


def containerd() -> str:
    """The same for every node, since every node sees its own folders at these places."""
    return f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[ttrpc]
address = "/run/containerd/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.nri.v1.nri"]
socket_path = "/run/nri/nri.sock"
[plugins."io.containerd.cri.v1.images"]
discard_unpacked_layers = true
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
# Without CAP_SYS_RESOURCE (many containers and sandboxes) runc dies when it lowers a score.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{tools.find("runc")}"
SystemdCgroup = false
"""


def kubelet(node: NodeLayout) -> dict[str, Any]:
    pki = node.cluster.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{node.name}.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDNS": [node.cluster.dns],
        "clusterDomain": "cluster.local",
        "podCIDR": str(node.pods),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",  # the default one lies in the machine's /usr
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "systemReserved": reserved(),
        # The machine's disk is shared with everything else on it: only a really full one concerns a node.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "0%",
        },
    }


def reserved() -> dict[str, str]:
    """Each kubelet finds the whole machine; this leaves each node its share, so that they add up to one machine."""
    others = (NODES - 1) / NODES
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": f"{int((os.cpu_count() or 1) * 1000 * others)}m", "memory": f"{int(memory * others / 2**20)}Mi"}


def kube_proxy(node: NodeLayout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": str(node.cluster.pods),
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": str(node.cluster.pki / "proxy.kubeconfig")},
        # Zero leaves the kernel's connection tables alone: they belong to the machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def cni(node: NodeLayout) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": str(node.pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "ballast", "plugins": [bridge, ports]}
