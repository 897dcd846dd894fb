"""A replica over two nodes, with the LeaderWorkerSet controller of its own project: both nodes compute each answer, and
both pods come and go together. The tests share one serving, in the order in which they stand here."""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster import api
from e2e.cluster.addons import leader_worker_set
from e2e.support.fixtures import Namespaces
from e2e.support.kube import Kube, Object, condition, eventually, reason
from e2e.support.serving import ask, client, moe, pods, shell, wait_ready

pytestmark = pytest.mark.e2e
START_SECONDS = 900.0  # of two engines at once, which find each other before either loads
CRD = "leaderworkersets.leaderworkerset.x-k8s.io"
WORKER = "engine-worker"

# To every process of vLLM in a pod, but not to the one that looks after it, nor to this one.
SIGNAL = """
import os, signal, sys
for process in filter(str.isdigit, os.listdir("/proc")):
    line = open(f"/proc/{process}/cmdline").read()
    if "vllm" in line.lower() and "ballast_serving" not in line:
        os.kill(int(process), getattr(signal, sys.argv[1]))
"""


def two_nodes(**spec: Any) -> Object:
    return moe(parallelism={"tensor": 2, "nodes": 2}, **spec)


def test_without_the_controller_the_way_out_is_told(kube: Kube, admin: Kube) -> None:
    if admin.get("crd", CRD):
        pytest.skip("this cluster has the controller")
    kube.apply(two_nodes())
    found = kube.until("moe", "tiny", reason("Ready", "DependencyMissing"), 60)
    assert condition(found, "Ready")["message"].endswith(
        "parallelism.nodes needs the kind LeaderWorkerSet, which this cluster has not; install it, or set "
        "parallelism.nodes to 1"
    )
    assert "(DependencyMissing)" in kube.plugin("why", "moe/tiny")
    kube.patch("moe", "tiny", {"spec": {"parallelism": None}})
    kube.until("deployment", "tiny-engine", lambda _: True, 60)


@pytest.fixture(scope="module")
def controller(cluster: api.Cluster, request: pytest.FixtureRequest) -> Iterator[None]:
    """The LeaderWorkerSet controller, for this module alone: elsewhere clusters without it are what is tested."""
    if cluster.local is None:
        if cluster.kubectl.attempt("get", "crd", CRD).returncode:
            pytest.skip("this cluster has no LeaderWorkerSet controller")
        yield
        return
    there = leader_worker_set.NAME in cluster.local.addons
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        api.ensure((leader_worker_set.NAME,))
    yield
    if not there:
        with capture.global_and_fixture_disabled():
            cluster.drop_addon(leader_worker_set.NAME)


@pytest.fixture(scope="module")
def two(controller: None, installed: None, serving_images: dict[str, str], namespaces: Namespaces) -> Iterator[Kube]:
    """A namespace with a serving on two nodes, Ready, and a pod to ask it from."""
    made = namespaces.new()
    started = time.monotonic()
    made.apply(two_nodes())
    shell(made, serving_images["router"])
    made.until("leaderworkerset", "tiny-engine", lambda _: True, 180)  # the operator notices the new kind by and by
    wait_ready(made, seconds=START_SECONDS)
    print(f"Ready {time.monotonic() - started:.0f} s after it was applied")
    yield made
    namespaces.drop(made)


def group(kube: Kube, index: int = 0) -> tuple[Object, Object]:
    """Leader and worker of a group."""
    leader, worker = (kube.get("pod", f"tiny-engine-{index}{rank}") for rank in ("", "-1"))
    assert leader
    assert worker
    return leader, worker


def answer(kube: Kube, seconds: float = 120, tokens: int = 16) -> tuple[int, str]:
    """What the serving answers to a prompt."""
    body = {"model": "tiny", "prompt": "hello", "max_tokens": tokens, "ignore_eos": True}
    return ask(kube, f"http://tiny.{kube.namespace}.svc:8000/v1/completions", body, seconds=seconds)


def signal(kube: Kube, pod: str, name: str) -> None:
    """Send a signal to the vLLM in a pod."""
    kube.run("exec", pod, "--", "python3", "-c", SIGNAL, name)


