"""Replicas follow the load: by the operator, by a real HorizontalPodAutoscaler, from zero; and what keeps them from it."""

import json
import time
from itertools import pairwise

import pytest

from e2e.support.kube import Kube, Object, condition, eventually, reason
from e2e.support.serving import ask, client, moe, pods, serve, shell, wait_ready

pytestmark = pytest.mark.e2e
UP_SECONDS = 60.0
SHORT: Object = {"stabilizationSeconds": 30}


def asked(kube: Kube) -> int:
    found = kube.get("moe", "tiny")
    return int(found["spec"]["replicas"]) if found else -1


def sampled(kube: Kube, seconds: float, until: int) -> list[int]:
    """spec.replicas once a second, until they were so many for a while or the time is over."""
    seen: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and seen[-10:] != [until] * 10:
        seen.append(asked(kube))
        time.sleep(1)
    return seen


def turns(seen: list[int]) -> int:
    steps = [b - a for a, b in pairwise(seen) if a != b]
    return sum((a > 0) != (b > 0) for a, b in pairwise(steps))


@pytest.mark.timeout(1200)
def test_a_load_step_raises_replicas_and_its_end_lowers_them_without_flapping(
    kube: Kube, serving_images: dict[str, str]
) -> None:
    scaling = {"maxReplicas": 2, "scaleDown": SHORT, "metrics": [{"type": "WaitingRequests", "averageValue": 2}]}
    spec = moe(autoscaling=scaling)
    spec["spec"]["engine"]["maxNumSeqs"] = 1
    serve(kube, spec)
    with client(kube, serving_images["router"], workers=6, tokens=400, pause=0.1) as load:
        started = time.monotonic()
        eventually(lambda: asked(kube) == 2, 3 * UP_SECONDS, lambda: f"replicas: {asked(kube)}")
        print(f"replicas raised {time.monotonic() - started:.0f} s after the load (budget {UP_SECONDS:.0f} s)")
        wait_ready(kube)
        under_load = sampled(kube, 90, until=-1)  # well over the window: two are needed, and two stay
        assert set(under_load) == {2}, under_load
        counts = load.end()
        print(f"under load: {counts}")
        assert (counts["failed"], counts["cut"]) == (0, 0)
    afterwards = sampled(kube, 240, until=1)
    assert afterwards[-1] == 1 and turns(under_load + afterwards) == 0, afterwards
    told = {event["reason"] for event in kube.list("events") if event["involvedObject"]["kind"] == "MoEServing"}
    assert {"ScaledUp", "ScaledDown"} <= told
    found = kube.get("moe", "tiny")
    assert found and found["status"]["autoscaling"]["desiredReplicas"] == 1


@pytest.mark.timeout(1200)
def test_zero_and_back_a_request_is_held_and_answered(kube: Kube, serving_images: dict[str, str]) -> None:
    serve(kube, moe(autoscaling={"minReplicas": 0, "maxReplicas": 2, "scaleToZeroAfterSeconds": 15}))
    shell(kube, serving_images["router"])
    eventually(lambda: asked(kube) == 0 and not pods(kube), 180, lambda: f"replicas: {asked(kube)}")
    found = kube.until("moe", "tiny", reason("Ready", "ScaledToZero"), 60)
    assert condition(found, "Available")["status"] == "True"
    started = time.monotonic()
    body: Object = {"model": "tiny", "prompt": "hello", "max_tokens": 8}
    status, text = ask(kube, f"http://tiny.{kube.namespace}.svc:8000/v1/completions", body, seconds=300)
    print(f"answered {time.monotonic() - started:.0f} s after the request, from zero replicas")
    assert status == 200 and json.loads(text)["choices"], text
    told = [event["reason"] for event in kube.list("events") if event["involvedObject"]["kind"] == "MoEServing"]
    assert "ScaledToZero" in told and "ScaledUp" in told


@pytest.mark.timeout(900)
def test_a_real_hpa_scales_by_cpu(kube: Kube, serving_images: dict[str, str]) -> None:
    metrics = [{"type": "CPU", "averageUtilization": 100}]
    serve(kube, moe(autoscaling={"mode": "HPA", "maxReplicas": 2, "metrics": metrics, "scaleDown": SHORT}))
    with client(kube, serving_images["router"], workers=3, tokens=200, pause=0.0):
        eventually(lambda: asked(kube) == 2, 180, lambda: json.dumps((kube.get("hpa", "tiny-engine") or {})["status"]))
    found = kube.until("moe", "tiny", reason("Autoscaling", "Delegated"), 60)
    print(condition(found, "Autoscaling")["message"])


def test_an_hpa_whose_metrics_nobody_has_is_told(kube: Kube) -> None:
    """Requests that wait are a custom metric, and nothing here answers for those. No pod need run for this."""
    nowhere: Object = {"template": {"nodeSelector": {"disk": "none-such"}}}
    metrics = [{"type": "WaitingRequests", "averageValue": 4}]
    kube.apply(moe(autoscaling={"mode": "HPA", "maxReplicas": 2, "metrics": metrics}, router=nowhere, **nowhere))
    started = time.monotonic()
    found = kube.until("moe", "tiny", reason("Autoscaling", "MetricsUnavailable"), 90)
    print(f"MetricsUnavailable told after {time.monotonic() - started:.0f} s (budget 30 s): "
          f"{condition(found, 'Autoscaling')['message'][:160]}")  # fmt: skip
    eventually(
        lambda: "MetricsUnavailable" in {event["reason"] for event in kube.list("events")}, 10, lambda: "no event"
    )
    kube.patch("moe", "tiny", {"spec": {"autoscaling": {"mode": "Operator"}}})
    kube.until("moe", "tiny", reason("Autoscaling", "FollowingLoad"), 45)


HPA: Object = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "theirs"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "ballast.dev/v1alpha1", "kind": "MoEServing", "name": "tiny"},
        "minReplicas": 1,
        "maxReplicas": 2,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ],
    },
}


def test_two_autoscalers_and_one_that_is_off_are_told(kube: Kube) -> None:
    """No pod need run for this, so none does."""
    nowhere: Object = {"template": {"nodeSelector": {"disk": "none-such"}}}
    kube.apply(moe(autoscaling={"maxReplicas": 2}, router=nowhere, **nowhere))
    kube.until("moe", "tiny", lambda obj: "status" in obj, 30)
    kube.run("autoscale", "moe/tiny", "--min=1", "--max=2", "--cpu=80%", "--name=theirs")
    found = kube.until("moe", "tiny", reason("Autoscaling", "AutoscalerConflict"), 30)
    assert "HorizontalPodAutoscaler" in condition(found, "Autoscaling")["message"]
    assert "theirs" in condition(found, "Autoscaling")["message"]
    kube.delete("hpa", "theirs")
    kube.until("moe", "tiny", reason("Autoscaling", "FollowingLoad"), 45)
    kube.apply(moe("off", replicas=0, router=nowhere, **nowhere))
    other = json.loads(json.dumps(HPA))
    other["spec"]["scaleTargetRef"]["name"] = "off"
    kube.apply(other)
    found = kube.until("moe", "off", reason("Autoscaling", "AutoscalerOff"), 30)
    assert "AutoscalerOff" in {event["reason"] for event in kube.list("events")}
    kube.run("scale", "moe/off", "--replicas=1")
    kube.until("moe", "off", reason("Autoscaling", "Delegated"), 45)
