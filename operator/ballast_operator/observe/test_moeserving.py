"""What people read of a serving in each state that it can be in."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving import objects
from ballast_operator.kind import Children, Need, Observation, Situation, Trouble
from ballast_operator.objects import Object
from ballast_operator.observe import moeserving
from ballast_operator.observe.moeserving import needs, probes, silent, vllm
from ballast_operator.resources import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM
from ballast_operator.testing import NOW
from ballast_operator.testing_serving import (
    INSTALLATION,
    child,
    deployment,
    group,
    metrics,
    pod,
    serving,
    situation,
    unscheduled,
)

ROUTER = deployment("router", replicas=2)
NODES = serving(parallelism={"tensor": 2, "nodes": 2})
OOM: Object = {"exitCode": 137, "reason": "OOMKilled"}


def observe(asked: Situation[MoEServing]) -> Observation:
    return moeserving.observe(asked, INSTALLATION)


def condition(seen: Observation, name: str) -> Object:
    return next(c for c in seen.status["conditions"] if c["type"] == name)


def ready(asked: Situation[MoEServing]) -> tuple[str, str, str]:
    found = condition(observe(asked), "Ready")
    return found["status"], found["reason"], found["message"]


def failing(said: str = "", **ended: Any) -> Object:
    """A pod whose container failed and that is loading again."""
    return pod(ready=False, restarts=3, ended={"exitCode": 1, "reason": "Error", "message": said} | ended)


@pytest.mark.parametrize(
    ("asked", "status", "reason", "words"),
    [
        (situation(serving(), deployment(), ROUTER, pod()), "True", "AllReplicasReady", "1 of 1 replicas serve"),
        (
            situation(serving(), deployment(available=0), ROUTER, pod(ready=False)),
            "False",
            "ModelLoading",
            "0 of 1 replicas serve; qwen-engine-x is loading the model",
        ),
        (situation(serving()), "False", "PodsNotReady", "being started"),
        (
            situation(serving(), deployment(), deployment("router", replicas=2, available=0), pod()),
            "False",
            "RouterNotReady",
            "no pod of the router",
        ),
        (
            situation(serving(replicas=2), deployment(replicas=2, updated=1, total=3, available=2), ROUTER, pod()),
            "False",
            "RollingOut",
            "1 of the present revision",
        ),
        (situation(serving(replicas=0), deployment(replicas=0), ROUTER), "False", "ScaledToZero", "scale it up"),
        (
            situation(
                serving(replicas=0, autoscaling={"minReplicas": 0, "maxReplicas": 2}), deployment(replicas=0), ROUTER
            ),
            "True",
            "ScaledToZero",
            "the next request",
        ),
        (
            situation(
                serving(replicas=0, autoscaling={"minReplicas": 0, "maxReplicas": 2}),
                deployment(replicas=0),
                deployment("router", replicas=2, available=0),
            ),
            "False",
            "RouterNotReady",
            "no pod of the router",
        ),
        (
            situation(serving(), deployment(), deployment("router", replicas=2, updated=1), pod()),
            "False",
            "RollingOut",
            "1 of 1 replicas serve; the router is being rolled out",
        ),
        (
            situation(serving(), trouble=Trouble("QuotaExceeded", "exceeded quota: services")),
            "False",
            "QuotaExceeded",
            "",
        ),
        (
            situation(serving(), missing=[Need(PERSISTENT_VOLUME_CLAIM, "m", "model.persistentVolumeClaim")]),
            "False",
            "DependencyMissing",
            "PersistentVolumeClaim team-a/m, named by model.persistentVolumeClaim, does not exist; create it",
        ),
        (
            situation(serving(), missing=[Need(CONFIG_MAP, "hot", "vamp.profileConfigMapRef", "q.json", there=True)]),
            "False",
            "DependencyMissing",
            "ConfigMap team-a/hot, named by vamp.profileConfigMapRef, has no key q.json; add it",
        ),
        (
            situation(
                serving(),
                deployment(available=0),
                pod(
                    ready=False, phase="Pending", conditions=unscheduled("0/2 nodes are available: 2 Insufficient cpu.")
                ),
            ),
            "False",
            "InsufficientCapacity",
            "no node fits it: 0/2 nodes",
        ),
        (
            situation(
                serving(),
                deployment(available=0),
                pod(ready=False, phase="Pending", conditions=unscheduled("cannot allocate all claims")),
            ),
            "False",
            "ClaimPending",
            "cannot allocate all claims",
        ),
        (
            situation(
                serving(),
                deployment(available=0),
                pod(ready=False, phase="Pending", waiting={"reason": "ImagePullBackOff", "message": "no such"}),
            ),
            "False",
            "ImagePullFailed",
            "image ballast/serving:1: ImagePullBackOff: no such",
        ),
        (
            situation(
                serving(),
                deployment(available=0),
                pod(
                    ready=False,
                    phase="Pending",
                    waiting={"reason": "CreateContainerConfigError", "message": 'secret "k" not found'},
                ),
            ),
            "False",
            "ContainerConfigInvalid",
            'secret "k" not found',
        ),
        (situation(serving(), deployment(available=0), failing(**OOM)), "False", "OutOfMemory", "killed for memory"),
        (
            situation(
                serving(),
                deployment(available=0),
                failing(json.dumps({"reason": "EngineFailed", "message": "signal 9"}), exitCode=1, reason="OOMKilled"),
            ),
            "False",
            "OutOfMemory",
            "killed for memory",
        ),
        (situation(serving(), deployment(available=0), failing("boom")), "False", "CrashLooping", "(3 restarts): boom"),
        (
            situation(
                serving(),
                deployment(available=0),
                failing(json.dumps({"reason": "ModelNotFound", "message": "no config.json"}), exitCode=42),
            ),
            "False",
            "ModelNotFound",
            "no config.json",
        ),
        (
            situation(
                serving(),
                deployment(available=0),
                failing(json.dumps({"reason": "InvalidEngineArgs", "message": "--max-x"}), exitCode=42),
            ),
            "False",
            "InvalidEngineArgs",
            "--max-x",
        ),
        (
            situation(
                serving(),
                deployment(available=0),
                pod(ready=False, phase="Pending"),
                complaint="FailedMount: no such volume",
            ),
            "False",
            "VolumePending",
            "it cannot start: FailedMount",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_what_stands_in_the_way(asked: Situation[MoEServing], status: str, reason: str, words: str) -> None:
    found = ready(asked)
    assert found[:2] == (status, reason)
    assert words in found[2]


@pytest.mark.parametrize(
    "said",
    [
        "0/2 nodes are available: 2 cannot allocate all claims.",
        'waiting for dynamic resource controller to create the resourceclaim "x"',
        "0/2 nodes are available: request devices: device class none.example.com does not exist.",
    ],
)
def test_a_claim_that_is_not_met_is_told_apart_from_a_lack_of_room(said: str) -> None:
    asked = situation(
        serving(), deployment(available=0), pod(ready=False, phase="Pending", conditions=unscheduled(said))
    )
    assert ready(asked)[1] == "ClaimPending"


def test_what_the_scheduler_said_before_is_no_problem_of_a_pod_on_its_node() -> None:
    pulling = pod(ready=False, phase="Pending")
    seen = observe(situation(serving(), deployment(available=0), pulling, complaint="FailedScheduling: no node"))
    assert "problems" not in seen.status


def test_old_pods_that_serve_do_not_make_it_ready() -> None:
    old = serving(engine={"maxNumSeqs": 2})
    asked = situation(serving(), deployment(updated=0), ROUTER, pod(model=old))
    assert ready(asked)[0] == "False"
    unseen = deployment()
    unseen["metadata"]["generation"] = 2
    assert ready(situation(serving(), unseen, ROUTER, pod()))[0] == "False"


def test_a_problem_goes_when_the_pod_is_well_again() -> None:
    sick = observe(situation(serving(), deployment(available=0), ROUTER, failing(**OOM)))
    assert [found["reason"] for found in sick.status["problems"]] == ["OutOfMemory"]
    well = observe(situation(serving(), deployment(), ROUTER, pod(restarts=3, ended=OOM), previous=sick.status))
    assert "problems" not in well.status
    assert condition(well, "Ready")["reason"] == "AllReplicasReady"


def test_a_broken_revision_blocks_its_rollout_and_leaves_the_old_one_serving() -> None:
    old = serving(engine={"maxNumSeqs": 2})
    broken = pod(name="new", ready=False, phase="Pending", waiting={"reason": "ErrImagePull", "message": "x"})
    seen = observe(situation(serving(), deployment(updated=1, total=2), ROUTER, pod(model=old), broken))
    assert condition(seen, "Ready")["reason"] == "ImagePullFailed"
    assert (condition(seen, "Progressing")["status"], condition(seen, "Progressing")["reason"]) == (
        "False",
        "RolloutBlocked",
    )
    assert condition(seen, "Available")["status"] == "True"


def test_what_was_wrong_with_pods_that_are_being_replaced_is_mended() -> None:
    old = serving(engine={"maxNumSeqs": 2})
    stuck = pod(name="old", model=old, ready=False, phase="Pending", waiting={"reason": "ErrImagePull", "message": "x"})
    seen = observe(situation(serving(), deployment(updated=1, total=2, available=0), ROUTER, stuck, pod(ready=False)))
    assert condition(seen, "Ready")["reason"] == "ModelLoading"
    assert [found["pod"] for found in seen.status["problems"]] == ["old"]


def test_a_pod_for_which_an_old_one_makes_room_is_no_problem() -> None:
    old = serving(engine={"maxNumSeqs": 2})
    full = pod(name="new", ready=False, phase="Pending", conditions=unscheduled("Insufficient cpu"))
    seen = observe(situation(serving(), deployment(updated=1, total=2), ROUTER, pod(model=old), full))
    assert "problems" not in seen.status
    prescribed = serving(rollout={"maxSurge": 1, "maxUnavailable": 0})
    seen = observe(situation(prescribed, deployment(updated=1, total=2), ROUTER, pod(model=old), full))
    assert seen.status["problems"][0]["reason"] == "InsufficientCapacity"


def test_a_pod_that_still_has_no_node_when_room_was_made_is_told() -> None:
    model, old = serving(replicas=2), serving(engine={"maxNumSeqs": 2})
    full = pod(name="new", ready=False, phase="Pending", conditions=unscheduled("Insufficient cpu"))
    going = pod(name="going", model=old)
    going["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:00Z"
    remembered: Any = None

    def told(seconds: int, *pods: Object) -> list[str]:
        nonlocal remembered
        workload = deployment(replicas=2, updated=1, total=2, available=1)
        now = NOW + timedelta(seconds=seconds)
        seen = observe(situation(model, workload, ROUTER, *pods, full, now=now, remembered=remembered))
        remembered = seen.remember
        return [found["reason"] for found in seen.status.get("problems", [])]

    assert told(0, pod(model=old), going) == []  # one is on its way out
    assert told(60, pod(model=old)) == []  # it is gone, and the scheduler has to notice
    assert told(62, pod(model=old)) == []
    assert told(70, pod(model=old)) == ["InsufficientCapacity"]
    assert told(71, pod(model=old), pod(name="b", model=old)) == []  # as many as asked for serve: one may go


def test_a_router_makes_room_as_routers_do_whatever_the_spec_says_of_engines() -> None:
    model, moved = serving(rollout={"maxSurge": 1, "maxUnavailable": 0}), {"policy": "RoundRobin"}
    full = pod("router", name="r", ready=False, phase="Pending", conditions=unscheduled("Insufficient cpu"))
    olds = [pod("router", name=name, model=serving(router=moved)) for name in ("a", "b")]
    assert "problems" not in observe(situation(model, deployment(), ROUTER, pod(), full, *olds)).status


def test_engines_of_the_other_kind_serve_until_the_right_one_is_there() -> None:
    old = pod(model=serving())
    bare = replace(INSTALLATION, optional=frozenset())
    seen = moeserving.observe(situation(NODES, deployment(), ROUTER, old), bare)
    assert condition(seen, "Ready")["message"].startswith("1 of 1 replicas serve; parallelism.nodes needs the kind")
    assert condition(seen, "Available")["status"] == "True"
    assert condition(seen, "Progressing")["reason"] == "RolloutBlocked"
    assert (seen.status["availableReplicas"], seen.status["updatedReplicas"]) == (1, 0)


def test_a_serving_at_zero_that_nothing_wakes_says_so() -> None:
    asked = situation(
        serving(replicas=0, autoscaling={"minReplicas": 0, "maxReplicas": 2}),
        deployment(replicas=0),
        ROUTER,
        around=[theirs()],
    )
    seen = observe(asked)
    status, reason, message = ready(asked)
    assert (status, reason) == ("False", "ScaledToZero")
    assert "no autoscaler changes that: HorizontalPodAutoscaler team-a/theirs scales this object too" in message
    assert condition(seen, "Available")["status"] == "False"


def test_pods_of_a_group_that_the_server_refuses_are_told() -> None:
    said = 'FailedCreate: create Pod qwen-engine-0 failed error: pods "qwen-engine-0" is forbidden: exceeded quota: q'
    leader, worker = ranks(leader=False, worker=False)
    for pods, name in (((), "qwen-engine"), ((leader,), "qwen-engine-0")):
        maker = silent(Children([group(ready=0), *pods]))
        assert maker and (maker["kind"], maker["metadata"]["name"]) == ("StatefulSet", name)
        asked = situation(NODES, group(ready=0), ROUTER, *pods, complaint=said)
        assert ready(asked)[1] == "QuotaExceeded"
    assert silent(Children([group(ready=0), leader, worker])) is None


def test_no_replica_ready_means_that_requests_wait() -> None:
    gathered = {"http://10.0.1.1:8080/status": {"held": 3}}
    router = pod("router", address="10.0.1.1")
    seen = observe(situation(serving(), deployment(available=0), ROUTER, pod(ready=False), router, gathered=gathered))
    assert condition(seen, "Available")["reason"] == "Holding"
    assert seen.status["heldRequests"] == 3


def test_kinds_that_the_cluster_has_not_are_named() -> None:
    bare = replace(INSTALLATION, optional=frozenset())
    asked = situation(serving(parallelism={"tensor": 2, "nodes": 2}))
    found = condition(moeserving.observe(asked, bare), "Ready")
    assert found["reason"] == "DependencyMissing"
    assert "LeaderWorkerSet" in found["message"] and "set parallelism.nodes to 1" in found["message"]


def grouped(*children: Object) -> tuple[str, str, str]:
    """Ready of a serving on two nodes."""
    return ready(situation(NODES, ROUTER, *children))


def ranks(*, leader: bool = True, worker: bool = True, **leaders: Any) -> list[Object]:
    """Both pods of a group, ready or not."""
    first = pod(name="qwen-engine-0", model=NODES, ready=leader, **leaders)
    return [first, pod("engine-worker", name="qwen-engine-0-1", model=NODES, ready=worker, address="10.0.0.8")]


def test_a_group_that_loads_is_told_apart_from_one_that_is_not_whole() -> None:
    assert grouped(group(), *ranks())[:2] == ("True", "AllReplicasReady")
    loads = grouped(group(ready=0), *ranks(leader=False))
    assert loads[1:] == ("ModelLoading", "0 of 1 replicas serve; qwen-engine-0 is loading the model")
    waits = "0 of 1 replicas serve; qwen-engine-0 waits for qwen-engine-0-1"
    assert grouped(group(ready=0), *ranks(leader=False, worker=False))[1:] == ("PodsNotReady", waits)
    assert grouped(group(ready=0), *ranks(leader=False, started=True)[:1])[1:] == ("PodsNotReady", waits)
    mute = grouped(group(ready=0), *ranks(leader=False, started=True))
    assert mute[1:] == (
        "PodsNotReady",
        "0 of 1 replicas serve; qwen-engine-0 has loaded the model, and does not answer",
    )


def test_a_model_is_loading_until_its_engine_is_ready() -> None:
    loads = observe(situation(serving(), deployment(available=0), ROUTER, pod(ready=False))).status
    loaded = situation(serving(), deployment(available=0), ROUTER, pod(ready=False, started=True), previous=loads)
    assert ready(loaded)[1] == "ModelLoading"
    ready_before = observe(situation(serving(), deployment(), ROUTER, pod())).status
    silent = situation(
        serving(), deployment(available=0), ROUTER, pod(ready=False, started=True), previous=ready_before
    )
    assert ready(silent)[1:] == ("PodsNotReady", "0 of 1 replicas serve; qwen-engine-x has loaded the model, and does not answer")  # fmt: skip


def test_a_worker_that_fails_is_a_problem_of_its_serving() -> None:
    leader, worker = ranks(leader=False, worker=False)
    worker["status"]["containerStatuses"][0] |= {
        "name": "engine",
        "lastState": {"terminated": {"exitCode": 1, "message": "no route to the leader"}},
    }
    status, reason, message = grouped(group(ready=0), leader, worker)
    assert (status, reason) == ("False", "CrashLooping")
    assert "pod qwen-engine-0-1: it failed with exit code 1: no route to the leader" in message


def test_a_group_that_fails_and_is_made_anew_is_still_told_until_it_serves() -> None:
    failed_with = {"exitCode": 42, "reason": "Error", "message": "unrecognized arguments: --nonsense"}
    first = pod(name="qwen-engine-0", model=NODES, ready=False, ended=failed_with)
    status = observe(situation(NODES, group(ready=0), ROUTER, first)).status
    told = {"pod": "qwen-engine-0", "reason": "CrashLooping", "message": status["problems"][0]["message"]}
    assert status["problems"] == [told]
    for between in ([], ranks(leader=False)):  # all pods are gone; new ones load
        status = observe(situation(NODES, group(ready=0), ROUTER, *between, previous=status)).status
        assert status["problems"] == [told]
        assert next(c for c in status["conditions"] if c["type"] == "Ready")["reason"] == "CrashLooping"
    assert "problems" not in observe(situation(NODES, group(), ROUTER, *ranks(), previous=status)).status
    mended = serving(engine={"maxNumSeqs": 2}, parallelism={"tensor": 2, "nodes": 2})
    assert "problems" not in observe(situation(mended, group(ready=0), ROUTER, previous=status)).status
    none = serving(replicas=0, parallelism={"tensor": 2, "nodes": 2})
    assert "problems" not in observe(situation(none, group(replicas=0), ROUTER, previous=status)).status


def test_a_controller_that_does_not_say_what_it_has_seen_is_judged_by_its_pods() -> None:
    old = serving(engine={"maxNumSeqs": 2}, parallelism={"tensor": 2, "nodes": 2})
    assert grouped(group(seen=None), *ranks())[:2] == ("True", "AllReplicasReady")
    assert grouped(group(seen=None), pod(model=old))[:2] == ("False", "RollingOut")
    assert grouped(group(seen=0), *ranks())[:2] == ("False", "RollingOut")


def test_the_status_has_what_people_and_autoscalers_read() -> None:
    kept = [o for o in objects(serving(), Children(), INSTALLATION) if o["kind"] == "ControllerRevision"]
    seen = observe(situation(serving(), deployment(), ROUTER, pod(), *kept))
    assert {key: seen.status[key] for key in ("url", "model", "image", "replicas", "updatedReplicas", "selector")} == {
        "url": "http://qwen.team-a.svc:8000/v1",
        "model": "qwen",
        "image": "ballast/serving:1",
        "replicas": 1,
        "updatedReplicas": 1,
        "selector": "app.kubernetes.io/component=engine,ballast.dev/owner-kind=MoEServing,ballast.dev/owner-name=qwen",
    }
    assert seen.again is None  # settled: nothing to look for until something happens


def test_a_spec_that_cannot_be_read_is_told() -> None:
    seen = moeserving.observe(situation(None, faults=["spec.model: field required"]), INSTALLATION)
    assert condition(seen, "Ready")["reason"] == "InvalidSpec"


def test_times_move_only_when_an_answer_flips() -> None:
    first = observe(situation(serving(), deployment(available=0), ROUTER, pod(ready=False)))
    later = observe(
        situation(
            serving(),
            deployment(available=0),
            ROUTER,
            failing("x"),
            previous=first.status,
            now=NOW + timedelta(hours=1),
        )
    )
    assert condition(later, "Ready")["lastTransitionTime"] == condition(first, "Ready")["lastTransitionTime"]


def test_volumes_are_looked_for_only_while_a_pod_waits() -> None:
    asked = serving(
        model={"persistentVolumeClaim": {"claimName": "m"}}, cache={"persistentVolumeClaim": {"claimName": "c"}}
    )
    assert [need.name for need in needs(asked, Children())] == ["m", "c"]
    assert needs(asked, Children([pod()])) == []


def test_numbers_are_asked_for_only_where_they_decide() -> None:
    engine, router = pod(), pod("router", address="10.0.1.1")
    loading = pod(ready=False)
    scaled = serving(autoscaling={"maxReplicas": 2})
    assert probes(serving(), Children([engine, router])) == []
    assert [p.url for p in probes(serving(), Children([loading, router]))] == ["http://10.0.1.1:8080/status"]
    assert [p.url for p in probes(scaled, Children([engine, router]))] == [
        "http://10.0.1.1:8080/status",
        "http://10.0.0.9:8080/metrics",
    ]


def test_of_a_group_of_nodes_only_the_leader_is_asked() -> None:
    grouped = serving(parallelism={"tensor": 2, "nodes": 2}, autoscaling={"maxReplicas": 2})
    leader, worker = pod(), pod("engine-worker", address="10.0.0.8")
    assert [p.url for p in probes(grouped, Children([leader, worker]))] == ["http://10.0.0.9:8080/metrics"]


PAGE = b"""\
# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \\" b"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 2.0
vllm:num_requests_waiting{engine="0",model_name="a"} 7.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:time_to_first_token_seconds_sum{engine="0"} 1.5
vllm:time_to_first_token_seconds_count{engine="0"} 3.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 1.0
process_cpu_seconds_total 1.0
"""


def test_an_engines_page_is_read() -> None:
    assert vllm.read(PAGE) == metrics(7, 5, 0.25, first_token_seconds=1.5, first_tokens=3)


@pytest.mark.parametrize("page", [b"", b"<html>", b"vllm:num_requests_running{", b"\xff\xfe"])
def test_a_page_of_anything_else_is_refused(page: bytes) -> None:
    with pytest.raises(ValueError):
        vllm.read(page)


HPA = child("HorizontalPodAutoscaler", "qwen-engine", "autoscaling/v2")


def theirs(kind: str = "MoEServing", name: str = "qwen", made: str = "HorizontalPodAutoscaler") -> Object:
    """An autoscaler of somebody else's."""
    meta = {"name": "theirs", "namespace": "team-a"}
    return {"kind": made, "metadata": meta, "spec": {"scaleTargetRef": {"kind": kind, "name": name}}}


