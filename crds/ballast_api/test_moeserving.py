"""What the operator may rely on when it parses a MoEServing."""

from typing import Any

import pytest

from ballast_api.autoscaling import MetricType
from ballast_api.faults import faults
from ballast_api.moeserving import MoEServing

SMALLEST: dict[str, Any] = {
    "apiVersion": "ballast.dev/v1alpha1",
    "kind": "MoEServing",
    "metadata": {"name": "qwen", "namespace": "team-a"},
    "spec": {"model": {"huggingFace": {"id": "Qwen/Qwen3-30B-A3B"}}},
}


def with_spec(**changes: Any) -> dict[str, Any]:
    return SMALLEST | {"spec": SMALLEST["spec"] | changes}


def test_the_smallest_object_parses_with_every_default() -> None:
    spec = MoEServing.model_validate(SMALLEST).spec
    assert (spec.replicas, spec.shared_memory, spec.autoscaling) == (1, "1Gi", None)
    assert (spec.startup.timeout_seconds, spec.drain.timeout_seconds) == (900, 120)
    assert (spec.router.replicas, spec.router.hold.max_requests) == (2, 256)
    assert faults(SMALLEST) == []


def test_an_autoscaler_without_metrics_measures_the_queue() -> None:
    scaling = MoEServing.model_validate(with_spec(autoscaling={"maxReplicas": 2})).spec.autoscaling
    assert scaling is not None
    assert [(m.type, m.average_value) for m in scaling.measured] == [(MetricType.WAITING_REQUESTS, 4)]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"autoscaling": {"maxReplicas": 1, "minReplicas": 2}}, "minReplicas must not exceed autoscaling.maxReplicas"),
        ({"autoscaling": {"mode": "HPA", "minReplicas": 0, "maxReplicas": 2}}, "must be at least 1 with mode HPA"),
        ({"engine": {"extraArgs": {"host": "x"}}}, "engine.extraArgs takes no argument that has a field of its own"),
        ({"parallelism": {"tensor": 3, "nodes": 2}}, "parallelism.nodes must divide"),
        ({"rollout": {"maxSurge": 0, "maxUnavailable": 0}}, "must not both be 0"),
        ({"template": {"resources": {}}}, "spec.template.resources is not a field"),
        ({"vamp": {}}, "spec.vamp.maxOffload is required"),
        ({"vamp": {"maxOffload": "8Gi", "minResidentFraction": "1.1"}}, "spec.vamp.minResidentFraction"),
        ({"vamp": {"maxOffload": "8Gi", "mode": "Off"}}, "spec.vamp.mode"),
        (
            {"vamp": {"maxOffload": "8Gi"}, "engine": {"extraArgs": {"scheduler-cls": "x"}}},
            "scheduler-cls, worker-cls do not go together with vamp; remove them, or vamp",
        ),
        (
            {"vamp": {"maxOffload": "8Gi"}, "parallelism": {"tensor": 2, "expert": True}},
            "set parallelism.pipeline to 1 and parallelism.expert to false, or remove vamp",
        ),
        ({"modle": {}}, "spec.modle is not a field; did you mean model?"),
    ],
)
def test_a_fault_is_named_with_its_way_out(spec: dict[str, Any], sentence: str) -> None:
    (found,) = faults(with_spec(**spec))
    assert sentence in found


def test_vamp_takes_one_size_and_has_a_default_for_all_else() -> None:
    vamp = MoEServing.model_validate(with_spec(vamp={"maxOffload": "8Gi"})).spec.vamp
    assert vamp is not None
    assert (vamp.mode, vamp.host_memory, vamp.chunk_size, vamp.min_resident_fraction) == ("Auto", None, "256Mi", "0.5")
    assert faults(with_spec(vamp={"maxOffload": "8Gi"}, engine={"extraArgs": {"seed": "1"}})) == []
    assert faults(with_spec(vamp={"maxOffload": "8Gi"}, parallelism={"tensor": 2})) == []


def test_a_name_is_a_service_name_too() -> None:
    (found,) = faults(SMALLEST | {"metadata": {"name": "7b"}})
    assert "begins with a letter" in found
