"""That the cluster is a real one: what a pod, a service, a volume and a policy do on it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster.api import Cluster
from e2e.cluster.static_images import TOOLBOX_IMAGE

pytestmark = pytest.mark.cluster
NAMESPACE = "cluster-test"
SECONDS = 60
Object = dict[str, Any]


@pytest.fixture(scope="module")
def space(local_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with an empty namespace, and in it a web server on node1 behind a service."""
    kubectl = local_cluster.kubectl
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true")
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    until(lambda: kubectl.attempt("-n", NAMESPACE, "get", "serviceaccount", "default").returncode == 0)
    kubectl.apply(
        pod("web", "echo here > /tmp/index.html; exec httpd -f -p 8080 -h /tmp", node="node1", labels={"app": "web"}),
        pod("friend", "exec sleep 3600", node="node2", labels={"role": "friend"}),
        pod("foe", "exec sleep 3600", node="node2"),
        pod("neighbour", "exec sleep 3600", node="node1"),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    )
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod", "--all", f"--timeout={SECONDS}s")
    yield local_cluster
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def pod(name: str, script: str, node: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    container = {
        "name": "main",
        "image": TOOLBOX_IMAGE,
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": v["name"], "mountPath": f"/{v['name']}"} for v in spec.get("volumes", [])],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
            **spec,
        },
    }


def until(ready: Callable[[], object], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.3)


def fetch(cluster: Cluster, client: str, url: str) -> str | None:
    """What a pod gets from a URL; None if it gets nothing within two seconds."""
    got = cluster.kubectl.attempt("-n", NAMESPACE, "exec", client, "--", "fetch", url)
    return got.stdout.strip() if got.returncode == 0 else None


def address(cluster: Cluster, kind: str, name: str, path: str) -> str:
    return cluster.kubectl("-n", NAMESPACE, "get", kind, name, "-o", f"jsonpath={path}")


def test_two_nodes_are_ready(local_cluster: Cluster) -> None:
    assert local_cluster.nodes == ["node1", "node2"]
    assert local_cluster.local is not None
    assert local_cluster.local.running
    assert local_cluster.local.unready() == []


def test_the_two_nodes_add_up_to_one_machine(local_cluster: Cluster) -> None:
    nodes = local_cluster.kubectl.get("nodes")["items"]
    cpus = sum(_cpu(node["status"]["allocatable"]["cpu"]) for node in nodes)
    assert cpus == _cpu(nodes[0]["status"]["capacity"]["cpu"])


def _cpu(quantity: str) -> float:
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def test_a_service_is_reached_across_nodes_by_address_and_by_name(space: Cluster) -> None:
    service = address(space, "service", "web", "{.spec.clusterIP}")
    for client in ("friend", "neighbour"):
        for host in (
            service,
            "web",
            f"web.{NAMESPACE}.svc.cluster.local",
        ):  # kube-proxy hears of endpoints a little late
            until(lambda c=client, h=host: fetch(space, c, f"http://{h}") == "here")  # type: ignore[misc]


def test_a_program_on_this_machine_reaches_pods_by_their_address(space: Cluster) -> None:
    url = f"http://{address(space, 'pod', 'web', '{.status.podIP}')}:8080"
    with urllib.request.urlopen(url, timeout=5) as page:
        assert page.read() == b"here\n"


def test_exec_logs_and_host_names_work(space: Cluster) -> None:
    kubectl = space.kubectl
    kubectl.apply(pod("talker", "echo out; hostname; exec sleep 3600", node="node2"))
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/talker", f"--timeout={SECONDS}s")
    assert kubectl("-n", NAMESPACE, "logs", "talker").split() == ["out", "talker"]
    assert kubectl("-n", NAMESPACE, "exec", "talker", "--", "sh", "-c", "echo $((6 * 7))") == "42\n"


def test_a_network_policy_lets_the_friend_in_and_nobody_else(space: Cluster) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "friends-only", "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": {"app": "web"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"role": "friend"}}}]}],
        },
    }
    url = f"http://{address(space, 'pod', 'web', '{.status.podIP}')}:8080"
    assert fetch(space, "foe", url) == "here"
    space.kubectl.apply(policy)
    try:
        until(lambda: fetch(space, "foe", url) is None)
        assert fetch(space, "neighbour", url) is None, "a pod on the same node must not pass either"
        assert fetch(space, "friend", url) == "here"
    finally:
        space.kubectl("-n", NAMESPACE, "delete", "networkpolicy", "friends-only")
    until(lambda: fetch(space, "foe", url) == "here")