@pytest.mark.timeout(1800)
def test_each_pod_of_a_replica_has_a_node_and_its_rank(two: Kube) -> None:
    leader, worker = group(two)
    assert leader["spec"]["nodeName"] != worker["spec"]["nodeName"]
    address = f"tiny-engine-0.tiny-engine.{two.namespace}"
    for rank, pod in enumerate((leader, worker)):
        env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
        assert (env["LWS_WORKER_INDEX"], env["LWS_LEADER_ADDRESS"], env["LWS_GROUP_SIZE"]) == (str(rank), address, "2")
        said = two.run("logs", pod["metadata"]["name"])
        joined = re.search(r"world_size=\d+ rank=\d+ .*", said)
        assert joined, said[-3000:]
        print(f"on {pod['spec']['nodeName']}: {joined[0]}")
        assert f"world_size=2 rank={rank} local_rank=0" in joined[0]
        assert f"tcp://{address}:29501 backend=gloo" in joined[0]
    budget = two.get("pdb", "tiny-engine")
    assert budget
    assert (budget["status"]["expectedPods"], budget["status"]["disruptionsAllowed"]) == (2, 1)
    tree = two.plugin("status", "moe/tiny")
    print(tree)
    assert re.search(r"LeaderWorkerSet tiny-engine +1 of 1 ready", tree)
    assert "Pod tiny-engine-0-1  Running on node" in tree


@pytest.mark.timeout(1800)
def test_an_answer_takes_both_nodes(two: Kube) -> None:
    status, text = answer(two)
    assert status == 200
    assert json.loads(text)["usage"]["completion_tokens"] == 16
    signal(two, "tiny-engine-0-1", "SIGSTOP")
    try:
        assert answer(two, seconds=8)[0] == 0, "it was answered without the other node"
    finally:
        signal(two, "tiny-engine-0-1", "SIGCONT")
    assert answer(two)[0] == 200


def until_recreated(kube: Kube, before: tuple[Object, Object]) -> list[str]:
    """Wait until a group is made of other pods and the serving is Ready; what Ready said meanwhile."""
    said: list[str] = []
    uids = {pod["metadata"]["uid"] for pod in before}

    def check() -> bool:
        found = kube.get("moe", "tiny")
        assert found
        ready = condition(found, "Ready")
        words = f"{ready['status']} {ready['reason']}: {ready['message']}"
        if words not in said[-1:]:
            said.append(words)
        now = {pod["metadata"]["uid"] for role in ("engine", WORKER) for pod in pods(kube, role)}
        return ready["status"] == "True" and len(now) == 2 and not now & uids

    eventually(check, START_SECONDS, lambda: "; ".join(said))
    return said


def deleted(kube: Kube) -> None:
    kube.run("delete", "pod", "tiny-engine-0-1", "--wait=false")


def lost(kube: Kube) -> None:
    """As when its node is gone for good: nobody sees it end."""
    kube.run("delete", "pod", "tiny-engine-0-1", "--force", "--grace-period=0")


def killed(kube: Kube) -> None:
    signal(kube, "tiny-engine-0-1", "SIGKILL")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("ends", [deleted, lost, killed])
def test_a_worker_that_ends_takes_its_group_along_and_all_of_it_comes_back(
    two: Kube, ends: Callable[[Kube], None]
) -> None:
    wait_ready(two)
    before, started = group(two), time.monotonic()
    ends(two)
    two.until("moe", "tiny", lambda obj: condition(obj, "Ready")["status"] == "False", 60)
    print(f"not Ready after {time.monotonic() - started:.0f} s")
    print("\n".join(until_recreated(two, before)))
    print(f"Ready again after {time.monotonic() - started:.0f} s")
    assert answer(two)[0] == 200


