"""What people read of a solve in each state that it can be in."""

import json
from datetime import timedelta
from typing import Any

import pytest

from ballast_api.cfrsolve import CFRSolve
from ballast_operator.kind import Children, Need, Observation, Situation, Trouble
from ballast_operator.objects import Object
from ballast_operator.observe.cfrsolve import needs, observe, probe
from ballast_operator.resources import CONFIG_MAP
from ballast_operator.testing import NOW, child, job, pod, situation, solve

DONE = json.dumps(
    {
        "reason": "TargetReached",
        "message": "exploitability 0.00097 after 4200 iterations",
        "iteration": 4200,
        "exploitability": 9.7e-4,
        "value": -0.0856064,
        "iterationsPerSecond": 48000.4,
        "configMap": True,
        "file": "/ballast/checkpoint/strategy.csv",
    }
)


def condition(seen: Observation, name: str) -> Object:
    return next(c for c in seen.status["conditions"] if c["type"] == name)


def progressing(asked: Situation[CFRSolve]) -> tuple[str, str, str]:
    found = condition(observe(asked), "Progressing")
    return found["status"], found["reason"], found["message"]


BAD_CLAIM = child("PersistentVolumeClaim", "leduc-checkpoint", spec={}, status={"phase": "Pending"})
UNSCHEDULED = [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 Insufficient cpu."}]
EVICTED = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]


