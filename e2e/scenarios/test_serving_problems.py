"""What is broken is told within half a minute, with its reason and an event, and is forgotten once it is mended."""

import time

import pytest

from e2e.support.kube import Kube, Object, condition, eventually, reason
from e2e.support.serving import ask, moe, pods, serve, shell, wait_ready

pytestmark = pytest.mark.e2e
BUDGET_SECONDS = 30.0
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "models"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
}


def told(kube: Kube, name: str, *words: str, since: float | None = None) -> Object:
    """Wait until Ready has one of these reasons; tell how long it took since something happened to a pod."""
    started = since or time.monotonic()
    found = kube.until("moe", name, reason("Ready", *words), 3 * BUDGET_SECONDS)
    print(f"{condition(found, 'Ready')['reason']} told after {time.monotonic() - started:.0f} s (budget 30 s): "
          f"{condition(found, 'Ready')['message'][:160]}")  # fmt: skip
    eventually(lambda: _warnings(kube, name) & set(words), 10, lambda: f"events: {_warnings(kube, name)}")
    assert f"({condition(found, 'Ready')['reason']})" in kube.plugin("why", f"moe/{name}")
    return found


def mended(kube: Kube, name: str, was: str) -> None:
    """Wait until Ready tells this no longer."""
    kube.until("moe", name, lambda obj: condition(obj, "Ready")["reason"] != was, 60, f"{name} mended")


def _warnings(kube: Kube, name: str) -> set[str]:
    events = [event for event in kube.list("events") if event["involvedObject"]["name"] == name]
    return {event["reason"] for event in events if event["type"] == "Warning"}


def ended(kube: Kube, name: str) -> float:
    """When the engine's container ended for the first time."""

    def check() -> bool:
        return any(
            status.get("restartCount", 0) > 0 or status["state"].get("terminated")
            for pod in pods(kube, name=name)
            for status in pod["status"].get("containerStatuses", [])
        )

    eventually(check, 240, lambda: "the container does not end")
    return time.monotonic()


@pytest.mark.timeout(900)
def test_a_wrong_model_path_is_told_and_a_right_one_serves(kube: Kube, serving_images: dict[str, str]) -> None:
    kube.apply(CLAIM)
    kube.apply(moe(model={"persistentVolumeClaim": {"claimName": "models", "path": "nowhere"}, "servedName": "tiny"}))
    found = told(kube, "tiny", "ModelNotFound", since=ended(kube, "tiny"))
    assert "nowhere" in condition(found, "Ready")["message"]
    kube.apply(moe())
    kube.patch("moe", "tiny", {"spec": {"model": {"persistentVolumeClaim": None, "servedName": None}}})
    assert "problems" not in wait_ready(kube)["status"]


@pytest.mark.timeout(900)
def test_an_argument_that_vllm_does_not_know_is_told(kube: Kube, serving_images: dict[str, str]) -> None:
    kube.apply(moe(engine={"extraArgs": {"no-such-argument": "1"}}))
    found = told(kube, "tiny", "InvalidEngineArgs", since=ended(kube, "tiny"))
    assert "no-such-argument" in condition(found, "Ready")["message"]


@pytest.mark.timeout(900)
def test_too_little_memory_is_told(kube: Kube, serving_images: dict[str, str]) -> None:
    kube.apply(moe(resources={"requests": {"cpu": "100m"}, "limits": {"memory": "300Mi"}}))
    told(kube, "tiny", "OutOfMemory", since=ended(kube, "tiny"))


@pytest.mark.timeout(900)
def test_a_crash_loop_is_told(kube: Kube, serving_images: dict[str, str]) -> None:
    """An engine that ends again and again for a reason of its own: it cannot make its cache."""
    spec = moe()
    spec["spec"]["template"]["env"].append({"name": "PYTHONHOME", "value": "/nowhere"})
    kube.apply(spec)
    told(kube, "tiny", "CrashLooping", since=ended(kube, "tiny"))