@pytest.mark.timeout(1800)
def test_a_node_is_drained_of_a_worker_and_nothing_is_cut(two: Kube, serving_images: dict[str, str]) -> None:
    wait_ready(two)
    before = group(two)
    node = before[1]["spec"]["nodeName"]
    with client(two, serving_images["router"], workers=2) as load:
        load.answered(3)
        selector = f"ballast.dev/owner-name=tiny,app.kubernetes.io/component={WORKER}"
        two.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s",
                f"--pod-selector={selector}", seconds=310)  # fmt: skip
        try:
            found = two.until("moe", "tiny", reason("Ready", "InsufficientCapacity"), 120)
            print(condition(found, "Ready")["message"])
        finally:
            two.run("uncordon", node)
        until_recreated(two, before)
        load.answered(3)
        counts = load.end()
    print(f"{counts['answered']} answered, {counts['failed']} failed, {counts['cut']} cut")
    assert (counts["failed"], counts["cut"]) == (0, 0), counts["errors"]


@pytest.mark.timeout(2400)
def test_replicas_are_groups_that_come_and_go(two: Kube) -> None:
    wait_ready(two)
    two.run("scale", "moe/tiny", "--replicas=2")
    found = wait_ready(two, seconds=START_SECONDS)
    assert (found["status"]["replicas"], found["status"]["availableReplicas"]) == (2, 2)
    for index in (0, 1):
        leader, worker = group(two, index)
        assert leader["spec"]["nodeName"] != worker["spec"]["nodeName"]
    two.run("scale", "moe/tiny", "--replicas=1")
    wait_ready(two)
    eventually(lambda: len(pods(two)) == len(pods(two, WORKER)) == 1, 60, lambda: "the second group is still there")
    assert answer(two)[0] == 200


@pytest.mark.timeout(2400)
def test_a_new_argument_reaches_all_ranks_and_nothing_is_cut(two: Kube, serving_images: dict[str, str]) -> None:
    wait_ready(two)
    extra = two_nodes()["spec"]["engine"]["extraArgs"] | {"seed": "1"}
    started = time.monotonic()
    with client(two, serving_images["router"], workers=2) as load:
        load.answered(3)
        two.patch("moe", "tiny", {"spec": {"engine": {"extraArgs": extra}}})
        found = wait_ready(two, seconds=2 * START_SECONDS)
        print(f"rolled out after {time.monotonic() - started:.0f} s")
        load.answered(3)
        counts = load.end()
    print(f"{counts['answered']} answered, {counts['failed']} failed, {counts['cut']} cut")
    for pod in group(two):
        assert "--seed=1" in pod["spec"]["containers"][0]["args"]
        assert pod["metadata"]["labels"]["ballast.dev/revision"] == found["status"]["revision"]
    assert condition(found, "Progressing")["reason"] == "RolledOut"
    assert (counts["failed"], counts["cut"]) == (0, 0), counts["errors"]


@pytest.mark.timeout(600)
def test_a_deleted_serving_leaves_nothing(two: Kube) -> None:
    two.delete("moe", "tiny")
    kinds = "leaderworkersets,statefulsets,deployments,controllerrevisions,services,poddisruptionbudgets,networkpolicies,pods"
    eventually(
        lambda: [f"{obj['kind']}/{obj['metadata']['name']}" for obj in two.list(kinds)] == ["Pod/asker"],
        240,
        lambda: f"left: {[obj['metadata']['name'] for obj in two.list(kinds)]}",
    )


@pytest.mark.timeout(900)
def test_an_argument_that_vllm_refuses_is_told_and_stays_told(two: Kube) -> None:
    """Its pods are made anew at each failure, so there is none that remembers the one before."""
    two.apply(two_nodes(engine={"extraArgs": {"no-such-argument": "1"}}))
    found = two.until("moe", "tiny", reason("Ready", "InvalidEngineArgs"), 300)
    assert "no-such-argument" in condition(found, "Ready")["message"]
    seen, started = set[str](), time.monotonic()
    while (waited := time.monotonic() - started) < 60 or (len(seen) < 3 and waited < 300):
        seen |= {pod["metadata"]["uid"] for role in ("engine", WORKER) for pod in pods(two, role)}
        now = two.get("moe", "tiny")
        assert now
        assert condition(now, "Ready")["reason"] == "InvalidEngineArgs"
        time.sleep(1)
    print(f"{len(seen)} pods in {waited:.0f} s")
    assert len(seen) > 2, "no pod was made anew, so this proves nothing"