@pytest.mark.parametrize(
    ("asked", "status", "reason", "words"),
    [
        (
            situation(trouble=Trouble("QuotaExceeded", "exceeded quota: jobs")),
            "False",
            "QuotaExceeded",
            "exceeded quota",
        ),
        (
            situation(missing=[Need(CONFIG_MAP, "games", "game.configMapKeyRef", "kuhn.efg")]),
            "False",
            "DependencyMissing",
            "ConfigMap team-a/games, named by game.configMapKeyRef, does not exist; create it with key kuhn.efg and the",
        ),
        (
            situation(missing=[Need(CONFIG_MAP, "games", "game.configMapKeyRef", "kuhn.efg", there=True)]),
            "False",
            "DependencyMissing",
            "ConfigMap team-a/games, named by game.configMapKeyRef, has no key kuhn.efg; add it and the solve starts",
        ),
        (situation(None, pod("Running")), "True", "WaitingForPods", "pod leduc-solve-x of an earlier Job"),
        (situation(None, job(), BAD_CLAIM), "False", "NoDefaultStorageClass", "no default one; mark one as default"),
        (situation(None, job()), "True", "Starting", "waiting for the Job's pod"),
        (
            situation(None, job(), pod("Pending", conditions=UNSCHEDULED)),
            "False",
            "InsufficientCapacity",
            "no node fits pod leduc-solve-x: 0/2 nodes are available: 2 Insufficient cpu.",
        ),
        (
            situation(None, job(), pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "no such"})),
            "False",
            "ImagePullFailed",
            "image ballast/cfr:1: ImagePullBackOff: no such",
        ),
        (
            situation(None, job(), pod("Pending", waiting={"reason": "CreateContainerConfigError", "message": "no"})),
            "False",
            "ContainerConfigInvalid",
            "CreateContainerConfigError: no",
        ),
        (
            situation(None, job(), pod("Pending", waiting={"reason": "ContainerCreating"})),
            "True",
            "Starting",
            "pod leduc-solve-x is starting",
        ),
        (
            situation(None, job(), complaint="FailedCreate: pods x is forbidden: violates PodSecurity"),
            "False",
            "Forbidden",
            "no pod can be made: FailedCreate",
        ),
        (situation(None, job(), complaint="FailedCreate: exceeded quota: pods"), "False", "QuotaExceeded", "exceeded"),
        (
            situation(None, job(), pod("Pending"), complaint="FailedMount: no such volume"),
            "False",
            "VolumePending",
            "pod leduc-solve-x cannot start: FailedMount: no such volume",
        ),
        (situation(None, job(), pod("Running")), "True", "Running", "pod leduc-solve-x on node node1 is solving"),
        (
            situation(None, job(), pod("Failed", exit_code=143, conditions=EVICTED)),
            "True",
            "Disrupted",
            "EvictionByEvictionAPI",
        ),
        (
            situation(None, job(failed=2), pod("Failed", exit_code=1, said='{"message": "ValueError: x"}')),
            "True",
            "Retrying",
            "failed with exit code 1: ValueError: x; 2 of at most 6 failures",
        ),
        (
            situation(None, job(failed=1), pod("Failed", exit_code=137, reason="OOMKilled")),
            "True",
            "Retrying",
            "killed for memory",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_what_stands_in_the_way(asked: Situation[CFRSolve], status: str, reason: str, words: str) -> None:
    found = progressing(asked)
    assert found[:2] == (status, reason)
    assert words in found[2]


def test_a_solver_that_has_finished_is_not_starting_again() -> None:
    assert progressing(situation(None, job(), pod("Succeeded", exit_code=0, said=DONE)))[1] == "Running"


def test_a_job_held_by_its_queue_is_queued() -> None:
    held = job()
    held["spec"]["suspend"] = True
    seen = observe(situation(solve(queueName="team"), held))
    assert seen.status["phase"] == "Queued"
    assert condition(seen, "Progressing")["reason"] == "Queued"


def test_a_running_solve_tells_how_far_it_is() -> None:
    told = {
        "iteration": 900,
        "exploitability": 0.0123456,
        "value": -0.08,
        "iterationsPerSecond": 51234.7,
        "etaSeconds": 3,
    }
    seen = observe(situation(None, job(), pod("Running"), reported=told))
    assert {key: seen.status[key] for key in ("phase", "iteration", "exploitability", "value", "etaSeconds")} == {
        "phase": "Running",
        "iteration": 900,
        "exploitability": "1.235e-02",
        "value": "-0.08",
        "etaSeconds": 3,
    }
    assert seen.status["iterationsPerSecond"] == "51235"
    assert seen.again == 5


def test_a_batch_counts_its_solves_and_its_folder_is_the_result() -> None:
    told = {"iteration": 9, "instances": 40, "instancesDone": 7, "value": None, "exploitability": 0.5}
    seen = observe(situation(None, job(), pod("Running"), reported=told))
    assert (seen.status["instances"], seen.status["instancesDone"], "value" in seen.status) == (40, 7, False)
    said = {"reason": "TargetReached", "message": "40 instances", "instances": 40, "instancesDone": 40}
    too_large = {"configMap": False, "configMapMessage": "ResultTooLarge", "file": "/ballast/checkpoint/results"}
    ended = pod("Succeeded", exit_code=0, said=json.dumps(said | too_large))
    seen = observe(situation(None, job("Complete"), ended, previous=seen.status))
    assert seen.status["instancesDone"] == 40
    assert seen.status["result"] == {"persistentVolumeClaim": {"claimName": "leduc-checkpoint", "path": "results"}}


@pytest.mark.parametrize("told", [None, [], "x", {"iteration": "no"}, {"exploitability": None, "etaSeconds": None}])
def test_a_pod_that_answers_nonsense_or_nothing_changes_no_number(told: Any) -> None:
    seen = observe(situation(None, job(), pod("Running"), reported=told, previous={"iteration": 7}))
    assert seen.status["iteration"] == 7


def test_a_finished_solve_is_complete_with_its_result() -> None:
    seen = observe(situation(None, job("Complete"), pod("Succeeded", exit_code=0, said=DONE)))
    assert condition(seen, "Complete")["status"] == "True"
    assert condition(seen, "Complete")["reason"] == "TargetReached"
    assert seen.status["exploitability"] == "9.700e-04"
    assert seen.status["result"] == {
        "configMapRef": {"name": "leduc-strategy"},
        "persistentVolumeClaim": {"claimName": "leduc-checkpoint", "path": "strategy.csv"},
    }
    assert "etaSeconds" not in seen.status


def test_a_strategy_too_large_for_a_config_map_is_on_the_volume() -> None:
    said = json.loads(DONE) | {"configMap": False, "configMapMessage": "strategy of 2097152 bytes is over 1 MiB"}
    seen = observe(situation(None, job("Complete"), pod("Succeeded", exit_code=0, said=json.dumps(said))))
    assert condition(seen, "Complete")["reason"] == "ResultTooLarge"
    assert seen.status["result"] == {"persistentVolumeClaim": {"claimName": "leduc-checkpoint", "path": "strategy.csv"}}


def test_a_pod_that_went_before_it_was_read_still_completes_the_solve() -> None:
    seen = observe(situation(None, job("Complete")))
    assert condition(seen, "Complete")["reason"] == "JobComplete"


@pytest.mark.parametrize(
    ("ended", "reason", "words"),
    [
        (
            [
                job("Failed", "PodFailurePolicy"),
                pod("Failed", exit_code=42, said='{"reason":"InvalidGame","message":"line 3"}'),
            ],
            "InvalidGame",
            "line 3",
        ),
        (
            [job("Failed", "PodFailurePolicy"), pod("Failed", exit_code=43, said="other game")],
            "CheckpointMismatch",
            "other game",
        ),
        (
            [job("Failed", "DeadlineExceeded"), pod("Failed", exit_code=143)],
            "DeadlineExceeded",
            "activeDeadlineSeconds",
        ),
        (
            [job("Failed", "BackoffLimitExceeded"), pod("Failed", exit_code=137, reason="OOMKilled")],
            "OutOfMemory",
            "memory",
        ),
        (
            [job("Failed", "BackoffLimitExceeded"), pod("Failed", exit_code=1, said="boom")],
            "BackoffLimitExceeded",
            "boom",
        ),
        ([job("Failed", "BackoffLimitExceeded")], "BackoffLimitExceeded", "failed"),
    ],
)
def test_a_failed_solve_says_what_its_pod_said(ended: list[Object], reason: str, words: str) -> None:
    seen = observe(situation(None, *ended))
    failed = condition(seen, "Failed")
    assert (failed["status"], failed["reason"]) == ("True", reason)
    assert words in failed["message"]
    assert seen.status["phase"] == "Failed"


def test_suspended_is_true_only_when_nothing_runs() -> None:
    asked = solve(suspend=True)
    ending = observe(situation(asked, job(), pod("Running", deleted=True)))
    assert (ending.status["phase"], condition(ending, "Suspended")["status"]) == ("Suspending", "False")
    said = '{"reason":"Terminated","message":"checkpoint written at iteration 77","iteration":77}'
    done = observe(situation(asked, pod("Failed", exit_code=143, said=said), previous=ending.status))
    assert (done.status["phase"], condition(done, "Suspended")["status"], done.status["iteration"]) == (
        "Suspended",
        "True",
        77,
    )
    resumed = observe(situation(solve(), job(), previous=done.status))
    assert condition(resumed, "Suspended")["status"] == "False"
    assert resumed.status["iteration"] == 77


def test_a_suspended_solve_keeps_the_iteration_of_its_checkpoint_although_its_pod_goes_before_its_job() -> None:
    asked, going = solve(suspend=True), job()
    said = '{"reason":"Terminated","message":"checkpoint written at iteration 77","iteration":77}'
    old, last = pod("Failed", name="a", exit_code=143, said=said.replace("77", "33")), pod("Running", name="b")
    running = observe(situation(asked, going, old, last, previous={"iteration": 60}))
    assert running.status["iteration"] == 60
    ended = pod("Failed", name="b", exit_code=143, said=said, deleted=True)
    ending = observe(situation(asked, going, old, ended, previous=running.status))
    assert (ending.status["phase"], ending.status["iteration"]) == ("Suspending", 77)
    gone = observe(situation(asked, previous=ending.status))
    assert (gone.status["phase"], gone.status["iteration"]) == ("Suspended", 77)


def test_an_end_never_leaves() -> None:
    seen = observe(situation(None, job("Complete"), pod("Succeeded", exit_code=0, said=DONE)))
    later = observe(situation(None, previous=seen.status, now=NOW + timedelta(hours=1)))
    assert later.status == seen.status
    assert later.again is None


def test_a_ttl_runs_from_the_end() -> None:
    asked = solve(ttlSecondsAfterFinished=60)
    ended = observe(situation(asked, job("Complete"), pod("Succeeded", exit_code=0, said=DONE)))
    soon = observe(situation(asked, previous=ended.status, now=NOW + timedelta(seconds=20)))
    assert (soon.again, soon.expired) == (40, False)
    assert observe(situation(asked, previous=ended.status, now=NOW + timedelta(seconds=61))).expired


def test_times_move_only_when_an_answer_flips() -> None:
    first = observe(situation(None, job()))
    later = observe(situation(None, job(), pod("Running"), previous=first.status, now=NOW + timedelta(hours=1)))
    moved = condition(later, "Progressing")
    assert moved["lastTransitionTime"] == condition(first, "Progressing")["lastTransitionTime"]
    assert moved["reason"] == "Running"


def test_the_same_situation_gives_the_same_status() -> None:
    asked = situation(None, job(), pod("Running"))
    first = observe(asked).status
    assert (
        observe(situation(None, job(), pod("Running"), previous=first, now=NOW + timedelta(minutes=5))).status == first
    )


def test_a_long_message_is_cut_to_what_the_api_takes() -> None:
    seen = progressing(situation(trouble=Trouble("Forbidden", "word " * 500)))
    assert len(seen[2]) <= 960 and seen[2].endswith("...")


def test_a_spec_that_cannot_be_read_is_reported_and_nothing_else() -> None:
    seen = observe(Situation(None, Children(), {}, 3, NOW, faults=["CFRSolve team-a/x: spec.stop: field required"]))
    assert condition(seen, "Progressing")["reason"] == "InvalidSpec"
    assert seen.status["observedGeneration"] == 3


def test_only_a_running_pod_is_asked_and_only_a_waiting_solve_looks_for_its_needs() -> None:
    asked = probe(Children([pod("Running")]))
    assert asked and asked.url == "http://10.0.0.9:8080/status"
    assert probe(Children([pod("Pending")])) is None
    game = solve(game={"configMapKeyRef": {"name": "games", "key": "k"}})
    assert needs(game, Children())[0].name == "games"
    assert needs(game, Children([pod("Running")])) == []
    batch = solve(batch={"configMapKeyRef": {"name": "many", "key": "k"}})
    assert [(need.name, need.field, need.key) for need in needs(batch, Children())] == [
        ("many", "batch.configMapKeyRef", "k")
    ]
