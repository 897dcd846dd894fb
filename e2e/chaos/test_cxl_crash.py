"""A region's whole life while its controller or its appliance dies between two steps of it.

Each life is the same: the region is made, a pod uses it, the pod ends, the region is deleted. Whatever died on the way,
the appliance's own log must end up with one compose, two connections (the pod's and the overwriting node's) and one end,
and the region must be there for as long as somebody wants it.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ballast_cxl.node.checkpoint import Entries
from e2e.cluster.local import LocalCluster
from e2e.scenarios.test_cxl_node import got, pod, put, running
from e2e.support import cxl
from e2e.support.chart import deploy
from e2e.support.cxl_node import NodePlugin, attachments, plugins
from e2e.support.fixtures import Namespaces
from e2e.support.kube import Kube, Object, eventually
from e2e.support.operator import OperatorProcess, account_kubeconfig

pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]

SHORT = {"BALLAST_CXL_CALL_SECONDS": "3", "BALLAST_CXL_OPERATION_SECONDS": "6"}
BUDGET_SECONDS = 60.0
MOST = 80  # far more steps than a life has; the matrix ends at the first one that is not reached
BUSY_SECONDS = 2.0  # that the appliance takes for a change, while its caller dies
PHASES = ("make", "attach", "detach", "end")
CHANGES = (
    ("make", "compose"),
    ("attach", "assign"),
    ("detach", "unassign"),
    ("end", "assign"),
    ("end", "unassign"),
    ("end", "free"),
)


@dataclass
class Yard:
    """The appliance, its controller, which the tests start, and a plugin on every node."""

    admin: Kube
    emulator: cxl.Emulator
    controller: OperatorProcess
    plugins: dict[str, NodePlugin]

    def ledger(self) -> list[Object]:
        found: list[Object] = (self.admin.get("cxlblade", "c0") or {}).get("status", {}).get("reservations", [])
        return found

    def checkpoints(self) -> list[Entries]:
        return [plugin.checkpoint for plugin in self.plugins.values() if plugin.checkpoint]


@pytest.fixture(scope="module")
def yard(
    admin: Kube, images: dict[str, str], local: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("crash")
    cxl.prepare_namespace(admin)
    deploy(admin, images, *cxl.NOBODY)
    rights = account_kubeconfig(admin, folder / "controller.kubeconfig", account="ballast-cxl")
    controller = cxl.controller(rights, folder / "controller.log", **SHORT)
    with (
        cxl.emulator(local, "crash", "c0=4x16x1,ports=8", quirks=cxl.EVERY_TRAP) as emulated,
        plugins(admin, local, emulated.root, folder) as found,
    ):
        with controller:
            admin.apply(cxl.blade(emulated, emulated.blades[0], [node.name for node in local.nodes]))
            admin.until("cxlblade", "c0", cxl.is_ready, 60)
        yield Yard(admin, emulated, controller, found)
        with controller:
            admin.run("delete", "cxlblade", "c0", "--wait=false")
            eventually(lambda: not admin.get("cxlblade", "c0"), 60, lambda: "the blade is still there")
    deploy(admin, images)


def begin(kube: Kube, phase: str) -> None:
    """What a user does."""
    match phase:
        case "make":
            kube.apply(cxl.region("kv", "4Mi"))
        case "attach":
            kube.apply(pod("user", node="node1"))
        case "detach":
            kube.run("delete", "pod", "user", "--wait=false")
        case "end":
            kube.run("delete", "cxlr", "kv", "--wait=false")


def reached(yard: Yard, kube: Kube, phase: str) -> None:
    """Wait for what the user wanted; and nothing that is wanted is lost."""
    match phase:
        case "make":
            kube.until("cxlr", "kv", cxl.is_ready, BUDGET_SECONDS)
        case "attach":
            running(kube, "user", BUDGET_SECONDS)
            put(kube, "user", "as it was")
            assert got(kube, "user", 9) == "as it was"
        case "detach":
            kube.gone("pod", "user", BUDGET_SECONDS)
            eventually(lambda: not attachments(kube), BUDGET_SECONDS, lambda: f"left: {attachments(kube)}")
            assert (len(yard.ledger()), len(yard.emulator.memories())) == (1, 1), "the region is lost"
            assert cxl.is_ready(kube.get("cxlr", "kv") or {})
        case "end":
            kube.gone("cxlr", "kv", BUDGET_SECONDS)
            eventually(
                lambda: (yard.ledger(), yard.emulator.memories()) == ([], {}),
                BUDGET_SECONDS,
                lambda: f"leaked: {yard.ledger()}, {yard.emulator.memories()}",
            )


def judged(yard: Yard, since: int, what: str) -> None:
    """By the appliance's own log: one life, in which nothing was done twice."""
    verdict = yard.emulator.verdict(since)
    assert (verdict.overlaps, verdict.refusals, verdict.twice, verdict.left) == ([], [], [], {}), what
    changes = [event["op"] for event in yard.emulator.events(since) if event["op"] not in ("start", "refused")]
    assert changes == ["compose", "assign", "unassign", "assign", "unassign", "free"], what
    assert (attachments(yard.admin), yard.checkpoints()) == ([], []), what


