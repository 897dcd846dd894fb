"""Children of other projects' kinds: their own schemas take them, and the operator finds out that they are there."""

import json
from collections.abc import Iterator

import pytest

from ballast_operator.cli.render import render
from ballast_operator.settings import Settings
from e2e.support import foreign
from e2e.support.kube import Kube, Object, condition
from e2e.support.operator import SYSTEM
from e2e.support.serving import moe

pytestmark = pytest.mark.e2e
KINDS = ("HTTPRoute", "PodMonitor", "ScaledObject", "LeaderWorkerSet")
METRICS: list[Object] = [
    {"type": "WaitingRequests", "averageValue": 4},
    {"type": "KVCacheUsage", "averageUtilization": 80},
    {"type": "TTFT", "averageMilliseconds": 500},
    {"type": "CPU", "averageUtilization": 70},
]


@pytest.fixture
def kinds(admin: Kube) -> Iterator[None]:
    with foreign.installed(admin):
        yield


def everything(name: str = "tiny") -> Object:
    """A serving that has a child of each of these kinds."""
    return moe(
        name,
        autoscaling={
            "mode": "KEDA",
            "minReplicas": 0,
            "maxReplicas": 3,
            "metrics": METRICS,
            "scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
            "keda": {"prometheusAddress": "http://prometheus.monitoring:9090"},
        },
        access={"gatewayRef": {"name": "public", "namespace": "edge"}, "hostnames": ["qwen.example.com"]},
        parallelism={"tensor": 2, "nodes": 2},
    )


def restarts(admin: Kube) -> dict[str, int]:
    """How often the kubelet has started each of the operator's pods again."""
    found = admin.inside(SYSTEM).list("pods", "app.kubernetes.io/name=ballast-operator")
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in found}


def test_their_own_schemas_take_what_is_rendered(kinds: None, kube: Kube) -> None:
    obj = everything()
    obj["metadata"]["namespace"] = kube.namespace
    wanted, faults = render(obj, Settings())
    assert faults == []
    theirs = [child for child in wanted if child["kind"] in KINDS]
    for child in theirs:
        child["metadata"]["ownerReferences"][0]["uid"] = "00000000-0000-0000-0000-000000000000"
    assert {child["kind"] for child in theirs} == set(KINDS)
    text = "\n---\n".join(json.dumps(child) for child in theirs)
    said = kube.run("create", "--dry-run=server", "--validate=strict", "-f", "-", text=text)
    assert said.count("created") == len(KINDS), said


@pytest.mark.timeout(400)
def test_the_operator_finds_kinds_that_come_and_go(kube: Kube, admin: Kube) -> None:
    before = restarts(admin)
    kube.apply(everything())
    found = kube.until("moe", "tiny", lambda o: condition(o, "Ready").get("reason") == "DependencyMissing", 60)
    assert "needs the kind LeaderWorkerSet" in condition(found, "Ready")["message"]
    try:
        foreign.install(admin)
        for kind, name in (("httproute", "tiny"), ("podmonitor", "tiny"), ("scaledobject", "tiny-engine")):
            kube.until(kind, name, lambda _: True, 150)
        kube.until("leaderworkerset", "tiny-engine", lambda _: True, 60)
        kube.patch("moe", "tiny", {"spec": {"access": {"gatewayRef": None, "hostnames": None}}})
        kube.gone("httproute", "tiny", 30)
    finally:
        foreign.remove(admin)
    kube.until("moe", "tiny", lambda o: condition(o, "Ready").get("reason") == "DependencyMissing", 150)
    assert restarts(admin) == before, "the kubelet counts the end of a container as a crash, and makes it wait"
