"""What a solve owns, as whole objects and as promises that hold for every solve."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_operator.desired.cfrsolve import Images, objects
from ballast_operator.kind import Children
from ballast_operator.objects import OWNER_NAME, Object
from ballast_operator.testing import UID, child, job, solve

IMAGES = Images("ballast/cfr:2", "ballast/cfr-gpu:2", pull_secrets=("registry",))


def made(*children: Object, **spec: Any) -> list[Object]:
    wanted = objects(solve(**spec), Children(children), IMAGES)
    assert wanted is not None
    return wanted


def of_kind(kind: str, wanted: list[Object]) -> Object:
    return next(obj for obj in wanted if obj["kind"] == kind)


def arguments(**spec: Any) -> list[str]:
    args: list[str] = of_kind("Job", made(**spec))["spec"]["template"]["spec"]["containers"][0]["args"]
    return args


def test_a_solve_owns_an_account_with_one_right_a_result_a_volume_and_a_job() -> None:
    wanted = made()
    assert [obj["kind"] for obj in wanted] == [
        "ServiceAccount",
        "ConfigMap",
        "Role",
        "RoleBinding",
        "PersistentVolumeClaim",
        "Job",
    ]
    assert of_kind("Role", wanted)["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["leduc-strategy"], "verbs": ["patch"]}
    ]
    assert "data" not in of_kind("ConfigMap", wanted)


def test_the_job_is_this_job() -> None:
    wanted = of_kind("Job", made())
    assert wanted["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [42, 43]
    assert wanted["spec"]["podFailurePolicy"]["rules"][1] == {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }
    assert wanted["spec"]["podReplacementPolicy"] == "Failed"
    pod = wanted["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["args"] == [
        "job",
        "--game-builtin=leduc",
        "--variant=CFRPlus",
        "--updates=Alternating",
        "--device=cpu",
        "--exploitability=1e-3",
        "--unit=Absolute",
        "--checkpoint-dir=/ballast/checkpoint",
        "--checkpoint-interval=30",
        "--result-configmap=team-a/leduc-strategy",
        "--status-port=8080",
        "--termination-log=/dev/termination-log",
    ]


def container(**spec: Any) -> Object:
    found: Object = of_kind("Job", made(**spec))["spec"]["template"]["spec"]["containers"][0]
    return found


def test_cuda_asks_for_a_gpu_and_runs_the_image_that_can_use_it() -> None:
    solver = container(device="CUDA", template={"resources": {"limits": {"memory": "4Gi"}}})
    assert solver["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/gpu": 1}
    assert solver["image"] == "ballast/cfr-gpu:2"
    assert "--device=cuda" in solver["args"]


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"amd.com/gpu": 2}},
        {"limits": {"nvidia.com/mig-1g.10gb": 1}},
        {"claims": [{"name": "gpu"}]},
    ],
)
def test_a_device_that_the_template_brings_is_the_one_that_is_used(resources: Object) -> None:
    assert container(device="CUDA", template={"resources": resources})["resources"] == resources
    automatic = container(template={"resources": resources})
    assert "--device=auto" in automatic["args"]
    assert automatic["image"] == "ballast/cfr-gpu:2"


def test_without_a_device_auto_is_the_cpu() -> None:
    solver = container(template={"resources": {"limits": {"cpu": "2"}}})
    assert solver["image"] == "ballast/cfr:2"
    assert "--device=cpu" in solver["args"]
    assert "--device=cpu" in container(device="CPU", template={"resources": {"claims": [{"name": "g"}]}})["args"]


def test_precision_and_parquet_reach_the_solver() -> None:
    spec = {
        "algorithm": {"precision": "Mixed"},
        "output": {"persistentVolumeClaim": {"claimName": "r", "path": "leduc.parquet"}, "format": "Parquet"},
    }
    assert {"--dtype=Mixed", "--output-format=Parquet"} <= set(arguments(**spec))


def test_a_game_from_a_config_map_is_mounted_read_only_under_its_key() -> None:
    spec = {"game": {"configMapKeyRef": {"name": "games", "key": "kuhn.efg"}, "sha256": "0" * 64}}
    assert "--game-file=/ballast/game/kuhn.efg" in arguments(**spec)
    assert f"--game-sha256={'0' * 64}" in arguments(**spec)
    pod = of_kind("Job", made(**spec))["spec"]["template"]["spec"]
    assert {"name": "game", "mountPath": "/ballast/game", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert {"name": "game", "configMap": {"name": "games"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("source", "file", "volume"),
    [
        ({"configMapKeyRef": {"name": "many", "key": "b.jsonl"}}, "b.jsonl", {"configMap": {"name": "many"}}),
        (
            {"persistentVolumeClaim": {"claimName": "many", "path": "in/b.jsonl"}},
            "in/b.jsonl",
            {"persistentVolumeClaim": {"claimName": "many"}},
        ),
    ],
)
def test_a_batch_is_mounted_read_only_beside_the_game(source: Object, file: str, volume: Object) -> None:
    assert f"--batch-file=/ballast/batch/{file}" in arguments(batch=source)
    assert not any(argument.startswith("--batch-file") for argument in arguments())
    pod = of_kind("Job", made(batch=source))["spec"]["template"]["spec"]
    assert {"name": "batch", "mountPath": "/ballast/batch", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert {"name": "batch", **volume} in pod["volumes"]


def test_a_users_volume_for_the_checkpoint_replaces_the_made_one() -> None:
    spec = {"checkpoint": {"persistentVolumeClaim": {"claimName": "mine", "path": "runs/1"}}}
    wanted = made(**spec)
    assert all(obj["kind"] != "PersistentVolumeClaim" for obj in wanted)
    pod = of_kind("Job", wanted)["spec"]["template"]["spec"]
    assert {"name": "checkpoint", "persistentVolumeClaim": {"claimName": "mine"}} in pod["volumes"]
    assert {"name": "checkpoint", "mountPath": "/ballast/checkpoint", "subPath": "runs/1"} in pod["containers"][0][
        "volumeMounts"
    ]


def test_a_queue_owns_suspend_and_without_one_we_do() -> None:
    assert of_kind("Job", made())["spec"]["suspend"] is False
    queued = of_kind("Job", made(queueName="team"))
    assert "suspend" not in queued["spec"]
    assert queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


def test_a_suspended_solve_has_no_job_and_keeps_the_rest() -> None:
    assert made(suspend=True) == []
    kept = made(child("ConfigMap", "leduc-strategy"), suspend=True)
    assert [obj["kind"] for obj in kept] == [
        "ServiceAccount",
        "ConfigMap",
        "Role",
        "RoleBinding",
        "PersistentVolumeClaim",
    ]


def test_a_job_keeps_the_template_that_it_was_made_with() -> None:
    again = of_kind("Job", made(job()))
    assert again["spec"]["template"] == job()["spec"]["template"]
    assert again["spec"]["parallelism"] == 1


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_nothing_is_put_back_once_the_solve_has_ended(condition: str) -> None:
    assert objects(solve(), Children([job(condition)]), IMAGES) is None
    ended = {
        "conditions": [
            {
                "type": condition,
                "status": "True",
                "reason": "TargetReached",
                "message": "m",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ]
    }
    assert objects(solve(status=ended), Children(), IMAGES) is None


NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,50}[a-z0-9])?", fullmatch=True)


@given(NAMES, st.booleans())
def test_every_child_is_owned_labelled_short_named_and_in_the_owners_namespace(name: str, queued: bool) -> None:
    spec: dict[str, Any] = {"queueName": "q"} if queued else {}
    for obj in objects(solve(name, **spec), Children(), IMAGES) or []:
        meta = obj["metadata"]
        assert len(meta["name"]) <= 63
        assert meta["namespace"] == "team-a"
        assert meta["ownerReferences"][0]["uid"] == UID
        assert meta["labels"][OWNER_NAME] == name


def test_kubernetes_own_schema_takes_every_child() -> None:
    template = {
        "labels": {"team": "a"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "env": [{"name": "A", "value": "b"}],
        "resources": {"limits": {"cpu": "2"}},
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "imagePullSecrets": [{"name": "mine"}],
        "affinity": {"nodeAffinity": {}},
    }
    spec = {"template": template, "output": {"persistentVolumeClaim": {"claimName": "out", "path": "s.csv"}}}
    text = "\n---\n".join(json.dumps(obj) for obj in made(**spec))
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", "1.37", "-"]
    checked = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert (checked.stdout + checked.stderr).count("INFO") + (checked.stdout + checked.stderr).count("passed") >= 6


def test_every_pod_may_run_in_a_restricted_namespace() -> None:
    pod = of_kind("Job", made())["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