def live(yard: Yard, kube: Kube) -> float:
    """One life; seconds that its longest phase took."""
    longest = 0.0
    for phase in PHASES:
        started = time.monotonic()
        begin(kube, phase)
        reached(yard, kube, phase)
        longest = max(longest, time.monotonic() - started)
    return longest


def test_a_controller_that_dies_after_any_step_leaves_nothing_undone(yard: Yard, namespaces: Namespaces) -> None:
    """Steps are its writes to the API server and its calls to the appliance, in the order in which they are made."""
    worst = 0.0
    for step in range(1, MOST + 1):
        kube, since, before = namespaces.new(), yard.emulator.lines(), yard.controller.restarts
        with yard.controller.kept_running(BALLAST_CRASH_AFTER_WRITES=str(step)):
            took = live(yard, kube)
        judged(yard, since, f"after a crash at step {step}")
        namespaces.drop(kube)
        if yard.controller.restarts == before:
            break
        assert yard.controller.restarts == before + 1
        print(f"died after step {step}: its longest phase took {took:.1f} s")
        worst = max(worst, took)
    print(f"died after each of {step - 1} steps: no phase took longer than {worst:.1f} s (budget {BUDGET_SECONDS:g} s)")
    assert 20 <= step - 1 < MOST
    assert worst < BUDGET_SECONDS


def spoiled(yard: Yard, kube: Kube, phase: str, op: str, mode: str) -> float:
    """A life in which something dies at one change; seconds from the death to what the user wanted."""
    since = yard.emulator.lines()
    for each in PHASES:
        if each == phase:
            yard.emulator.fault(op, mode, seconds=BUSY_SECONDS)
        begin(kube, each)
        if each == phase:
            if mode.startswith("die"):
                eventually(lambda: yard.emulator.exit_code() == 137, 30, lambda: f"the appliance never came to {op}")
                yard.emulator.start()
            else:
                eventually(lambda: not yard.emulator.faults(), 30, lambda: f"the appliance never came to {op}")
                yard.controller.kill()
                yard.controller.start()
            died = time.monotonic()
        reached(yard, kube, each)
        if each == phase:
            took = time.monotonic() - died
    judged(yard, since, f"{mode} at {op} of phase {phase}")
    print(f"{phase}, {op}, {mode}: {took:.1f} s")
    return took


@pytest.mark.parametrize("mode", ["die-before", "die-after"])
def test_an_appliance_that_dies_on_either_side_of_a_change_leaves_nothing_undone(
    yard: Yard, namespaces: Namespaces, mode: str
) -> None:
    worst = 0.0
    looks = [(phase, "look") for phase in PHASES] if mode == "die-before" else []
    with yard.controller:
        for phase, op in (*CHANGES, *looks):
            kube = namespaces.new()
            worst = max(worst, spoiled(yard, kube, phase, op, mode))
            namespaces.drop(kube)
    print(f"{mode}: all is as it should be {worst:.1f} s later at most (budget {BUDGET_SECONDS:g} s)")
    assert worst < BUDGET_SECONDS


@pytest.mark.parametrize("mode", ["hang", "slow"])
def test_a_controller_that_dies_while_the_appliance_is_at_work_leaves_nothing_undone(
    yard: Yard, namespaces: Namespaces, mode: str
) -> None:
    """hang: the appliance makes the change when the one that asked is dead already. slow: it has made it just now."""
    worst = 0.0
    with yard.controller:
        for phase, op in CHANGES:
            kube = namespaces.new()
            worst = max(worst, spoiled(yard, kube, phase, op, mode))
            namespaces.drop(kube)
    print(f"{mode}: all is as it should be {worst:.1f} s later at most (budget {BUDGET_SECONDS:g} s)")
    assert worst < BUDGET_SECONDS
