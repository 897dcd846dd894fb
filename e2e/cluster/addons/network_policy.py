"""kube-router, for its firewall only: it makes each node keep to the NetworkPolicies. A daemon of every node."""

from __future__ import annotations

from e2e.cluster import build
from e2e.cluster.addons import Addon, Object, as_user, bind, cluster_role
from e2e.cluster.layout import Layout
from e2e.cluster.node import Node
from e2e.cluster.versions import KUBE_ROUTER

NAME = "kube-router"
USER = "system:kube-router"


def objects(_layout: Layout) -> list[Object]:
    return [
        cluster_role(
            USER,
            ("", "namespaces pods services nodes endpoints", "get list watch"),
            ("networking.k8s.io", "networkpolicies", "get list watch"),
            ("discovery.k8s.io", "endpointslices", "get list watch"),
        ),
        bind(USER, USER, as_user(USER)),
    ]


def on_node(node: Node) -> None:
    cluster = node.layout.cluster
    node.run(
        NAME,
        build.path(KUBE_ROUTER),
        f"--kubeconfig={cluster.pki / 'router.kubeconfig'}",
        f"--hostname-override={node.name}",
        f"--service-cluster-ip-range={cluster.services}",
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--health-port=0",
    )


ADDON = Addon(
    "network-policy",
    KUBE_ROUTER,
    objects,
    ready=lambda _kubectl: True,
    in_pods=False,
    on_node=on_node,
    packages={"ipset": "ipset"},
)
