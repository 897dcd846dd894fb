"""Clients stream all the time while everything changes: with two replicas nothing fails and nothing is cut."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import api
from e2e.support.fixtures import Namespaces, scale
from e2e.support.kube import Kube, Object, condition, eventually
from e2e.support.operator import SYSTEM
from e2e.support.serving import Client, client, moe, pods, serve, wait_ready

pytestmark = pytest.mark.e2e
ROLL_SECONDS = 420


@pytest.fixture
def uncordoned(kube: Kube) -> Iterator[Kube]:
    """Every node takes pods again afterwards."""
    yield kube
    for node in kube.list("nodes"):
        kube.run("uncordon", node["metadata"]["name"])


def engine(spec: Object, **arguments: str) -> Object:
    """The example's engine with further arguments."""
    found = spec["spec"]["engine"]
    return {"spec": {"engine": found | {"extraArgs": found["extraArgs"] | arguments}}}


def rolled(kube: Kube, change: Callable[[], Any]) -> float:
    """Make a change and wait until it is rolled out; seconds."""
    started = time.monotonic()
    change()
    wait_ready(kube, seconds=ROLL_SECONDS)
    return time.monotonic() - started


def spotless(counts: dict[str, Any], what: str) -> None:
    """Nothing failed and nothing was cut; tell how much was answered."""
    print(f"{what}: {counts['answered']} answered, {counts['failed']} failed, {counts['cut']} cut, "
          f"longest wait for the first byte {counts['longest']:.1f} s")  # fmt: skip
    assert (counts["failed"], counts["cut"]) == (0, 0), counts["errors"]


def watched(kube: Kube, load: Client, what: str, change: Callable[[], Any], seconds: float = ROLL_SECONDS) -> None:
    """Make a change under load, wait until it is done and clients were answered afterwards, and look at the counts."""
    started = time.monotonic()
    change()
    wait_ready(kube, seconds=seconds)
    load.answered(3)
    spotless(load.counts(), f"{what} ({time.monotonic() - started:.0f} s)")


@pytest.mark.timeout(1800)
def test_nothing_fails_while_everything_changes(
    uncordoned: Kube, installed: None, serving_images: dict[str, str]
) -> None:
    kube, spec = uncordoned, moe(replicas=2)
    serve(kube, spec, seconds=ROLL_SECONDS)
    with client(kube, serving_images["router"], workers=3) as load:
        load.answered(5)
        watched(kube, load, "scale 2 -> 3", lambda: kube.run("scale", "moe/tiny", "--replicas=3"))
        watched(kube, load, "scale 3 -> 2", lambda: kube.run("scale", "moe/tiny", "--replicas=2"))
        watched(kube, load, "a new argument", lambda: kube.patch("moe", "tiny", engine(spec, seed="1")))
        watched(kube, load, "A, B, A in the middle", lambda: there_and_back(kube, spec))
        watched(kube, load, "router roll", lambda: roll_router(kube))
        watched(kube, load, "operator restart", lambda: restart_operator(kube))
        watched(kube, load, "node drain", lambda: drain(kube))
        spotless(load.end(), "in all")


def there_and_back(kube: Kube, spec: Object) -> None:
    """Ask for B, wait until a pod of it is there, and go back to A."""
    before = {pod["metadata"]["name"] for pod in pods(kube)}
    kube.patch("moe", "tiny", engine(spec, seed="2"))
    eventually(lambda: {p["metadata"]["name"] for p in pods(kube)} - before, 60, lambda: "no pod of B")
    kube.patch("moe", "tiny", engine(spec, seed="1"))
    eventually(lambda: {p["metadata"]["name"] for p in pods(kube)} == before, 120, lambda: "A's pods are not all there")


def roll_router(kube: Kube) -> None:
    before = {pod["metadata"]["name"] for pod in pods(kube, "router")}
    kube.patch("moe", "tiny", {"spec": {"router": {"policy": "LeastLoaded"}}})
    eventually(
        lambda: len(now := {p["metadata"]["name"] for p in pods(kube, "router")}) == 2 and not now & before,
        120,
        lambda: "the router is not rolled out",
    )


def restart_operator(kube: Kube) -> None:
    scale(kube.inside(SYSTEM), 0)
    scale(kube.inside(SYSTEM), 1)


def drain(kube: Kube) -> None:
    """Drain the node of the first engine."""
    node = pods(kube)[0]["spec"]["nodeName"]
    kube.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=400s",
             "--pod-selector=ballast.dev/owner-name=tiny", seconds=410)  # fmt: skip


@pytest.mark.timeout(1200)
def test_with_one_replica_requests_are_held_and_none_is_refused(kube: Kube, serving_images: dict[str, str]) -> None:
    spec = moe(rollout={"maxSurge": 0, "maxUnavailable": 1})
    serve(kube, spec)
    with client(kube, serving_images["router"], workers=2) as load:
        load.answered(3)
        watched(kube, load, "one replica replaced", lambda: kube.patch("moe", "tiny", engine(spec, seed="1")))
        counts = load.end()
        spotless(counts, "in all")
        print(f"longest hold {counts['longest']:.0f} s")
        assert counts["longest"] > 5, "nobody was held, so this proves nothing"


