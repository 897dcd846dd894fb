"""Claims race for a blade, by pods of eight clients, while controllers and node plugins die: never two for one block.

The grid is that of 512 GiB in blocks of 8 GiB; its blocks are of 1 MiB here, so that everything can be overwritten with
zeros in memory. The appliance composes blocks that are in use without a word, so an overlap would be in its log.
"""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from e2e.cluster.local import LocalCluster
from e2e.support import cxl
from e2e.support.chart import deploy
from e2e.support.cxl_node import NodePlugin, plugins
from e2e.support.fixtures import Namespaces
from e2e.support.kube import Kube, Object, eventually
from e2e.support.operator import OperatorProcess, account_kubeconfig

CLIENTS = 8
PATIENCE = 600


class Chaos:
    """Kills a controller or a node plugin now and then, and has it come back, until it is told to stop."""

    def __init__(self, seed: int, controllers: list[OperatorProcess], found: dict[str, NodePlugin]) -> None:
        self._rng, self._controllers, self._plugins = random.Random(seed), controllers, list(found.values())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = 0

    def __enter__(self) -> "Chaos":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._rng.uniform(8.0, 20.0)):
            self.kills += 1
            if self._rng.random() < 0.6:
                victim = self._rng.choice(self._controllers)
                victim.kill()
                time.sleep(self._rng.uniform(0.0, 2.0))
                victim.start()
            else:
                plugin = self._rng.choice(self._plugins)
                plugin.kill()
                time.sleep(self._rng.uniform(0.0, 2.0))
                plugin.start()


class Field:
    """The appliance, two controllers without election, a plugin on every node."""

    def __init__(
        self, admin: Kube, emulated: cxl.Emulator, controllers: list[OperatorProcess], found: dict[str, NodePlugin]
    ) -> None:
        self.admin, self.emulator, self.controllers, self.plugins = admin, emulated, controllers, found


@pytest.fixture(scope="module")
def field(
    admin: Kube, images: dict[str, str], local: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Field]:
    folder = tmp_path_factory.mktemp("race")
    cxl.prepare_namespace(admin)
    deploy(admin, images, *cxl.NOBODY)
    rights = account_kubeconfig(admin, folder / "controller.kubeconfig", account="ballast-cxl")
    nodes = [node.name for node in local.nodes]
    with (
        cxl.emulator(local, "race", "r0=4x16x1,ports=80", "r1=4x16x1,ports=140", quirks=cxl.EVERY_TRAP) as emulated,
        plugins(admin, local, emulated.root, folder) as found,
        ExitStack() as stack,
    ):
        controllers = [stack.enter_context(cxl.controller(rights, folder / f"controller-{n}.log")) for n in range(2)]
        for layout in emulated.blades:
            contiguity = "Required" if layout.name == "r0" else "None"
            extra = {"contiguity": contiguity, "class": layout.name}
            admin.apply(cxl.blade(emulated, layout, nodes, **extra))
            admin.until("cxlblade", layout.name, cxl.is_ready, 60)
        yield Field(admin, emulated, controllers, found)
        for layout in emulated.blades:
            admin.run("delete", "cxlblade", layout.name, "--wait=false")
        eventually(lambda: not admin.everywhere("cxlblades"), 120, lambda: "a blade is still there")
    deploy(admin, images)


def template(name: str, blade: str, size: str) -> Object:
    """A claim for so much private memory of one blade."""
    on_blade = f'device.attributes["cxl.ballast.dev"].blade == "{blade}"'
    exactly = {
        "deviceClassName": "cxl.ballast.dev",
        "capacity": {"requests": {"size": size}},
        "selectors": [{"cel": {"expression": on_blade}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "memory", "exactly": exactly}]}}},
    }


def pod(name: str, claim: str) -> Object:
    spec = cxl.pod_spec([{"name": "mine", "resourceClaimTemplateName": claim}], "sleep 3600")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def ask(kube: Kube, pods: list[Object], seed: int) -> None:
    """All pods at once, from eight clients."""
    shuffled = random.Random(seed).sample(pods, len(pods))
    shares = [shuffled[number::CLIENTS] for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda share: [kube.apply(one) for one in share], shares))


def phases(kube: Kube) -> dict[str, int]:
    """How many pods run, are bound, and wait with the scheduler's reason."""
    found = {"running": 0, "bound": 0, "pending with a reason": 0}
    for one in kube.list("pods"):
        conditions = {c["type"]: c for c in one.get("status", {}).get("conditions", [])}
        found["running"] += one.get("status", {}).get("phase") == "Running"
        found["bound"] += "nodeName" in one["spec"]
        scheduled = conditions.get("PodScheduled", {})
        found["pending with a reason"] += scheduled.get("status") == "False" and bool(scheduled.get("message"))
    return found


