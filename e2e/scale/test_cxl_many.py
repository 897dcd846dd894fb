"""A thousand regions on blades that are cabled to 256 nodes: slices within the API's limits, and quiet at rest.

The nodes are objects without a kubelet or a plugin: whatever is to be overwritten is said to be zeros at once. What is
measured is the region controller, the ledger and the slices.
"""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from ballast_cxl.names import DRIVER
from ballast_cxl.quantity import to_bytes
from e2e.cluster.local import LocalCluster
from e2e.support import cxl
from e2e.support.audit import Audit, writes
from e2e.support.chart import deploy
from e2e.support.fixtures import Namespaces
from e2e.support.kube import Kube, Object, eventually
from e2e.support.operator import SYSTEM, OperatorProcess, account_kubeconfig

NODES, BLADES, REGIONS = 256, 16, 1000
MOST_DEVICES_WITH_TAINTS = 64  # of a ResourceSlice, where the API allows taints or counters
PUBLISH_SECONDS, QUIET_SECONDS = 10.0, 60
PATIENCE_SECONDS = 3000  # no goal: on processors that others use as well the end is late, and must come all the same
POLL_SECONDS = 3  # asking for a thousand objects all the time takes the processors from those that are measured
SILENT = {"BALLAST_CXL_NODE_LOST_SECONDS": "7200"}  # nobody reports from these nodes
ATTACHMENTS = ("ballast.dev", "v1alpha1", "cxlattachments")


@dataclass
class Park:
    """Blades, nodes and the one controller."""

    admin: Kube
    controller: OperatorProcess
    blades: list[str]


def node(number: int) -> Object:
    """A node that nobody runs."""
    name = f"sim-{number:03d}"
    labels = {"kubernetes.io/hostname": name, "ballast.dev/simulated": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True},
    }


@pytest.fixture
def park(admin: Kube, images: dict[str, str], local: LocalCluster, tmp_path: Path) -> Iterator[Park]:
    cxl.prepare_namespace(admin)
    deploy(admin, images, *cxl.NOBODY)
    rights = account_kubeconfig(admin, tmp_path / "controller.kubeconfig", account="ballast-cxl")
    each = NODES // BLADES
    texts = [f"s{number:02d}=4x64x1,ports={each}" for number in range(BLADES - 1)] + [f"wide=4x64x1,ports={NODES}"]
    nodes = [node(number) for number in range(NODES)]
    names = [obj["metadata"]["name"] for obj in nodes]
    with ExitStack() as stack:
        emulated = stack.enter_context(cxl.emulator(local, "many", *texts))
        stack.callback(deploy, admin, images)
        stack.callback(admin.run, "delete", "nodes", "-l", "ballast.dev/simulated=true", seconds=180)
        admin.run("create", "-f", "-", text=documents(nodes), seconds=180)
        for number, layout in enumerate(emulated.blades):
            mine = names if layout.name == "wide" else names[number * each : (number + 1) * each]
            admin.apply(cxl.blade(emulated, layout, mine))
        stack.enter_context(plugins(admin.kubeconfig))
        controller = stack.enter_context(cxl.controller(rights, tmp_path / "controller.log", **SILENT))
        blades = [layout.name for layout in emulated.blades]
        for name in blades:
            admin.until("cxlblade", name, cxl.is_ready, 120)
        yield Park(admin, controller, blades)
        for name in blades:
            admin.run("delete", "cxlblade", name, "--wait=false")
        eventually(lambda: not admin.everywhere("cxlblades"), 120, lambda: "a blade is still there")


