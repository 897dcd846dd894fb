"""What interrupts a solve, and that it goes on from where it was, to the same last bit."""

import json
import re
import time

import pytest

from e2e.support.kube import Kube, condition, eventually, is_true, reason, solve

# long enough that every interruption comes in the middle, on one core beside everything else
ITERATIONS = 400_000
RUN = {"maxIterations": ITERATIONS}
CHECKPOINT = {"intervalSeconds": 2}


def long_solve(name: str, **spec: object) -> dict[str, object]:
    return solve(name, stop=RUN, checkpoint=CHECKPOINT, **spec)


def running_pod(kube: Kube, name: str, after: int = 0, seconds: float = 90) -> str:
    """Name of the pod once the solve has done more than `after` iterations in it."""

    def under_way(obj: dict[str, object]) -> bool:
        status: dict[str, object] = obj.get("status", {})  # type: ignore[assignment]
        return reason("Progressing", "Running")(obj) and int(str(status.get("iteration", 0))) > after

    kube.until("cfr", name, under_way, seconds, f"more than {after} iterations")
    pods = [p for p in kube.list("pods", f"ballast.dev/owner-name={name}") if p["status"]["phase"] == "Running"]
    return str(pods[-1]["metadata"]["name"])


def iteration(kube: Kube, name: str) -> int:
    found = kube.get("cfr", name)
    return int(found.get("status", {}).get("iteration", 0)) if found else 0


def result(kube: Kube, name: str) -> str:
    found = kube.get("configmap", f"{name}-strategy")
    assert found
    text: str = found["data"]["strategy.csv"]
    return text


def resumed_at(kube: Kube, name: str) -> int:
    """Iteration at which the newest pod of a solve went on, in its own words; 0 if it began anew."""
    pods = kube.list("pods", f"ballast.dev/owner-name={name}")
    newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    said = kube.run("logs", newest["metadata"]["name"])
    found = re.search(r"^resuming at iteration (\d+)$", said, re.MULTILINE)
    return int(found[1]) if found else 0


def evict(kube: Kube, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": kube.namespace}}
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{pod}/eviction"
    kube.run("create", "--raw", path, "-f", "-", text=json.dumps(body))


@pytest.mark.e2e
def test_an_interrupted_solve_ends_with_the_strategy_of_an_uninterrupted_one(kube: Kube) -> None:
    kube.apply(long_solve("whole"), long_solve("evicted", backoffLimit=0))
    for _ in range(2):
        before = iteration(kube, "evicted")
        pod = running_pod(kube, "evicted", after=before)
        evict(kube, pod)
        seen = kube.until("cfr", "evicted", reason("Progressing", "Disrupted", "Starting"), 60)
        print("waiting:", condition(seen, "Progressing")["message"])
    for name in ("whole", "evicted"):
        done = kube.until("cfr", name, lambda o: is_true("Complete")(o) or is_true("Failed")(o), 240)
        assert is_true("Complete")(done), condition(done, "Failed")
        assert done["status"]["iteration"] == ITERATIONS
    assert before < resumed_at(kube, "evicted") < ITERATIONS
    assert result(kube, "whole") == result(kube, "evicted")


@pytest.mark.e2e
def test_the_wait_of_the_job_controller_shows(kube: Kube) -> None:
    kube.apply(long_solve("leduc", backoffLimit=0))
    evict(kube, running_pod(kube, "leduc"))
    seen = kube.until("cfr", "leduc", reason("Progressing", "Disrupted"), 60)
    assert "does not count against backoffLimit" in condition(seen, "Progressing")["message"]
    running_pod(kube, "leduc", after=iteration(kube, "leduc"))


@pytest.mark.e2e
def test_a_deleted_pod_counts_once_and_its_successor_goes_on(kube: Kube) -> None:
    kube.apply(long_solve("leduc", backoffLimit=1))
    pod = running_pod(kube, "leduc")
    before = iteration(kube, "leduc")
    kube.delete("pod", pod, "--wait=false")
    running_pod(kube, "leduc", after=before)
    done = kube.until("cfr", "leduc", lambda o: is_true("Complete")(o) or is_true("Failed")(o), 240)
    assert is_true("Complete")(done), condition(done, "Failed")
    assert before <= resumed_at(kube, "leduc") < ITERATIONS


@pytest.mark.e2e
def test_sigterm_ends_with_143_after_a_checkpoint(kube: Kube) -> None:
    kube.apply(long_solve("leduc", backoffLimit=3))
    pod = running_pod(kube, "leduc")
    kube.run("exec", pod, "--", "python3", "-c", "import os; os.kill(1, 15)")
    ended = kube.until("pod", pod, lambda p: p["status"]["phase"] == "Failed", 60)
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 143
    said = json.loads(state["message"])
    assert said["reason"] == "Terminated" and re.search(r"iteration \d+", said["message"])


@pytest.mark.e2e
def test_suspend_and_resume_keep_the_iterations(kube: Kube) -> None:
    kube.apply(long_solve("leduc"))
    running_pod(kube, "leduc")
    kube.patch("cfr", "leduc", {"spec": {"suspend": True}})
    stopped = kube.until("cfr", "leduc", is_true("Suspended"), 90)
    kept = stopped["status"]["iteration"]
    assert kept > 0
    assert kube.get("job", "leduc-solve") is None
    eventually(
        lambda: not [p for p in kube.list("pods") if p["status"]["phase"] == "Running"], 30, lambda: "a pod still runs"
    )
    time.sleep(3)
    assert iteration(kube, "leduc") == kept
    kube.patch("cfr", "leduc", {"spec": {"suspend": False}})
    done = kube.until("cfr", "leduc", is_true("Complete"), 240)
    assert resumed_at(kube, "leduc") == kept
    assert done["status"]["iteration"] == ITERATIONS


@pytest.mark.e2e
def test_a_kubelet_that_restarts_disturbs_nothing(kube: Kube, local: "object") -> None:
    kube.apply(long_solve("leduc", backoffLimit=0))
    pod = running_pod(kube, "leduc")
    found = kube.get("pod", pod)
    assert found
    local.node(found["spec"]["nodeName"]).restart_kubelet()  # type: ignore[attr-defined]
    done = kube.until("cfr", "leduc", lambda o: is_true("Complete")(o) or is_true("Failed")(o), 240)
    assert is_true("Complete")(done), condition(done, "Failed")
    assert len(kube.list("pods", "ballast.dev/owner-name=leduc")) == 1
