"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, on this machine's own network."""

from __future__ import annotations

import json
from collections.abc import Mapping

from e2e.cluster import build, shell
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import Layout
from e2e.cluster.processes import Daemons
from e2e.cluster.versions import ETCD, K8S

ETCD_NAME, API, CONTROLLERS, SCHEDULER = "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"
NAMES = (ETCD_NAME, API, CONTROLLERS, SCHEDULER)
READY_SECONDS = 90

# The first stage of a request says nothing that the last one does not, and doubles the log.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ControlPlane:
    """Starts what is not running; every method is safe to repeat."""

    def __init__(self, layout: Layout, daemons: Daemons) -> None:
        self.layout, self.daemons = layout, daemons
        self.kubectl = Kubectl(layout.kubeconfig, layout.state)

    def start_etcd(self) -> None:
        self._ensure(ETCD_NAME, [str(build.path(ETCD)), *_flags(etcd(self.layout))])

    def start_api(self, **flags: str) -> None:
        """Start the API server and wait until it is ready. flags: further ones, for this run only."""
        policy = self.layout.state / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        self._ensure(API, [str(build.path(K8S)), API, *_flags(apiserver(self.layout) | flags)])
        hint = f"see {self.daemons.log(API)}"
        shell.wait_for("the API server", self._ready, READY_SECONDS, hint)

    def start_controllers(self) -> None:
        for name, flags in ((CONTROLLERS, controllers(self.layout)), (SCHEDULER, scheduler(self.layout))):
            self._ensure(name, [str(build.path(K8S)), name, *_flags(flags)])

    def stop_api(self) -> None:
        self.daemons.stop([API])

    def stop(self) -> None:
        self.daemons.stop(NAMES)

    def _ensure(self, name: str, argv: list[str]) -> None:
        if not self.daemons.get(name):
            self.daemons.start(name, argv)

    def _ready(self) -> bool:
        if not self.daemons.get(API):
            raise shell.failed([API], 1, self.daemons.last_words(API))
        return self.kubectl.attempt("get", "--raw", "/readyz").returncode == 0


def _flags(flags: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]


def etcd(layout: Layout) -> dict[str, object]:
    client, peer = (f"http://127.0.0.1:{p}" for p in (layout.ports.etcd, layout.ports.etcd_peer))
    return {
        "data-dir": layout.state / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        # A killed process loses nothing by this, only a machine that loses power does; writes take a tenth.
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }


def apiserver(layout: Layout) -> dict[str, object]:
    pki = layout.pki
    return {
        "etcd-servers": f"http://127.0.0.1:{layout.ports.etcd}",
        "advertise-address": layout.gateway,
        "bind-address": "0.0.0.0",
        "secure-port": layout.ports.api,
        "service-cluster-ip-range": layout.services,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": pki / "sa.pub",
        "service-account-signing-key-file": pki / "sa.key",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "kubelet-client-certificate": pki / "apiserver-kubelet.crt",
        "kubelet-client-key": pki / "apiserver-kubelet.key",
        "kubelet-certificate-authority": pki / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",  # node names do not resolve
        # Aggregated APIs (metrics) and webhooks: this machine is no node, so it calls their pods, not their services.
        "enable-aggregator-routing": "true",
        "requestheader-client-ca-file": pki / "ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": pki / "front-proxy.crt",
        "proxy-client-key-file": pki / "front-proxy.key",
        "audit-policy-file": layout.state / "audit-policy.json",
        "audit-log-path": layout.audit_log,
    }


def _as_client(layout: Layout, identity: str) -> dict[str, object]:
    config = layout.pki / f"{identity}.kubeconfig"
    return {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",  # there is only one
    }


def controllers(layout: Layout) -> dict[str, object]:
    return {
        **_as_client(layout, "controllers"),
        "secure-port": layout.ports.controllers,
        "use-service-account-credentials": "true",
        "service-account-private-key-file": layout.pki / "sa.key",
        "root-ca-file": layout.pki / "ca.crt",
        "cluster-signing-cert-file": layout.pki / "ca.crt",
        "cluster-signing-key-file": layout.pki / "ca.key",
    }


def scheduler(layout: Layout) -> dict[str, object]:
    return {**_as_client(layout, "scheduler"), "secure-port": layout.ports.scheduler}
