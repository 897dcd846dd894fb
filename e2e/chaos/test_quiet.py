"""Two operators, no operator, an operator with nothing to do: quiet, and nothing twice."""

import time

import pytest

from e2e.chaos.state import CHILDREN, OWNED
from e2e.scenarios.test_resume import long_solve, running_pod
from e2e.support.audit import Audit, writes
from e2e.support.fixtures import Namespaces, OperatorHere
from e2e.support.kube import Kube, eventually, is_true, solve
from e2e.support.operator import ACCOUNT, SYSTEM

QUIET_SECONDS = 60


@pytest.mark.e2e
def test_finished_and_suspended_objects_cause_no_write(kube: Kube, audit: Audit) -> None:
    start = audit.now()
    kube.apply(solve("done"), solve("waits", suspend=True), long_solve("stopped"))
    running_pod(kube, "stopped")
    kube.patch("cfr", "stopped", {"spec": {"suspend": True}})
    kube.until("cfr", "done", is_true("Complete"), 90)
    kube.until("cfr", "stopped", is_true("Suspended"), 90)
    kube.until("cfr", "waits", is_true("Suspended"), 30)
    time.sleep(3)
    position = audit.now()
    assert ours_in(kube, audit, start), "no write is found before either, so this proves nothing"
    time.sleep(QUIET_SECONDS)
    assert ours_in(kube, audit, position) == []


def ours_in(kube: Kube, audit: Audit, position: int) -> list[str]:
    """Writes to this namespace since then, by the operator and by the pods of solves."""
    ours = audit.by(f"system:serviceaccount:{SYSTEM}:{ACCOUNT}", position)
    ours += audit.by(f"system:serviceaccount:{kube.namespace}:", position)
    return [write for write in writes(ours) if kube.namespace in write]


@pytest.mark.e2e
def test_two_operators_at_once_neither_flap_nor_duplicate(namespaces: Namespaces, operator_here: OperatorHere) -> None:
    kube = namespaces.new()
    first, second = operator_here(kube.namespace), operator_here(kube.namespace)
    kube.apply(solve("runs", stop={"maxSeconds": 3600}), solve("waits", suspend=True), solve("done"))
    with first, second:
        running_pod(kube, "runs")
        kube.until("cfr", "done", is_true("Complete"), 90)
        time.sleep(3)
        before = versions(kube)
        phases = set()
        for _ in range(30):
            time.sleep(1)
            phases |= {(o["metadata"]["name"], o["status"]["phase"]) for o in kube.list("cfr")}
        assert versions(kube) == before, "children changed although nothing was asked"
        assert len(phases) == 3, f"a state flapped: {phases}"
        assert len(kube.list("jobs")) == 2
        assert len(kube.list("pods")) == 2
    namespaces.drop(kube)
    assert not [entry for entry in first.entries() + second.entries() if entry["level"] == "error"]


def versions(kube: Kube) -> dict[str, str]:
    """Resource versions of all children; a Job's moves with its pods, so its generation stands for it."""
    return {
        f"{o['kind']}/{o['metadata']['name']}": str(
            o["metadata"]["generation"] if o["kind"] == "Job" else o["metadata"]["resourceVersion"]
        )
        for o in kube.list(CHILDREN, OWNED)
    }


@pytest.mark.e2e
def test_a_namespace_goes_away_with_no_operator_there(namespaces: Namespaces, operator_here: OperatorHere) -> None:
    kube = namespaces.new()
    with operator_here(kube.namespace):
        kube.apply(long_solve("runs"), solve("waits", suspend=True))
        running_pod(kube, "runs")
    kube.run("delete", "namespace", kube.namespace, "--wait=false")
    took = eventually(
        lambda: kube.get("namespace", kube.namespace) is None, 120, lambda: "the namespace is still there"
    )
    print(f"namespace gone {took:.0f} s after its deletion, with no operator running")


@pytest.mark.e2e
def test_a_deleted_solve_leaves_nothing(kube: Kube) -> None:
    kube.apply(long_solve("runs"))
    running_pod(kube, "runs")
    kube.delete("cfr", "runs")
    eventually(lambda: not kube.list(f"{CHILDREN},pods", OWNED), 60, lambda: f"left: {kube.list(CHILDREN, OWNED)}")
