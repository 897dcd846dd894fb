"""Fixtures of the CXL scenarios: an emulated appliance and the chart with the CXL parts switched on."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.cluster.local import LocalCluster
from e2e.support import cxl
from e2e.support.chart import deploy
from e2e.support.fixtures import Namespaces
from e2e.support.kube import Kube, Object, eventually
from e2e.support.operator import SYSTEM

CREDENTIALS = "composer:correct-horse"
SECRET = "appliance"
BLADES = ("b0=4x16x64,ports=32", "b1=4x16x64,ports=32")


@dataclass
class Fabric:
    """The appliance, and the cluster whose nodes are cabled to it."""

    admin: Kube
    local: LocalCluster
    emulator: cxl.Emulator

    def blades(self, **spec: object) -> list[Object]:
        """The CXLBlades, whose regions must be contiguous on b0 and may be scattered on b1 (class `scatter`)."""
        nodes = [node.name for node in self.local.nodes]
        secret = {"credentialsSecretRef": {"name": SECRET}}
        found = []
        for layout in self.emulator.blades:
            extra = {"class": "scatter", "contiguity": "None"} if layout.name == "b1" else {}
            obj = cxl.blade(self.emulator, layout, nodes, **extra, **spec)
            obj["spec"]["appliance"] |= secret
            found.append(obj)
        return found

    def scale(self, replicas: int) -> None:
        """So many controllers in the cluster; returns when that is so."""
        system = self.admin.inside(SYSTEM)
        system.run("scale", "deployment", "ballast-cxl", f"--replicas={replicas}")
        if replicas:
            system.run("rollout", "status", "deployment/ballast-cxl", "--timeout=90s", seconds=100)
            return
        selector = "app.kubernetes.io/name=ballast-cxl"
        eventually(lambda: not system.list("pods", selector), 60, lambda: "a controller's pod is still there")


@pytest.fixture(scope="module")
def fabric(local: LocalCluster, admin: Kube, images: dict[str, str]) -> Iterator[Fabric]:
    """Everything installed, two blades known, a plugin on every node; and all of it gone afterwards."""
    cxl.prepare_namespace(admin)
    root = cxl.shared_root(local)
    quirks = "global-mutex,rounding,partial-content,one-connection,substring-ids,first-connection-only,amnesia,trusting"
    with cxl.emulator(local, "", *BLADES, quirks=quirks, credentials=CREDENTIALS) as emulated:
        found = Fabric(admin, local, emulated)
        try:
            ages = [f"cxl.controller.{name}={value}" for name, value in cxl.CHART_AGES.items()]
            switched_on = [
                "cxl.enabled=true",
                f"cxl.emulatedRoot={root}",
                # Emulated memory is files of a tmpfs, which count as the memory of whoever writes them first: a scrub.
                "cxl.node.resources.limits.memory=6Gi",
                f"cxl.controller.credentialSecrets={{{SECRET}}}",
            ]
            deploy(admin, images, *switched_on, *ages)
            name, _, word = CREDENTIALS.partition(":")
            admin.inside(SYSTEM).apply(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": SECRET},
                    "stringData": {"username": name, "password": word},
                }
            )
            cxl.plugins_ready(admin)
            admin.apply(*found.blades())
            for blade in ("b0", "b1"):
                admin.until("cxlblade", blade, cxl.is_ready, 60)
            yield found
        finally:
            clear(found)
            deploy(admin, images)


def clear(fabric: Fabric) -> None:
    """Remove every region and blade, whatever state they are in."""
    admin = fabric.admin
    for kind in ("cxlregions", "cxlattachments", "cxlblades", "cxltenantquotas"):
        for obj in admin.everywhere(kind):
            place = admin.inside(obj["metadata"].get("namespace", "default"))
            place.run("delete", kind, obj["metadata"]["name"], "--ignore-not-found", "--wait=false")
    eventually(lambda: not admin.everywhere("cxlregions"), 120, lambda: "a region is still there")
    eventually(lambda: not admin.everywhere("cxlblades"), 60, lambda: "a blade is still there")


@pytest.fixture
def space(fabric: Fabric, namespaces: Namespaces) -> Iterator[Kube]:
    """A namespace of the test's own."""
    made = namespaces.new()
    yield made
    namespaces.drop(made)
