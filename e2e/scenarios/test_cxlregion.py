"""A region from applied to shared by two pods on two nodes, and back to free blocks."""

import pytest

from e2e.support import cxl
from e2e.support.cxl_fixtures import Fabric
from e2e.support.kube import Kube, Object, eventually

CLAIM = [{"name": "kv", "resourceClaimName": "kv"}]


def sharers(name: str, replicas: int, claims: list[Object]) -> Object:
    """A Deployment whose pods run on different nodes."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    spec = cxl.pod_spec(claims, "sleep 3600", topologySpreadConstraints=[spread])
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def running(kube: Kube, name: str, count: int, seconds: float = 90) -> dict[str, str]:
    """Node to pod, once so many are ready."""
    kube.until("deployment", name, lambda d: d.get("status", {}).get("readyReplicas") == count, seconds)
    pods = [p for p in kube.list("pods", f"app={name}") if "deletionTimestamp" not in p["metadata"]]
    return {p["spec"]["nodeName"]: p["metadata"]["name"] for p in pods}


def write(kube: Kube, pod: str, text: str, at: int = 0) -> None:
    script = f"printf '{text}' | dd of=/dev/ballast/kv bs=1 seek={at} conv=notrunc 2>/dev/null"
    kube.run("exec", pod, "--", "sh", "-c", script)


def read(kube: Kube, pod: str, count: int, at: int = 0) -> str:
    return kube.run("exec", pod, "--", "sh", "-c", f"dd if=/dev/ballast/kv bs=1 skip={at} count={count} 2>/dev/null")


@pytest.mark.cluster
def test_two_pods_on_two_nodes_share_one_region_and_its_blocks_come_back_as_zeros(fabric: Fabric, space: Kube) -> None:
    since = fabric.emulator.lines()
    space.apply(cxl.region("kv", "256Mi"))
    space.until("cxlr", "kv", cxl.is_ready, 60)
    space.apply(sharers("app", 2, CLAIM))
    pods = running(space, "app", 2)
    assert len(pods) == 2, "both pods are on one node"
    one, two = pods.values()
    write(space, one, "written on one node", 4096)
    assert read(space, two, 19, 4096) == "written on one node"
    space.run("rollout", "restart", "deployment/app")
    space.run("rollout", "status", "deployment/app", "--timeout=120s", seconds=130)
    again = running(space, "app", 2)
    assert not set(again.values()) & {one, two}
    assert read(space, next(iter(again.values())), 19, 4096) == "written on one node"
    space.delete("deployment", "app")
    space.run("delete", "cxlr", "kv", "--wait=false")
    space.gone("cxlr", "kv", 120)
    assert fabric.emulator.memories() == {}
    space.apply(cxl.region("kv", "256Mi"))  # the next tenant is given the same blocks
    space.until("cxlr", "kv", cxl.is_ready, 60)
    space.apply(sharers("next", 1, CLAIM))
    (pod,) = running(space, "next", 1).values()
    zeros = "tr -d '\\0' < /dev/ballast/kv | wc -c"
    assert space.run("exec", pod, "--", "sh", "-c", zeros).strip() == "0"
    verdict = fabric.emulator.verdict(since)
    assert (verdict.overlaps, verdict.refusals, verdict.twice) == ([], [], [])
    assert verdict.composes == 2
    assert space.plugin("why", "cxlr/kv").splitlines()[0].startswith(f"CXLRegion {space.namespace}/kv is Ready (Ready)")


@pytest.mark.e2e
def test_a_container_that_does_not_list_the_claim_sees_no_device(fabric: Fabric, space: Kube) -> None:
    space.apply(cxl.region("kv", "64Mi"))
    space.until("cxlr", "kv", cxl.is_ready, 60)
    space.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "blind"},
            "spec": cxl.pod_spec(CLAIM, "sleep 3600", uses=False),
        }
    )
    space.until("pod", "blind", lambda p: p.get("status", {}).get("phase") == "Running", 60)
    assert (
        space.run("exec", "blind", "--", "sh", "-c", "ls /dev/ballast 2>/dev/null; env | grep -c BALLAST || true")
        == "0\n"
    )


@pytest.mark.e2e
def test_a_region_that_does_not_fit_says_what_would(fabric: Fabric, space: Kube) -> None:
    def largest() -> str:
        found: str = (fabric.admin.get("cxlblade", "b0") or {})["status"]["observed"]["largestExtent"]
        return found

    eventually(lambda: largest() == "4Gi", 90, lambda: f"the blade is not empty: {largest()}")
    space.apply(cxl.region("kv", "8Gi"))
    found = space.until("cxlr", "kv", lambda r: r.get("status", {}).get("phase") == "Pending", 60)
    (ready,) = [c for c in found["status"]["conditions"] if c["type"] == "Ready"]
    assert ready["reason"] == "InsufficientCapacity"
    assert (
        "has 8Gi free in one piece (largest 4Gi on b0); free a region or ask for spec.size <= 4Gi" in ready["message"]
    )
    space.run("delete", "cxlr", "kv", "--wait=false")
    space.gone("cxlr", "kv", 30)


@pytest.mark.e2e
def test_a_claim_that_waits_for_a_region_gets_it_when_the_blade_has_room(fabric: Fabric, space: Kube) -> None:
    space.apply(cxl.region("first", "4Gi"), cxl.region("second", "2Gi"))
    ready = eventually(lambda: any(cxl.is_ready(r) for r in space.list("cxlr")), 60, lambda: "neither region is ready")
    assert ready >= 0
    (taken,) = [r["metadata"]["name"] for r in space.list("cxlr") if cxl.is_ready(r)]
    other = {"first": "second", "second": "first"}[taken]
    space.run("delete", "cxlr", taken, "--wait=false")
    space.until("cxlr", other, cxl.is_ready, 90, "the blocks of the other one")