def test_a_claim_is_bound_to_a_volume_whose_data_outlives_the_pod(space: Cluster) -> None:
    kubectl = space.kubectl
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    nobody = {"runAsUser": 65532, "runAsNonRoot": True}
    kubectl.apply(claim, pod("writer", "echo kept > /data/x; exec sleep 3600", volumes=volumes, securityContext=nobody))
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/writer", f"--timeout={SECONDS}s")
    until(lambda: kubectl("-n", NAMESPACE, "exec", "writer", "--", "cat", "/data/x") == "kept\n")
    kubectl("-n", NAMESPACE, "delete", "pod", "writer")
    kubectl.apply(pod("reader", "cat /data/x; exec sleep 3600", volumes=volumes, securityContext=nobody))
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/reader", f"--timeout={SECONDS}s")
    assert kubectl("-n", NAMESPACE, "logs", "reader") == "kept\n"
    assert address(space, "pvc", "data", "{.status.phase}") == "Bound"


def test_a_pod_over_its_memory_limit_is_killed_and_says_so(space: Cluster) -> None:
    hungry = pod("hungry", "exec tail /dev/zero", restartPolicy="Never")
    hungry["spec"]["containers"][0]["resources"] = {"limits": {"memory": "32Mi"}}
    space.kubectl.apply(hungry)
    reason = "{.status.containerStatuses[0].state.terminated.reason}"
    until(lambda: address(space, "pod", "hungry", reason) == "OOMKilled")


def test_metrics_of_nodes_and_of_every_component_are_there(space: Cluster) -> None:
    kubectl = space.kubectl
    until(lambda: len(kubectl.get("nodes.metrics.k8s.io")["items"]) == 2)
    assert "apiserver_request_total" in kubectl("get", "--raw", "/metrics")
    assert "kubelet_running_pods" in kubectl("get", "--raw", "/api/v1/nodes/node1/proxy/metrics")


def test_rights_are_checked(space: Cluster) -> None:
    who = f"system:serviceaccount:{NAMESPACE}:default"
    assert space.kubectl.attempt("auth", "can-i", "list", "secrets", f"--as={who}").stdout.strip() == "no"
    refused = space.kubectl.attempt("-n", NAMESPACE, "get", "secrets", f"--as={who}")
    assert "forbidden" in refused.stderr


def test_pod_security_is_enforced(space: Cluster) -> None:
    privileged = pod("privileged", "true")
    privileged["metadata"]["namespace"] = "cluster-test-restricted"
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "cluster-test-restricted", "labels": label},
    }
    space.kubectl.apply(namespace)
    try:
        refused = space.kubectl.attempt("apply", "-f", "-", stdin=json.dumps(privileged))
        assert "violates PodSecurity" in refused.stderr
    finally:
        space.kubectl("delete", "namespace", "cluster-test-restricted", "--wait=false")


def test_the_audit_log_says_who_did_what(space: Cluster) -> None:
    assert space.audit_log is not None
    space.kubectl("-n", NAMESPACE, "create", "configmap", "audited")

    def seen() -> bool:
        assert space.audit_log is not None
        entries = [json.loads(line) for line in space.audit_log.read_text().splitlines() if '"audited"' in line]
        return any(
            e["verb"] == "create" and e["user"]["username"] == "admin" and e["stage"] == "ResponseComplete"
            for e in entries
        )

    until(seen, 5)


def test_a_tests_own_extended_resource_can_be_scheduled(space: Cluster) -> None:
    kubectl = space.kubectl
    patch = json.dumps({"status": {"capacity": {"example.com/gpu": "1"}}})
    kubectl("patch", "node", "node2", "--subresource=status", "--type=merge", "-p", patch)
    wants = pod("wants-gpu", "exec sleep 3600")
    wants["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    kubectl.apply(wants)
    kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/wants-gpu", f"--timeout={SECONDS}s")
    assert address(space, "pod", "wants-gpu", "{.spec.nodeName}") == "node2"
    remove = json.dumps([{"op": "remove", "path": "/status/capacity/example.com~1gpu"}])
    kubectl("patch", "node", "node2", "--subresource=status", "--type=json", "-p", remove)
