"""metrics-server: `kubectl top`, and the numbers that a HorizontalPodAutoscaler goes by."""

from __future__ import annotations

from e2e.cluster import static_images
from e2e.cluster.addons import (
    Addon,
    Object,
    account,
    as_account,
    bind,
    cluster_role,
    deployed,
    deployment,
    service,
)
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import Layout
from e2e.cluster.versions import METRICS_SERVER

NAME = "metrics-server"
ARGS = [
    "--cert-dir=/tmp",
    "--secure-port=10250",
    "--kubelet-preferred-address-types=InternalIP",
    "--kubelet-insecure-tls",  # our authority is not in its image
    "--metric-resolution=15s",  # it refuses less than 10
]


def objects(_layout: Layout) -> list[Object]:
    probe = {"httpGet": {"port": 10250, "path": "/readyz", "scheme": "HTTPS"}, "periodSeconds": 1}
    container: Object = {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}], "readinessProbe": probe}
    reader = bind(
        f"{NAME}-reads-authentication", "extension-apiserver-authentication-reader", as_account(NAME), "kube-system"
    )
    return [
        account(NAME),
        cluster_role(
            NAME,
            ("", "nodes/metrics", "get"),
            ("", "pods nodes namespaces configmaps", "get list watch"),
        ),
        bind(NAME, NAME, as_account(NAME)),
        bind(f"{NAME}-delegates", "system:auth-delegator", as_account(NAME)),
        reader,
        deployment(NAME, static_images.name(METRICS_SERVER), ARGS, container, [{"name": "tmp", "emptyDir": {}}]),
        service(NAME, NAME, [{"port": 443, "targetPort": 10250}]),
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "service": {"name": NAME, "namespace": "kube-system"},
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ]


def ready(kubectl: Kubectl) -> bool:
    """The pod is Ready once it has scraped every node; the API is there a moment later."""
    answer = kubectl.attempt("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes")
    return deployed(NAME)(kubectl) and answer.returncode == 0


ADDON = Addon(NAME, METRICS_SERVER, objects, ready)
