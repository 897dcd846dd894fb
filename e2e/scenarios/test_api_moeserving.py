"""What the API server itself says to good and bad MoEServings: no operator is asked, only the CRD."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast_api.faults import faults
from ballast_api.moeserving import MoEServing
from e2e.scenarios.test_api_validation import fields, nested
from e2e.support.api_server import SERVING_PLACE, SERVING_SCHEMA, Object, answer, serving
from e2e.support.kube import Kube

pytestmark = pytest.mark.cluster
EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("moeserving-*.yaml"))


def scaling(**changes: Any) -> Object:
    return serving(autoscaling={"maxReplicas": 4} | changes)


BAD = {
    "no model": (serving(model=None), "spec.model: Required value"),
    "empty model": (
        serving(model={}),
        "model needs exactly one of huggingFace, persistentVolumeClaim, image or builtin",
    ),
    "two models": (
        serving(model={"builtin": {"name": "tiny-qwen3-moe"}, "huggingFace": {"id": "a/b"}}),
        "model takes exactly one of huggingFace, persistentVolumeClaim, image or builtin; keep only one",
    ),
    "model path that leaves the volume": (
        serving(model={"persistentVolumeClaim": {"claimName": "c", "path": "../x"}}),
        "path is relative to the root of the volume and stays on it",
    ),
    "negative replicas": (serving(replicas=-1), "spec.replicas in body should be greater than or equal to 0"),
    "text replicas": (serving(replicas="2"), "spec.replicas in body must be of type integer"),
    "argument with dashes": (
        serving(engine={"extraArgs": {"--seed": "1"}}),
        "engine.extraArgs: names are written without leading dashes",
    ),
    "argument with a field of its own": (
        serving(engine={"extraArgs": {"max-model-len": "5"}}),
        "engine.extraArgs takes no argument that has a field of its own",
    ),
    "argument that moves the port": (
        serving(engine={"extraArgs": {"port": "5"}}),
        "engine.extraArgs takes no argument that has a field of its own or says where the engine listens",
    ),
    "argument that is a number": (
        serving(engine={"extraArgs": {"seed": 1}}),
        "spec.engine.extraArgs.seed in body must be of type string",
    ),
    "nodes that do not divide": (
        serving(parallelism={"tensor": 2, "nodes": 3}),
        "parallelism.nodes must divide parallelism.tensor times parallelism.pipeline",
    ),
    "more at least than at most": (
        scaling(minReplicas=5),
        "autoscaling.minReplicas must not exceed autoscaling.maxReplicas",
    ),
    "an HPA from zero": (
        scaling(mode="HPA", minReplicas=0),
        "autoscaling.minReplicas must be at least 1 with mode HPA, which cannot start from zero",
    ),
    "CPU for the operator": (
        scaling(metrics=[{"type": "CPU", "averageUtilization": 50}]),
        "autoscaling.metrics: CPU is for modes HPA and KEDA",
    ),
    "first tokens for an HPA": (
        scaling(mode="HPA", metrics=[{"type": "TTFT", "averageMilliseconds": 50}]),
        "autoscaling.metrics: TTFT is for modes Operator and KEDA",
    ),
    "KEDA without Prometheus": (scaling(mode="KEDA"), "autoscaling.keda is required with mode KEDA"),
    "Prometheus without KEDA": (
        scaling(keda={"prometheusAddress": "http://p"}),
        "autoscaling.keda is for mode KEDA; remove it or set the mode",
    ),
    "tolerance of others": (
        scaling(mode="HPA", tolerancePercent=5),
        "autoscaling.tolerancePercent is for mode Operator",
    ),
    "a metric without its target": (scaling(metrics=[{"type": "WaitingRequests"}]), "averageValue is the target of"),
    "a metric with another's target": (
        scaling(metrics=[{"type": "KVCacheUsage", "averageValue": 3}]),
        "averageUtilization is the target of KVCacheUsage and CPU",
    ),
    "half a rollout": (serving(rollout={"maxSurge": 1}), "rollout takes maxSurge and maxUnavailable together"),
    "a rollout without a step": (
        serving(rollout={"maxSurge": 0, "maxUnavailable": 0}),
        "rollout.maxSurge and rollout.maxUnavailable must not both be 0",
    ),
    "names without a gateway": (
        serving(access={"hostnames": ["x"]}),
        "access.hostnames are names at a Gateway; add access.gatewayRef",
    ),
    "two caches": (
        serving(cache={"size": "1Gi", "persistentVolumeClaim": {"claimName": "c"}}),
        "cache takes at most one of persistentVolumeClaim or size; keep one",
    ),
    "class of no cache": (serving(cache={"storageClassName": "fast"}), "add cache.size or remove them"),
    "volume of ours": (
        serving(template={"volumes": [{"name": "shm", "emptyDir": {}}]}),
        "template.volumes: scratch, cache, shm, model, vamp-profile are the engine's own volumes; use another name",
    ),
    "folder of ours": (
        serving(template={"volumes": [], "volumeMounts": [{"name": "x", "mountPath": "/ballast/cache"}]}),
        "template.volumeMounts: /tmp, /ballast, /dev/shm are the engine's own folders",
    ),
    "claim of ours": (
        serving(devices={"deviceClassName": "d"}, template={"resourceClaims": [{"name": "devices"}]}),
        "template.resourceClaims: devices is the name of the claim made for spec.devices",
    ),
    "vamp without its size": (serving(vamp={}), "spec.vamp.maxOffload: Required value"),
    "more than all experts": (
        serving(vamp={"maxOffload": "8Gi", "minResidentFraction": "1.5"}),
        "spec.vamp.minResidentFraction in body should match",
    ),
    "a size of nothing": (serving(vamp={"maxOffload": "0"}), "spec.vamp.maxOffload in body should match"),
    "a scheduler beside VAMP's": (
        serving(vamp={"maxOffload": "8Gi"}, engine={"extraArgs": {"scheduler-cls": "x.Y"}}),
        "scheduler-cls, worker-cls do not go together with vamp; remove them, or vamp",
    ),
    "vamp over stages": (
        serving(vamp={"maxOffload": "8Gi"}, parallelism={"pipeline": 2}),
        "vamp works where devices share each layer and each expert",
    ),
    "long name": (serving("a" * 42), "metadata.name: Too long: may not be more than 41 bytes"),
    "name with a digit in front": (serving("7b"), "metadata.name of a MoEServing begins with a letter"),
    "resources of the wrong kind": (
        serving(resources={"limits": {"cpu": 0.5}}),
        "spec.resources.limits.cpu in body must be of type integer,string",
    ),
}


@pytest.mark.parametrize(("obj", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_a_sentence(api: Any, obj: Object, sentence: str) -> None:
    assert sentence in answer(api, obj)
    assert faults(obj), "the offline check lets it pass"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_taken(api: Any, path: Path) -> None:
    for obj in yaml.safe_load_all(path.read_text()):
        assert answer(api, obj) == ""
        assert faults(obj) == []
        MoEServing.model_validate(obj)


def test_a_typo_in_any_field_is_refused(api: Any) -> None:
    tried = 0
    for path, _ in fields(SERVING_SCHEMA["properties"]["spec"]):
        typo = (*path[:-1], path[-1] + "x")
        dotted = ".".join(("spec", *typo)).replace(".0", "[0]")
        assert f'unknown field "{dotted}"' in answer(api, serving() | {"spec": nested(typo, {})}), dotted
        tried += 1
    assert tried > 400


def test_the_stored_object_shows_what_will_happen(api: Any) -> None:
    stored = api.create_namespaced_custom_object(*SERVING_PLACE, serving(autoscaling={"maxReplicas": 2}), dry_run="All")
    spec = stored["spec"]
    assert (spec["replicas"], spec["sharedMemory"], spec["startup"], spec["drain"]) == (
        1,
        "1Gi",
        {"timeoutSeconds": 900},
        {"timeoutSeconds": 120},
    )
    assert spec["autoscaling"]["mode"] == "Operator"
    assert spec["router"] == {
        "policy": "PrefixAware",
        "replicas": 2,
        "hold": {"maxRequests": 256, "timeoutSeconds": 600},
    }
    assert (
        MoEServing.model_validate(stored).spec
        == MoEServing.model_validate(serving(autoscaling={"maxReplicas": 2})).spec
    )


def test_every_field_is_explained(bare: Kube) -> None:
    bare.run("api-resources", "--api-group=ballast.dev")  # kubectl remembers for ten minutes what a server had
    said = bare.run("explain", "moe.spec", "--recursive")
    for name in ("huggingFace", "scaleToZeroAfterSeconds", "tolerations", "enum: PrefixAware, SessionAware"):
        assert name in said
    assert "FIELD: autoscaling" in bare.run("explain", "moe.spec.autoscaling")
