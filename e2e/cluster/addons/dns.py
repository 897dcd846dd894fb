"""CoreDNS: names of services and pods."""

from __future__ import annotations

from e2e.cluster import static_images
from e2e.cluster.addons import (
    Addon,
    Object,
    account,
    as_account,
    bind,
    cluster_role,
    config_map,
    deployed,
    deployment,
    service,
)
from e2e.cluster.layout import Layout
from e2e.cluster.versions import COREDNS

NAME = "coredns"

# One directive a line, or CoreDNS does not read it. Nothing is forwarded: the nodes have no way out to the Internet.
COREFILE = """\
.:1053 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa {
        pods insecure
    }
    cache 5
    loadbalance
}
"""


def objects(layout: Layout) -> list[Object]:
    container: Object = {
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "readinessProbe": {"httpGet": {"port": 8181, "path": "/ready"}, "periodSeconds": 1},
    }
    volumes: list[Object] = [{"name": "config", "configMap": {"name": NAME}}]
    run = deployment(NAME, static_images.name(COREDNS), ["-conf", "/etc/coredns/Corefile"], container, volumes)
    run["spec"]["template"]["spec"]["dnsPolicy"] = "Default"  # it cannot ask itself
    ports: list[Object] = [
        {"name": "dns", "port": 53, "targetPort": 1053, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "targetPort": 1053, "protocol": "TCP"},
    ]
    return [
        account(NAME),
        cluster_role(
            NAME,
            ("", "services namespaces pods endpoints", "list watch"),
            ("discovery.k8s.io", "endpointslices", "list watch"),
        ),
        bind(NAME, NAME, as_account(NAME)),
        config_map(NAME, {"Corefile": COREFILE}),
        run,
        service("kube-dns", NAME, ports, clusterIP=layout.dns),
    ]


ADDON = Addon(NAME, COREDNS, objects, deployed(NAME))