@pytest.mark.parametrize(
    ("spec", "around", "status", "reason"),
    [
        ({"autoscaling": {"maxReplicas": 2}}, [theirs()], "False", "AutoscalerConflict"),
        ({"autoscaling": {"maxReplicas": 2}}, [theirs("Deployment", "qwen-engine")], "False", "AutoscalerConflict"),
        ({"autoscaling": {"maxReplicas": 2}}, [theirs(made="ScaledObject")], "False", "AutoscalerConflict"),
        ({}, [theirs("Deployment", "qwen-engine")], "False", "AutoscalerConflict"),
        ({"replicas": 0}, [theirs()], "False", "AutoscalerOff"),
        ({}, [theirs()], "True", "Delegated"),
        ({"autoscaling": {"mode": "HPA", "maxReplicas": 2}}, [], "True", "Delegated"),
        ({"autoscaling": {"mode": "HPA", "maxReplicas": 2}, "replicas": 0}, [], "False", "AutoscalerOff"),
    ],
)
def test_other_autoscalers_are_told(spec: Object, around: list[Object], status: str, reason: str) -> None:
    seen = observe(situation(serving(**spec), deployment(), ROUTER, pod(), HPA, around=around))
    found = condition(seen, "Autoscaling")
    assert (found["status"], found["reason"]) == (status, reason)


def test_an_hpa_without_metrics_is_told_in_its_own_words() -> None:
    said = {"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric", "message": "no custom metrics"}
    seen = observe(
        situation(
            serving(autoscaling={"mode": "HPA", "maxReplicas": 2}),
            deployment(),
            ROUTER,
            HPA | {"status": {"conditions": [said]}},
        )
    )
    assert condition(seen, "Autoscaling")["reason"] == "MetricsUnavailable"
    assert "no custom metrics" in condition(seen, "Autoscaling")["message"]


def test_somebody_elses_hpa_over_another_object_is_nobodys_business() -> None:
    seen = observe(situation(serving(), deployment(), ROUTER, around=[theirs("Deployment", "web")]))
    assert not [c for c in seen.status["conditions"] if c["type"] == "Autoscaling"]


def test_the_condition_goes_with_the_autoscaler() -> None:
    scaled = observe(situation(serving(autoscaling={"maxReplicas": 2}), deployment(), ROUTER))
    assert condition(scaled, "Autoscaling")
    plain = observe(situation(serving(), deployment(), ROUTER, previous=scaled.status))
    assert not [c for c in plain.status["conditions"] if c["type"] == "Autoscaling"]
    assert "autoscaling" not in plain.status