@pytest.mark.timeout(900)
def test_replicas_come_and_go_by_hand_and_none_is_refused(kube: Kube, serving_images: dict[str, str]) -> None:
    serve(kube, moe())
    with client(kube, serving_images["router"], workers=2) as load:
        load.answered(3)
        watched(kube, load, "scale 1 -> 3", lambda: kube.run("scale", "moe/tiny", "--replicas=3"))
        watched(kube, load, "scale 3 -> 1", lambda: kube.run("scale", "moe/tiny", "--replicas=1"))
        spotless(load.end(), "in all")


def test_replicas_are_nobodys_but_the_scalers(kube: Kube, serving_images: dict[str, str]) -> None:
    """What `kubectl scale` set stays, however often the object is touched; a child scaled by hand goes back."""
    nowhere: Object = {"template": {"nodeSelector": {"disk": "none-such"}}}  # no pod need run for this
    kube.apply(moe(router=nowhere, **nowhere), server_side=True)
    kube.until("deployment", "tiny-engine", lambda _: True, 30)
    kube.run("scale", "moe/tiny", "--replicas=2")
    for poke in range(20):
        kube.run("annotate", "moe/tiny", f"poke={poke}", "--overwrite")
        found = kube.get("moe", "tiny")
        assert found and found["spec"]["replicas"] == 2
    eventually(lambda: replicas(kube) == 2, 10, lambda: f"the child has {replicas(kube)}")
    kube.run("scale", "deployment/tiny-engine", "--replicas=5")
    eventually(lambda: replicas(kube) == 2, 10, lambda: f"the child has {replicas(kube)}")
    found = kube.get("moe", "tiny")
    assert found and found["spec"]["replicas"] == 2


def replicas(kube: Kube) -> int:
    found = kube.get("deployment", "tiny-engine")
    return int(found["spec"]["replicas"]) if found else -1


@pytest.mark.timeout(1200)
def test_a_full_cluster_rolls_to_the_end(kube: Kube, serving_images: dict[str, str]) -> None:
    """Two nodes that take one engine each: there is no room for a third, and the rollout makes some."""
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "engine"}},
                    }
                ]
            }
        }
    }
    spec = moe(replicas=2)
    spec["spec"]["template"] |= apart
    serve(kube, spec, seconds=ROLL_SECONDS)
    with client(kube, serving_images["router"], workers=2) as load:
        load.answered(3)
        watched(kube, load, "a full cluster", lambda: kube.patch("moe", "tiny", engine(spec, seed="1")), 900)
        spotless(load.end(), "in all")
    found = kube.get("moe", "tiny")
    assert found and condition(found, "Progressing")["reason"] == "RolledOut"


def test_a_newer_operator_rolls_no_pod(kube: Kube, images: dict[str, str], serving_images: dict[str, str]) -> None:
    from e2e.support.chart import deploy

    serve(kube, moe())
    before = [pod["metadata"]["uid"] for pod in pods(kube) + pods(kube, "router")]
    newer = {"serving": "docker.io/ballast/serving:of-tomorrow", "router": "docker.io/ballast/router:of-tomorrow"}
    deploy(kube, images | newer)
    try:
        kube.run("scale", "deployment/tiny-engine", "--replicas=2")  # the new operator looks after the old child
        eventually(lambda: replicas(kube) == 1, 30, lambda: "the edit is not put back")
        wait_ready(kube)
        assert [pod["metadata"]["uid"] for pod in pods(kube) + pods(kube, "router")] == before
        found = kube.get("moe", "tiny")
        assert found and found["status"]["image"] == serving_images["serving"]
    finally:
        deploy(kube, images)


def test_an_object_deleted_with_no_operator_there_leaves_nothing(
    kube: Kube, installed: None, serving_images: dict[str, str]
) -> None:
    kube.apply(moe())
    kube.until("deployment", "tiny-engine", lambda _: True, 30)
    system = kube.inside(SYSTEM)
    scale(system, 0)
    try:
        kube.delete("moe", "tiny")
    finally:
        scale(system, 1)
    kinds = "deployments,services,poddisruptionbudgets,networkpolicies,controllerrevisions,pods"
    eventually(lambda: not kube.list(kinds, "ballast.dev/owner-name=tiny"), 180, lambda: "something is left")


def test_a_namespace_goes_away_with_no_operator_there_and_a_request_held(
    kube: Kube, namespaces: Namespaces, cluster: api.Cluster
) -> None:
    """A request may be held for ten minutes, but not by a router that ends with no other one there."""
    router = cluster.ensure_image("router")
    kube.apply(moe(replicas=0))
    kube.until("moe", "tiny", lambda obj: condition(obj, "Ready").get("reason") == "ScaledToZero", 180)
    friend, system = namespaces.new(), kube.inside(SYSTEM)
    with client(friend, router, workers=1, address=f"tiny.{kube.namespace}.svc") as load:
        eventually(lambda: load.counts().get("waiting") == 1, 60, lambda: f"{load.counts()}")
        scale(system, 0)
        started = time.monotonic()
        try:
            kube.run("delete", "namespace", kube.namespace, "--wait=false")
            eventually(lambda: load.counts()["failed"], 120, lambda: f"still held: {load.counts()}")
            said = load.counts()["errors"][0]
            eventually(lambda: not kube.get("namespace", kube.namespace), 240, lambda: "the namespace is still there")
        finally:
            scale(system, 1)
        print(f"the namespace is gone after {time.monotonic() - started:.0f} s; the client was told: {said}")
        assert "no other router is there" in said
    namespaces.drop(friend)