@contextmanager
def plugins(kubeconfig: Path) -> Iterator[None]:
    """Stands for the node plugins, for as long as the block lasts: says of every region that it is zeros now."""
    client: Any = kubernetes.config.new_client_from_config  # without types in the package
    api: Any = kubernetes.client.CustomObjectsApi(client(str(kubeconfig)))
    over = threading.Event()

    def answer() -> None:
        while not over.wait(1):
            for found in api.list_cluster_custom_object(*ATTACHMENTS)["items"]:
                status = found.get("status", {})
                if found["spec"].get("purpose") != "Scrub" or status.get("phase") != "Assigned" or "node" in status:
                    continue
                size = to_bytes(status["size"])
                said = {"scrub": {"bytes": size, "verified": size, "generation": status["generation"]}}
                name = found["metadata"]["name"]
                api.patch_cluster_custom_object_status(*ATTACHMENTS, name, {"status": {"node": said}})

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def documents(objects: list[Object]) -> str:
    return "\n---\n".join(json.dumps(obj) for obj in objects)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_a_thousand_regions(park: Park, namespaces: Namespaces, audit: Audit) -> None:
    kube, admin = namespaces.new(), park.admin
    position, started = audit.now(), time.monotonic()
    kube.run("create", "-f", "-", text=documents([cxl.region(f"r{n:04d}", "4Mi") for n in range(REGIONS)]), seconds=600)
    created = time.monotonic() - started
    eventually(lambda: ready(kube) == REGIONS, 1200, lambda: f"{ready(kube)} of {REGIONS}")
    took = time.monotonic() - started
    ours = writes(audit.by(f"system:serviceaccount:{SYSTEM}:ballast-cxl", position))
    memory = max(
        int(kib) // 1024
        for kib in re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{park.controller.pid}/status").read_text())
    )
    shown = slices(admin)
    print(
        f"{REGIONS} regions on {BLADES} blades and {NODES} nodes: created in {created:.0f} s, all Ready after {took:.0f} s, "
        f"{len(ours)} writes ({len(ours) / REGIONS:.1f} a region), {memory} MiB at most, {len(shown)} slices, "
        f"{max(len(s['spec'].get('devices', [])) for s in shown)} devices in the fullest"
    )
    within_limits(shown)
    again = republished(admin, shown)
    print(f"all {len(shown)} slices deleted, back after {again:.1f} s (budget {PUBLISH_SECONDS:g} s)")
    time.sleep(2 * float(cxl.AGES["BALLAST_CXL_PUBLISH_SECONDS"]))
    position = audit.now()
    time.sleep(QUIET_SECONDS)
    at_rest = writes(audit.by(f"system:serviceaccount:{SYSTEM}:ballast-cxl", position))
    print(f"writes in {QUIET_SECONDS} s at rest, Leases apart: {len(at_rest)}")
    started = time.monotonic()
    kube.run("delete", "cxlregions", "--all", "--wait=false", seconds=300)
    eventually(lambda: count(kube) == 0, PATIENCE_SECONDS, lambda: f"{count(kube)} regions are left")
    print(f"all deleted and free, where overwriting takes a second, after {time.monotonic() - started:.0f} s")
    assert at_rest == []
    assert again < 3 * PUBLISH_SECONDS


def republished(admin: Kube, shown: list[Object]) -> float:
    """Seconds until slices that somebody deleted are there again, with every device that they had."""
    wanted = devices(shown)
    admin.run("delete", "resourceslices", *(s["metadata"]["name"] for s in shown), "--wait=false", seconds=120)
    return eventually(lambda: devices(slices(admin)) == wanted, 120, lambda: "not every device is offered again")


def within_limits(shown: list[Object]) -> None:
    """What the API allows, and that every pool is whole."""
    pools: dict[str, list[Object]] = {}
    for one in shown:
        assert len(one["spec"].get("devices", [])) <= MOST_DEVICES_WITH_TAINTS
        pools.setdefault(one["spec"]["pool"]["name"], []).append(one)
    for name, mine in pools.items():
        headers = {(s["spec"]["pool"]["generation"], s["spec"]["pool"]["resourceSliceCount"]) for s in mine}
        assert len(headers) == 1, f"pool {name} is not of one generation: {headers}"
        assert len(mine) == headers.pop()[1], f"pool {name} has {len(mine)} slices"
    regions = [name for name in devices(shown) if "/region-" in name]
    assert len(regions) == REGIONS, f"{len(regions)} regions are offered"


def slices(admin: Kube) -> list[Object]:
    return [s for s in admin.list("resourceslices") if s["spec"]["driver"] == DRIVER]


def devices(shown: list[Object]) -> set[str]:
    """`pool/device` of all slices."""
    return {f"{s['spec']['pool']['name']}/{d['name']}" for s in shown for d in s["spec"].get("devices", [])}


def ready(kube: Kube) -> int:
    time.sleep(POLL_SECONDS)
    text = kube.run("get", "cxlr", "-o", r'jsonpath={range .items[*]}{.status.phase}{"\n"}{end}', seconds=120)
    return sum(line == "Ready" for line in text.splitlines())


def count(kube: Kube) -> int:
    time.sleep(POLL_SECONDS)
    path = f"/apis/ballast.dev/v1alpha1/namespaces/{kube.namespace}/cxlregions?limit=1"
    first = json.loads(kube.run("get", "--raw", path, seconds=120))
    return len(first["items"]) + int(first["metadata"].get("remainingItemCount", 0))
