"""What `kubectl ballast` prints, offline."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast_api.conditions import Reason
from ballast_api.yamltext import dump
from ballast_operator import testing_serving
from ballast_operator.cli import status, why
from ballast_operator.cli.advice import ADVICE, fill
from ballast_operator.cli.page import page
from ballast_operator.cli.render import render_file
from ballast_operator.cli.target import Target, UnknownTarget
from ballast_operator.kind import Children
from ballast_operator.objects import Object
from ballast_operator.observe import moeserving
from ballast_operator.observe.cfrsolve import observe
from ballast_operator.settings import Settings
from ballast_operator.testing import job, pod, situation, solve_object

LEDUC = Target.parse("cfr/leduc", "team-a")
QWEN = Target.parse("moe/qwen", "team-a")


def test_every_reason_has_a_cause_and_a_command() -> None:
    unseen = {Reason.DELETING, Reason.RESUMED} | (set(Reason) - set(Reason))
    for reason in set(Reason) - unseen:
        assert ADVICE[reason].cause
        filled = fill(ADVICE[reason].command, "cfr", "team-a", "leduc")
        for jsonpath in ("{.data", "{.items[", "{.status.", '{"spec":{'):
            filled = filled.replace(jsonpath, "")
        assert "{" not in filled


def test_why_names_the_cause_and_the_next_command() -> None:
    waiting = {"reason": "ErrImagePull", "message": "not found"}
    seen = observe(situation(None, job(), pod("Pending", waiting=waiting))).status
    lines = list(why.lines(LEDUC, solve_object(status=seen)))
    assert (
        lines[0] == "CFRSolve team-a/leduc is Pending (ImagePullFailed): image ballast/cfr:1: ErrImagePull: not found"
    )
    assert lines[2] == "next:  kubectl -n team-a describe pods -l ballast.dev/owner-name=leduc"


def test_why_says_when_nobody_looked_at_the_object() -> None:
    assert "has no status yet" in list(why.lines(LEDUC, solve_object()))[0]


def test_status_is_a_tree_with_the_pods_under_their_job() -> None:
    seen = observe(situation(None, job(), pod("Running"))).status | {"iteration": 5}
    text = "\n".join(status.lines(LEDUC, solve_object(status=seen), Children([job(active=1), pod("Running")])))
    assert "CFRSolve team-a/leduc  Running  (iteration 5)" in text
    assert "── Job leduc-solve  1 active" in text
    assert "── Pod leduc-solve-x  Running on node1" in text


def serving_seen(*children: Object, **spec: Any) -> Object:
    """A serving with the status that the operator gives it."""
    asked = testing_serving.situation(testing_serving.serving(**spec), *children)
    status = moeserving.observe(asked, testing_serving.INSTALLATION).status
    return testing_serving.serving_object(status=status, **spec)


SERVING = (testing_serving.deployment(), testing_serving.deployment("router", replicas=2), testing_serving.pod())


def test_revisions_of_others_are_not_shown_as_children() -> None:
    ours, theirs = (testing_serving.child("ControllerRevision", f"qwen-engine-{name}") for name in ("ours", "theirs"))
    theirs["metadata"]["ownerReferences"] = [{"uid": "of-a-statefulset", "controller": True}]
    text = "\n".join(status.lines(QWEN, serving_seen(*SERVING), Children([ours, theirs])))
    assert "qwen-engine-ours" in text
    assert "qwen-engine-theirs" not in text


def test_a_serving_says_whether_it_is_ready_and_which_pods_run_what() -> None:
    text = "\n".join(status.lines(QWEN, serving_seen(*SERVING), Children(SERVING)))
    assert "MoEServing team-a/qwen  Ready  (1 of 1 replicas serve)" in text
    assert "├── Deployment qwen-engine  0 of 1 ready" in text
    assert list(why.lines(QWEN, serving_seen(*SERVING)))[0].startswith(
        "MoEServing team-a/qwen is Ready (AllReplicasReady)"
    )


def test_why_names_the_autoscaler_of_what_is_ready_if_that_is_the_trouble() -> None:
    hpa = testing_serving.child("HorizontalPodAutoscaler", "qwen-engine", "autoscaling/v2")
    said = {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "no metrics"}
    scaled = serving_seen(
        *SERVING, hpa | {"status": {"conditions": [said]}}, autoscaling={"mode": "HPA", "maxReplicas": 2}
    )
    head, _, command = why.lines(QWEN, scaled)
    assert "is Ready (MetricsUnavailable)" in head
    assert command.endswith("get horizontalpodautoscalers")


@pytest.mark.parametrize("words", ["leduc", "pods/leduc", "cfr/", ""])
def test_words_that_name_no_object_say_what_to_write(words: str) -> None:
    with pytest.raises(UnknownTarget, match="write KIND/NAME"):
        Target.parse(words, "team-a")


@pytest.mark.parametrize("word", ["cfr", "cfrsolve", "cfrsolves", "CFRSolve", "cfrsolves.ballast.dev"])
def test_any_name_of_the_kind_will_do(word: str) -> None:
    assert Target.parse(f"{word}/x", "ns").name == "x"


def test_render_prints_what_the_operator_would_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(dump(solve_object()))
    out = io.StringIO()
    assert render_file(str(file), Settings(), out) == 0
    assert [obj["kind"] for obj in yaml.safe_load_all(out.getvalue())][-1] == "Job"
    broken = solve_object()
    del broken["spec"]["game"]
    file.write_text(dump(broken))
    assert render_file(str(file), Settings(), io.StringIO()) == 1
    assert "game" in capsys.readouterr().err


def test_the_page_for_what_is_not_ready_is_this_table() -> None:
    written = Path(__file__).parents[3] / "docs" / "not-ready.md"
    assert written.read_text() == page(), "run `make docs`"


def region(ready: str, degraded: str = "False") -> dict[str, object]:
    conditions = [
        {"type": "Degraded", "status": degraded, "reason": "NodeLost", "message": "no sign of the node plugin on n2"},
        {
            "type": "Ready",
            "status": ready,
            "reason": "Ready" if ready == "True" else "Draining",
            "message": "in use on n1",
        },
    ]
    rows = [{"node": "n1", "state": "Attached", "port": "p0", "device": "/dev/dax0.0"}]
    status = {"phase": "Ready", "observedGeneration": 1, "size": "64Gi", "conditions": conditions, "attachments": rows}
    return {"metadata": {"name": "kv", "namespace": "team-a", "generation": 1}, "status": status}


def test_a_region_is_shown_with_its_nodes() -> None:
    target = Target.parse("cxlr/kv", "team-a")
    claim = {"kind": "ResourceClaim", "metadata": {"name": "kv"}, "status": {"reservedFor": [{"name": "pod-1"}]}}
    text = "\n".join(status.lines(target, region("True"), Children([claim])))
    assert "CXLRegion team-a/kv  Ready  (64Gi)" in text
    assert "  on n1: Attached, p0, /dev/dax0.0" in text
    assert "── ResourceClaim kv  used by pod-1" in text


@pytest.mark.parametrize(
    ("ready", "degraded", "reason"),
    [("True", "False", "Ready"), ("True", "True", "NodeLost"), ("False", "True", "Draining")],
)
def test_why_says_what_is_amiss_with_a_region_that_is_ready(ready: str, degraded: str, reason: str) -> None:
    lines = list(why.lines(Target.parse("cxlr/kv", "team-a"), region(ready, degraded)))
    assert f"({reason})" in lines[0]
    assert lines[2].startswith("next:  kubectl ")
