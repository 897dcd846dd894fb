"""A game from applied to solved, from each kind of source, as a user would see it."""

import csv
import io
import json
from pathlib import Path

import pytest

from e2e.support.kube import Kube, condition, is_true, reason, solve

GAMES = Path(__file__).parents[2] / "docs" / "examples" / "games"
LEDUC_VALUE = -0.0856064241


def complete(kube: Kube, name: str, seconds: float = 60) -> dict[str, object]:
    """The status of a solve once it is complete; fails at once with its words if it failed."""
    done = kube.until("cfr", name, lambda o: is_true("Complete")(o) or is_true("Failed")(o), seconds, "Complete")
    assert is_true("Complete")(done), condition(done, "Failed")
    status: dict[str, object] = done["status"]
    return status


def strategy(kube: Kube, name: str) -> str:
    found = kube.get("configmap", f"{name}-strategy")
    assert found
    text: str = found["data"]["strategy.csv"]
    return text


@pytest.mark.cluster
def test_leduc_goes_from_applied_to_complete(kube: Kube) -> None:
    kube.apply(solve("leduc"))
    status = complete(kube, "leduc", 90)
    assert float(str(status["exploitability"])) <= 1e-3
    assert abs(float(str(status["value"])) - LEDUC_VALUE) <= 1e-3
    assert status["result"]["configMapRef"] == {"name": "leduc-strategy"}  # type: ignore[index]
    rows = list(csv.DictReader(io.StringIO(strategy(kube, "leduc"))))
    assert {"player", "infoset", "action", "probability", "reach"} <= rows[0].keys()
    by_infoset: dict[tuple[str, str], float] = {}
    for row in rows:
        key = (row["player"], row["infoset"])
        by_infoset[key] = by_infoset.get(key, 0.0) + float(row["probability"])
    assert len(by_infoset) == 936
    assert all(abs(total - 1) < 1e-9 for total in by_infoset.values())
    summary = json.loads(kube.get("configmap", "leduc-strategy")["data"]["summary.json"])  # type: ignore[index]
    assert summary["iteration"] == status["iteration"]


@pytest.mark.cluster
def test_what_people_type_answers_in_what_fits_their_screen(kube: Kube) -> None:
    kube.apply(solve("leduc"))
    kube.run("wait", "cfr/leduc", "--for=condition=Complete", "--timeout=90s", seconds=100)
    table = kube.run("get", "cfr")
    assert all(len(line) <= 120 for line in table.splitlines())
    assert "Complete" in table
    assert len(kube.run("describe", "cfr", "leduc").splitlines()) <= 50
    assert {"TargetReached"} <= {event["reason"] for event in kube.list("events") if _about_solve(event)}


def _about_solve(event: dict[str, object]) -> bool:
    about: dict[str, object] = event["involvedObject"]  # type: ignore[assignment]
    return about["kind"] == "CFRSolve"


@pytest.mark.cluster
def test_the_plugin_waits_shows_and_explains(kube: Kube) -> None:
    kube.apply(solve("leduc"))
    assert "Complete: TargetReached" in kube.plugin("wait", "cfr/leduc", "--timeout=90")
    tree = kube.plugin("status", "cfr/leduc")
    assert "└── Pod leduc-solve-" in tree and "ConfigMap leduc-strategy" in tree
    assert "next:  kubectl" in kube.plugin("why", "cfr/leduc")


@pytest.mark.e2e
def test_a_gambit_file_from_a_config_map_is_solved(kube: Kube) -> None:
    text = (GAMES / "kuhn.efg").read_text()
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "games"}, "data": {"kuhn.efg": text}})
    kube.apply(solve("kuhn", game={"configMapKeyRef": {"name": "games", "key": "kuhn.efg"}}))
    status = complete(kube, "kuhn")
    assert abs(float(str(status["value"])) + 1 / 18) <= 1e-3