def clear(field: Field, kube: Kube) -> float:
    """Delete all pods; seconds until every block is free."""
    kube.run("delete", "pods", "--all", "--grace-period=1", "--wait=false")
    return eventually(
        lambda: not field.emulator.memories() and not kube.list("cxlregions"),
        PATIENCE,
        lambda: f"left: {field.emulator.memories()}, {[cxl_phase(r) for r in kube.list('cxlregions')]}",
    )


def cxl_phase(region: Object) -> str:
    return f"{region['metadata']['name']} {region.get('status', {}).get('phase')}"


def race(field: Field, kube: Kube, seed: int, count: int, fit: int, blade: str, size: str) -> None:
    since = field.emulator.lines()
    kube.apply(template("memory", blade, size))
    with Chaos(seed, field.controllers, field.plugins) as chaos:
        ask(kube, [pod(f"p{number:02d}", "memory") for number in range(count)], seed)
        took = eventually(lambda: phases(kube)["bound"] >= fit, PATIENCE, lambda: f"{phases(kube)}")
    eventually(
        lambda: phases(kube) == {"running": fit, "bound": fit, "pending with a reason": count - fit},
        PATIENCE,
        lambda: f"{phases(kube)}",
    )
    seen, standing = phases(kube), field.emulator.verdict(since)
    freed = clear(field, kube)
    verdict = field.emulator.verdict(since)
    print(
        f"seed {seed}: {count} pods, {seen}, {chaos.kills} kills, all bound after {took:.0f} s, all free after "
        f"{freed:.0f} s; {standing.composes} composes until then, {verdict.composes} with those of pods that waited and "
        f"got what others, deleted a moment before, gave back; overlaps {len(verdict.overlaps)}, refusals "
        f"{len(verdict.refusals)}, ports twice {len(verdict.twice)}"
    )
    assert standing.composes - standing.frees == fit
    assert (verdict.overlaps, verdict.refusals, verdict.twice, verdict.left) == ([], [], [], {})


@pytest.mark.e2e
@pytest.mark.parametrize("seed", range(3))
def test_exactly_sixteen_of_forty_eight_get_a_row_of_a_contiguous_blade(
    field: Field, namespaces: Namespaces, seed: int
) -> None:
    race(field, namespaces.new(), seed, 48, 16, "r0", "4Mi")


@pytest.mark.e2e
@pytest.mark.parametrize("seed", range(3))
def test_exactly_thirty_two_of_sixty_four_get_two_blocks_of_a_scattering_blade(
    field: Field, namespaces: Namespaces, seed: int
) -> None:
    race(field, namespaces.new(), seed, 64, 32, "r1", "2Mi")


def mixed(field: Field, kube: Kube, seed: int) -> None:
    """Both ways of asking and all sizes: only that nothing is ever given away twice."""
    rng, since = random.Random(seed), field.emulator.lines()
    sizes = ["4Mi", "8Mi", "16Mi", "32Mi"]
    for size in sizes:
        kube.apply(template(f"m{size.lower()}", "r0", size))
    wanted: list[Object] = [pod(f"p{number:02d}", f"m{rng.choice(sizes).lower()}") for number in range(16)]
    wanted += [cxl.region(f"r{number:02d}", rng.choice(sizes), **{"class": "r0"}) for number in range(16)]
    with Chaos(seed, field.controllers, field.plugins) as chaos:
        ask(kube, wanted, seed)
        time.sleep(30)
        for region in rng.sample(kube.list("cxlregions"), 6):
            kube.run("delete", "cxlregion", region["metadata"]["name"], "--ignore-not-found", "--wait=false")
        time.sleep(15)
    kube.run("delete", "cxlregions", "--all", "--wait=false")
    clear(field, kube)
    verdict = field.emulator.verdict(since)
    print(f"seed {seed}: mixed, {chaos.kills} kills, {verdict.composes} composes, at most {verdict.most} of 64 blocks")
    assert (verdict.overlaps, verdict.refusals, verdict.twice, verdict.left) == ([], [], [], {})
    assert verdict.composes == verdict.frees >= 4


@pytest.mark.e2e
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_given_away_twice_whoever_asks_for_what(field: Field, namespaces: Namespaces, seed: int) -> None:
    mixed(field, namespaces.new(), seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_races(field: Field, namespaces: Namespaces, seed: int) -> None:
    race(field, namespaces.new(), seed, 48, 16, "r0", "4Mi")
    race(field, namespaces.new(), seed, 64, 32, "r1", "2Mi")
    mixed(field, namespaces.new(), seed)
