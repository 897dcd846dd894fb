"""What somebody changes by hand is put back, and a deleted Job comes again only when its pods are gone."""

import time

import pytest

from e2e.scenarios.test_resume import long_solve, running_pod
from e2e.support.kube import Kube, Object, eventually

BUDGET_SECONDS = 2.0
CHILDREN = ("configmap/leduc-strategy", "serviceaccount/leduc-solve", "role/leduc-solve", "rolebinding/leduc-solve")


@pytest.mark.e2e
def test_an_edited_child_of_a_running_solve_is_put_back_within_two_seconds(kube: Kube) -> None:
    kube.apply(long_solve("leduc"))
    running_pod(kube, "leduc")
    times = []
    for limit in (1, 2, 3):
        kube.patch(
            "job",
            "leduc-solve",
            {"spec": {"backoffLimit": limit}, "metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}},
        )
        times.append(eventually(lambda: _as_made(kube), 3 * BUDGET_SECONDS, lambda: "the Job is not put back"))
    print(f"edited Job put back after {sorted(times)[1]:.1f} s (median of 3; budget {BUDGET_SECONDS} s)")


def _as_made(kube: Kube) -> bool:
    job = kube.get("job", "leduc-solve")
    return bool(
        job
        and job["spec"]["backoffLimit"] == 6
        and job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ballast"
    )


@pytest.mark.e2e
def test_a_deleted_child_comes_again_within_two_seconds(kube: Kube) -> None:
    kube.apply(long_solve("leduc"))
    running_pod(kube, "leduc")
    times = []
    for child in CHILDREN:
        kind, name = child.split("/")
        kube.delete(kind, name)
        times.append(
            eventually(lambda k=kind, n=name: kube.get(k, n), 3 * BUDGET_SECONDS, lambda c=child: f"{c} is not back")  # type: ignore[misc]
        )
    print(f"deleted children back after {', '.join(f'{t:.1f}' for t in times)} s (budget {BUDGET_SECONDS} s each)")


@pytest.mark.e2e
def test_a_deleted_job_comes_again_when_its_pods_are_gone_and_never_before(kube: Kube) -> None:
    kube.apply(long_solve("leduc"))
    old, first = running_pod(kube, "leduc"), uid(kube.get("job", "leduc-solve"))
    kube.delete("job", "leduc-solve", "--wait=false")
    last_seen = time.monotonic()
    made_at: float | None = None
    most = 0
    until = time.monotonic() + 90
    while made_at is None and time.monotonic() < until:
        new = uid(kube.get("job", "leduc-solve")) not in (None, first)  # before the pods: what is there then is early
        running = [
            p["metadata"]["name"] for p in kube.list("pods") if p["status"].get("phase") in ("Pending", "Running")
        ]
        most = max(most, len(running))
        if old in running:
            assert not new, "the new Job is there before the old pod has ended"
            last_seen = time.monotonic()
        elif new:
            made_at = time.monotonic()
    assert made_at, "no new Job"
    waited = made_at - last_seen
    print(f"new Job at most {waited:.1f} s after the old pod had ended (budget {BUDGET_SECONDS} s)")
    assert waited < 3 * BUDGET_SECONDS
    assert most == 1, "two pods could have written one checkpoint"
    running_pod(kube, "leduc", after=0)


def uid(obj: Object | None) -> str | None:
    return str(obj["metadata"]["uid"]) if obj else None


@pytest.mark.e2e
def test_an_object_of_somebody_else_is_never_taken_over(kube: Kube) -> None:
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leduc-strategy"}, "data": {"mine": "yes"}}
    kube.apply(mine)
    kube.apply(long_solve("leduc"))
    seen = kube.until("cfr", "leduc", lambda o: "ChildConflict" in str(o.get("status")), 30)
    assert "ConfigMap" in str(seen["status"]) and "does not belong to this object" in str(seen["status"])
    found = kube.get("configmap", "leduc-strategy")
    assert found and found["data"] == {"mine": "yes"} and "labels" not in found["metadata"]
    kube.delete("configmap", "leduc-strategy")
    running_pod(kube, "leduc")