@pytest.mark.e2e
def test_a_game_and_an_output_on_volumes_of_the_users(kube: Kube, cfr_image: str) -> None:
    for name in ("games", "results"):
        kube.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}},
            }
        )
    text = (GAMES / "kuhn.efg").read_text()
    script = f"from pathlib import Path; Path('/v/kuhn.efg').write_text({text!r})"
    run_python(kube, cfr_image, "writer", script, {"games": "/v", "results": "/r"})
    game = {"persistentVolumeClaim": {"claimName": "games", "path": "kuhn.efg"}}
    output = {"persistentVolumeClaim": {"claimName": "results", "path": "kuhn.json"}, "format": "JSON"}
    kube.apply(solve("kuhn", game=game, output=output))
    status = complete(kube, "kuhn")
    assert status["result"]["persistentVolumeClaim"] == {"claimName": "results", "path": "kuhn.json"}  # type: ignore[index]
    reader = "import json; print(len(json.load(open('/r/kuhn.json'))) > 0)"
    assert run_python(kube, cfr_image, "reader", reader, {"results": "/r"}).strip() == "True"


def run_python(kube: Kube, image: str, name: str, script: str, claims: dict[str, str]) -> str:
    """Run a script in a pod with claims mounted; its log."""
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "fsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "main",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["python3", "-c", script],
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                        "volumeMounts": [{"name": claim, "mountPath": path} for claim, path in claims.items()],
                    }
                ],
                "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims],
            },
        }
    )
    kube.until("pod", name, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"), 60, "the end of the pod")
    said = kube.run("logs", name)
    ended = kube.get("pod", name)
    assert ended and ended["status"]["phase"] == "Succeeded", said
    return said


@pytest.mark.e2e
def test_a_strategy_over_a_megabyte_stays_on_the_volume_and_says_so(kube: Kube) -> None:
    game = {"builtin": {"name": "liars-dice"}}
    kube.apply(solve("liar", game=game, stop={"maxIterations": 50}))
    done = kube.until("cfr", "liar", is_true("Complete"), 120)
    assert condition(done, "Complete")["reason"] == "ResultTooLarge"
    assert done["status"]["result"]["persistentVolumeClaim"]["claimName"] == "liar-checkpoint"
    assert "configMapRef" not in done["status"]["result"]


@pytest.mark.e2e
def test_progress_shows_while_it_runs_and_a_finished_object_goes_after_its_ttl(kube: Kube) -> None:
    kube.apply(solve("leduc", stop={"maxSeconds": 15}, ttlSecondsAfterFinished=5))
    running = kube.until(
        "cfr", "leduc", lambda o: o.get("status", {}).get("iterationsPerSecond"), 60, "progress in status"
    )
    assert running["status"]["phase"] == "Running"
    assert running["status"]["iteration"] > 0
    first = running["status"]["iteration"]
    kube.until("cfr", "leduc", lambda o: o.get("status", {}).get("iteration", 0) > first, 30, "a later iteration")
    done = kube.until("cfr", "leduc", is_true("Complete"), 60)
    assert condition(done, "Complete")["reason"] == "TimeLimit"
    kube.gone("cfr", "leduc", 30)
    kube.gone("job", "leduc-solve", 30)


@pytest.mark.e2e
def test_a_deadline_fails_the_solve(kube: Kube) -> None:
    kube.apply(solve("leduc", stop={"maxSeconds": 600}, activeDeadlineSeconds=8))
    done = kube.until("cfr", "leduc", is_true("Failed"), 90)
    assert condition(done, "Failed")["reason"] == "DeadlineExceeded"


@pytest.mark.e2e
def test_a_job_in_a_queue_says_which(kube: Kube) -> None:
    """No queue controller here: the Job is held by hand, as Kueue's webhook would."""
    kube.apply(solve("leduc", queueName="team", stop={"maxSeconds": 600}))
    kube.until("job", "leduc-solve", lambda o: True, 30)
    kube.patch("job", "leduc-solve", {"spec": {"suspend": True}})
    kube.until("cfr", "leduc", reason("Progressing", "Queued"), 30)
    kube.patch("job", "leduc-solve", {"spec": {"suspend": False}})
    kube.until("cfr", "leduc", reason("Progressing", "Running"), 60)
