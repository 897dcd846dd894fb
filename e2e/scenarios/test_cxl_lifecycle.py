"""What an administrator does with blades and regions: keep a region's bytes, empty a blade, find what nobody owns."""

import base64
import json
import time
import urllib.request

import pytest

from e2e.scenarios.test_cxlregion import CLAIM, running, sharers, write
from e2e.support import cxl
from e2e.support.cxl_fixtures import CREDENTIALS, Fabric
from e2e.support.kube import Kube, Object, condition, eventually
from e2e.support.operator import SYSTEM


def ledger(fabric: Fabric, blade: str = "b0") -> list[Object]:
    """Entries of a blade's ledger."""
    found = fabric.admin.get("cxlblade", blade)
    assert found is not None
    entries: list[Object] = found["status"].get("reservations", [])
    return entries


@pytest.mark.e2e
def test_a_retained_region_keeps_its_blocks_until_an_administrator_lets_them_go(fabric: Fabric, space: Kube) -> None:
    space.apply(cxl.region("kv", "64Mi", reclaimPolicy="Retain"))
    made = space.until("cxlr", "kv", cxl.is_ready, 60)
    space.apply(sharers("app", 1, CLAIM))
    (pod,) = running(space, "app", 1).values()
    write(space, pod, "keep me")
    space.delete("deployment", "app")
    space.run("delete", "cxlr", "kv", "--wait=false")
    space.gone("cxlr", "kv", 60)
    uid = made["metadata"]["uid"]
    (kept,) = [entry for entry in ledger(fabric) if entry["uid"] == uid]
    assert kept["state"] == "Quarantined"
    assert "Retain" in kept["message"]
    assert len(fabric.emulator.memories()) == 1
    fabric.admin.until("cxlblade", "b0", lambda b: condition(b, "Degraded").get("reason") == "Quarantined", 30)
    fabric.admin.patch("cxlblade", "b0", {"spec": {"releaseQuarantined": [uid]}})
    eventually(lambda: not ledger(fabric), 90, lambda: f"still held: {ledger(fabric)}")
    assert fabric.emulator.memories() == {}
    fabric.admin.patch("cxlblade", "b0", {"spec": {"releaseQuarantined": []}})


@pytest.mark.e2e
def test_a_retained_region_whose_finalizer_was_taken_off_keeps_its_bytes(fabric: Fabric, space: Kube) -> None:
    space.apply(cxl.region("kv", "64Mi", reclaimPolicy="Retain"))
    made = space.until("cxlr", "kv", cxl.is_ready, 60)
    uid = made["metadata"]["uid"]
    fabric.scale(0)  # a controller puts it back at once
    space.run("delete", "cxlr", "kv", "--wait=false")
    space.patch("cxlr", "kv", {"metadata": {"finalizers": None}})
    space.gone("cxlr", "kv", 60)
    fabric.scale(1)
    eventually(
        lambda: [(e["uid"], e["state"]) for e in ledger(fabric)] == [(uid, "Quarantined")],
        cxl.CHART_AGES["leakSeconds"] + 60,
        lambda: f"not kept: {ledger(fabric)}",
    )
    assert "Retain" in ledger(fabric)[0]["message"]
    assert len(fabric.emulator.memories()) == 1
    fabric.admin.patch("cxlblade", "b0", {"spec": {"releaseQuarantined": [uid]}})
    eventually(lambda: not ledger(fabric), 90, lambda: f"still held: {ledger(fabric)}")
    fabric.admin.patch("cxlblade", "b0", {"spec": {"releaseQuarantined": []}})


@pytest.mark.e2e
def test_a_blade_is_emptied_without_pulling_memory_from_under_a_pod(fabric: Fabric, space: Kube) -> None:
    space.apply(cxl.region("kv", "64Mi"))
    space.until("cxlr", "kv", cxl.is_ready, 60)
    space.apply(sharers("app", 2, CLAIM))
    first = set(running(space, "app", 2).values())
    fabric.admin.patch("cxlblade", "b0", {"spec": {"drain": "NoSchedule"}})
    try:
        space.apply(cxl.region("late", "64Mi"))
        space.until("cxlr", "late", lambda r: "not drained" in condition(r, "Ready").get("message", ""), 60)
        assert set(running(space, "app", 2).values()) == first, "NoSchedule must leave pods that run alone"
        fabric.admin.patch("cxlblade", "b0", {"spec": {"drain": "NoExecute"}})
        eventually(lambda: waiting(space) and not first & waiting(space), 90, lambda: "pods are still there")
        successors = waiting(space)
        time.sleep(5)
        assert waiting(space) == successors, "pods are made, evicted and made again"
        assert len(fabric.emulator.memories()) == 1, "the region must stay: its bytes are its owner's"
    finally:
        fabric.admin.patch("cxlblade", "b0", {"spec": {"drain": "None"}})
    running(space, "app", 2, 120)
    space.until("cxlr", "late", cxl.is_ready, 60)


def waiting(space: Kube) -> set[str]:
    """Names of the pods, if all that there are wait for a node."""
    pods = space.list("pods", "app=app")
    placed = any("nodeName" in pod["spec"] for pod in pods)
    return set() if placed else {pod["metadata"]["name"] for pod in pods}


def composed_by_hand(fabric: Fabric, count: int) -> list[str]:
    """Have the appliance compose free blocks that no ledger knows of, as another tool of its owner would."""
    layout = next(blade for blade in fabric.emulator.blades if blade.name == "b0")
    last = layout.rows - 1
    blocks = [name for name, (_, row) in layout.block_names().items() if row == last][:count]
    body = {"Port": "", "memoryResources": blocks}
    headers = {
        "Content-Type": "application/json",
        "Authorization": "Basic " + base64.b64encode(CREDENTIALS.encode()).decode(),
    }
    url = f"{fabric.emulator.url}/cfm/v1/appliances/a0/blades/b0/memory"
    urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT"), timeout=10
    ).close()
    return blocks


@pytest.mark.e2e
def test_memory_that_nobody_owns_is_reported_and_freed_where_the_installation_says_so(fabric: Fabric) -> None:
    composed_by_hand(fabric, 4)
    system = fabric.admin.inside(SYSTEM)

    def drift() -> list[Object]:
        found: list[Object] = (fabric.admin.get("cxlblade", "b0") or {})["status"].get("drift", [])
        return found

    eventually(lambda: len(drift()) == 1, 60, lambda: "the memory is not reported")
    assert drift()[0]["message"] == "no region has it; free it at the appliance"
    degraded = condition(fabric.admin.get("cxlblade", "b0") or {}, "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "Drift")
    system.run("set", "env", "deployment/ballast-cxl", "BALLAST_CXL_LEAKS=Free")
    try:
        eventually(lambda: fabric.emulator.memories() == {}, 180, lambda: f"still there: {fabric.emulator.memories()}")
        eventually(lambda: not drift() and not ledger(fabric), 60, lambda: f"{drift()} {ledger(fabric)}")
    finally:
        system.run("set", "env", "deployment/ballast-cxl", "BALLAST_CXL_LEAKS=Report")
        system.run("rollout", "status", "deployment/ballast-cxl", "--timeout=90s", seconds=100)