def test_no_capacity_a_missing_volume_and_a_pending_claim_are_told(kube: Kube) -> None:
    """Pods that never start; no image is needed."""
    kube.apply(
        moe("nowhere", resources={"requests": {"cpu": "1000"}}),
        moe("novolume", cache={"persistentVolumeClaim": {"claimName": "none-such"}}),
        moe("noclaim", devices={"deviceClassName": "none.example.com"}),
    )
    told(kube, "nowhere", "InsufficientCapacity")
    told(kube, "novolume", "DependencyMissing")
    told(kube, "noclaim", "ClaimPending")
    kube.patch("moe", "nowhere", {"spec": {"resources": {"requests": {"cpu": "10m"}}}})
    kube.apply(CLAIM | {"metadata": {"name": "none-such"}})
    kube.patch("moe", "noclaim", {"spec": {"devices": None}})
    mended(kube, "nowhere", "InsufficientCapacity")
    mended(kube, "novolume", "DependencyMissing")
    mended(kube, "noclaim", "ClaimPending")


def test_an_image_that_is_missing_is_told(kube: Kube, serving_images: dict[str, str]) -> None:
    """A model in an image of a registry that is not there: the router's own image and the engine's are."""
    kube.apply(moe(model={"image": {"reference": "localhost:1/models/none:1"}}))
    told(kube, "tiny", "ImagePullFailed")
    kube.patch("moe", "tiny", {"spec": {"model": {"image": None} | moe()["spec"]["model"]}})
    mended(kube, "tiny", "ImagePullFailed")


@pytest.mark.timeout(900)
def test_metrics_that_are_missing_are_told(kube: Kube, serving_images: dict[str, str]) -> None:
    """vLLM is stopped in the middle of its life: its port still takes connections, and nobody answers."""
    serve(kube, moe(autoscaling={"maxReplicas": 2}))
    (pod,) = pods(kube)
    script = (
        "import os, signal, sys\n"
        "for p in filter(str.isdigit, os.listdir('/proc')):\n"
        "    line = open(f'/proc/{p}/cmdline').read()\n"
        "    if 'vllm' in line and 'ballast_serving' not in line: os.kill(int(p), getattr(signal, sys.argv[1]))\n"
    )
    stop = ["exec", pod["metadata"]["name"], "--", "python3", "-c", script]
    kube.run(*stop, "SIGSTOP")
    started = time.monotonic()
    found = kube.until(
        "moe", "tiny",
        lambda o: condition(o, "Autoscaling").get("reason") == "MetricsUnavailable"
        or condition(o, "Ready").get("status") == "False", 90)  # fmt: skip
    print(f"told after {time.monotonic() - started:.0f} s (budget 30 s): {found['status']['conditions']}")
    kube.run(*stop, "SIGCONT")
    kube.until("moe", "tiny", reason("Autoscaling", "FollowingLoad"), 60)
    wait_ready(kube)


@pytest.mark.timeout(900)
def test_only_routers_reach_the_engine(kube: Kube, namespaces: object, serving_images: dict[str, str]) -> None:
    from e2e.support.fixtures import Namespaces

    assert isinstance(namespaces, Namespaces)
    foe = namespaces.new()
    serve(kube, moe())
    (pod,) = pods(kube)
    address = pod["status"]["podIP"]
    router = pods(kube, "router")[0]["metadata"]["name"]
    reach = f"import urllib.request; print(urllib.request.urlopen('http://{address}:8000/health', timeout=5).status)"
    assert kube.run("exec", router, "--", "python3", "-c", reach).strip() == "200"
    for stranger in (foe, kube):
        shell(stranger, serving_images["router"])
        time.sleep(5)  # policies learn of a new pod's address a little late
        assert ask(stranger, f"http://{address}:8000/health", seconds=4)[0] == 0
        status, _ = ask(stranger, f"http://tiny.{kube.namespace}.svc:8000/v1/models")
        assert status == 200
    namespaces.drop(foe)
