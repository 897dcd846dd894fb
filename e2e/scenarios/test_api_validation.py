"""What the API server itself says to good and bad CFRSolves: no operator is asked, only the CRD."""

import json
from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest

from ballast_api.cfrsolve import CFRSolve
from ballast_api.faults import faults
from ballast_api.schema import coretypes, extract, server
from ballast_api.yamltext import dump
from e2e.support.api_server import PLACE, SCHEMA, Object, answer, solve
from e2e.support.kube import Kube, Refused

pytestmark = pytest.mark.cluster

MANY = {"configMapKeyRef": {"name": "many", "key": "b.jsonl"}}
BAD = {
    "unknown field": (solve(gmae={}), 'unknown field "spec.gmae"'),
    "unknown field of a pod's type": (
        solve(template={"tolerations": [{"kee": "gpu"}]}),
        'unknown field "spec.template.tolerations[0].kee"',
    ),
    "wrong type": (solve(backoffLimit="3"), "spec.backoffLimit in body must be of type integer"),
    "decimal without quotes": (
        solve(stop={"exploitability": 0.001}),
        "spec.stop.exploitability in body must be of type string",
    ),
    "decimal that is none": (
        solve(stop={"exploitability": "small"}),
        'stop.exploitability must be a decimal above 0 in quotes; write it like "1e-3" or "0.001"',
    ),
    "target of zero": (solve(stop={"exploitability": "0.0"}), "stop.exploitability must be a decimal above 0"),
    "two games": (
        solve(game={"builtin": {"name": "kuhn"}, "configMapKeyRef": {"name": "games", "key": "kuhn.efg"}}),
        "game takes exactly one of builtin, configMapKeyRef or persistentVolumeClaim; keep only one",
    ),
    "empty game": (
        solve(game={}),
        "game needs exactly one of builtin, configMapKeyRef or persistentVolumeClaim; add one",
    ),
    "no game": (solve(game=None), "spec.game: Required value"),
    "unknown game": (
        solve(game={"builtin": {"name": "chess"}}),
        'Unsupported value: "chess": supported values: "battleship", "dark-hex", "goofspiel", "kuhn", "leduc"',
    ),
    "digest of a builtin game": (
        solve(game={"builtin": {"name": "kuhn"}, "sha256": "0" * 64}),
        "game.sha256 is the digest of a file, and a builtin game has none; remove sha256",
    ),
    "negative iterations": (solve(stop={"maxIterations": -1}), "spec.stop.maxIterations in body should be greater"),
    "negative seconds": (solve(stop={"maxSeconds": -5}), "spec.stop.maxSeconds in body should be greater"),
    "negative retries": (solve(backoffLimit=-1), "spec.backoffLimit in body should be greater than or equal to 0"),
    "negative deadline": (solve(activeDeadlineSeconds=-1), "spec.activeDeadlineSeconds in body should be greater"),
    "negative memory": (
        solve(template={"resources": {"limits": {"memory": "-1Gi"}}}),
        "spec.template.resources.limits.memory in body should match",
    ),
    "negative volume": (solve(checkpoint={"size": "-1Gi"}), "spec.checkpoint.size in body should match"),
    "fraction of a core": (
        solve(template={"resources": {"limits": {"cpu": 0.5}}}),
        "spec.template.resources.limits.cpu in body must be of type integer,string",
    ),
    "two places for checkpoints": (
        solve(checkpoint={"ephemeral": {}, "persistentVolumeClaim": {"claimName": "v", "path": "a"}}),
        "checkpoint takes at most one of persistentVolumeClaim or ephemeral; keep one",
    ),
    "class of no volume": (solve(checkpoint={"ephemeral": {}, "storageClassName": "fast"}), "remove storageClassName"),
    "path that leaves the volume": (
        solve(output={"persistentVolumeClaim": {"claimName": "v", "path": "../../etc/passwd"}}),
        "path is relative to the root of the volume and stays on it; remove the leading slash and every '..'",
    ),
    "empty stop": (
        solve(stop={}),
        "stop needs exploitability, maxIterations or maxSeconds, without which a solve never ends; add one",
    ),
    "no stop": (solve(stop=None), "spec.stop: Required value"),
    "long name": (solve("a" * 53), "metadata.name: Too long: may not be more than 52 bytes"),
    "name with a dot": (
        solve("leduc.v2"),
        "metadata.name of a CFRSolve takes no dots, since pods are named after it; use '-' instead",
    ),
    "label of ours": (
        solve(template={"labels": {"ballast.dev/name": "x"}}),
        "template.labels: keys that begin with ballast.dev/ are the operator's own; use another prefix",
    ),
    "a batch from nowhere": (solve(batch={}), "batch needs exactly one of"),
    "a batch in mixed precision on a GPU": (
        solve(batch=MANY, device="CUDA", algorithm={"precision": "Mixed"}),
        "algorithm.precision Mixed is not for a batch on a GPU; remove it, or choose device CPU",
    ),
    "volume of ours": (
        solve(template={"volumes": [{"name": "checkpoint", "emptyDir": {}}]}),
        "template.volumes: scratch, checkpoint, game, batch and output are the solver's own; use another name",
    ),
}


@pytest.mark.parametrize(("obj", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_a_sentence(api: Any, obj: Object, sentence: str) -> None:
    assert sentence in answer(api, obj)
    assert faults(obj), "the offline check lets it pass"


def test_what_kubectl_prints_names_the_field(bare: Kube) -> None:
    said = 'The CFRSolve "solve" is invalid: spec.game: Invalid value: game needs exactly one of'
    with pytest.raises(Refused, match=said):
        bare.run("apply", "--dry-run=server", "-f", "-", text=dump(solve(game={})))


@pytest.fixture
def stored(api: Any) -> Iterator[Object]:
    """A solve on the server, suspended so that an operator would leave it alone."""
    obj = solve("stored", suspend=True, queueName="team-a", template={"nodeSelector": {"a": "b"}})
    yield api.create_namespaced_custom_object(*PLACE, obj)
    api.delete_namespaced_custom_object(*PLACE, "stored")


CHANGES = {
    "game": {"game": {"builtin": {"name": "kuhn"}}},
    "stop": {"stop": {"maxIterations": 5}},
    "algorithm": {"algorithm": {"variant": "CFR"}},
    "device": {"device": "CPU"},
    "batch": {"batch": MANY},
    "checkpoint": {"checkpoint": {"intervalSeconds": 31}},
    "output": {"output": {"format": "JSON"}},
    "template": {"template": {"nodeSelector": {"a": "c"}}},
    "backoffLimit": {"backoffLimit": 7},
    "activeDeadlineSeconds": {"activeDeadlineSeconds": 60},
    "queueName": {"queueName": None},
}


@pytest.mark.parametrize(("member", "change"), CHANGES.items(), ids=CHANGES.keys())
def test_a_fixed_field_cannot_be_changed_added_or_removed(
    api: Any, stored: Object, member: str, change: Object
) -> None:
    with pytest.raises(kubernetes.client.ApiException) as refused:
        api.patch_namespaced_custom_object(*PLACE, "stored", {"spec": change})
    assert f"spec.{member}: " in str(refused.value.body)
    assert f"{member} is immutable; create a new CFRSolve" in str(refused.value.body)


def test_every_fixed_field_is_tried() -> None:
    assert CHANGES.keys() == SCHEMA["properties"]["spec"]["properties"].keys() - {"suspend", "ttlSecondsAfterFinished"}


def test_suspend_and_the_time_to_live_can_be_changed(api: Any, stored: Object) -> None:
    for change in ({"suspend": False}, {"suspend": True}, {"ttlSecondsAfterFinished": 60}):
        changed = api.patch_namespaced_custom_object(*PLACE, "stored", {"spec": change})
        assert change.items() <= changed["spec"].items()


def test_the_stored_object_shows_what_will_happen(stored: Object) -> None:
    spec = stored["spec"]
    assert (spec["algorithm"], spec["device"]) == ({"variant": "CFRPlus", "updates": "Alternating"}, "Auto")
    assert spec["checkpoint"] == {"intervalSeconds": 30, "size": "1Gi"}
    assert (spec["stop"]["unit"], spec["backoffLimit"], "output" in spec) == ("Absolute", 6, False)
    assert CFRSolve.model_validate(stored).spec == CFRSolve.model_validate(SMALLEST_STORED).spec


SMALLEST_STORED = solve("stored", suspend=True, queueName="team-a", template={"nodeSelector": {"a": "b"}})


def fields(schema: Object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Object]]:
    """Path and schema of every named field; `0` stands for an entry of a list, `any` for one of a map."""
    for name, member in schema.get("properties", {}).items():
        yield (*path, name), member
        yield from fields(member, (*path, name))
    for key, step in (("items", "0"), ("additionalProperties", "any")):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], (*path, step))


def nested(path: tuple[str, ...], value: Any) -> Any:
    """A value at a path, with whatever must be around it."""
    for step in reversed(path):
        value = [value] if step == "0" else {step: value}
    return value


def test_a_typo_in_any_field_is_refused(api: Any) -> None:
    spec = SCHEMA["properties"]["spec"]
    tried = 0
    for path, _ in fields(spec):
        typo = (*path[:-1], path[-1] + "x")
        dotted = ".".join(("spec", *typo)).replace(".0", "[0]")
        obj = solve() | {"spec": nested(typo, {})}
        assert f'unknown field "{dotted}"' in answer(api, obj), dotted
        tried += 1
    assert tried > 200


def test_every_field_is_explained(bare: Kube) -> None:
    served = json.loads(bare.run("get", "--raw", "/openapi/v3/apis/ballast.dev/v1alpha1"))["components"]["schemas"][
        "dev.ballast.v1alpha1.CFRSolve"
    ]
    silent = [
        ".".join(path) for path, schema in fields(served) if not schema.get("description") and "$ref" not in schema
    ]
    assert [path for path in silent if path != "metadata"] == []
    said = bare.run("explain", "cfr.spec", "--recursive")
    for name in ("exploitability", "tolerations", "persistentVolumeClaim", "enum: CFR, CFRPlus, DCFR, PCFRPlus"):
        assert name in said
    assert "When the solve ends. At least one of" in bare.run("explain", "cfr.spec.stop")


def test_columns_fit_120_characters(bare: Kube, api: Any) -> None:
    name = "leduc-with-a-rather-long-name"
    api.create_namespaced_custom_object(*PLACE, solve(name, suspend=True))
    status = {
        "phase": "Suspended",
        "iteration": 1_000_000_000,
        "exploitability": "9.712e-04",
        "value": "-0.0855934",
        "etaSeconds": 86400,
    }
    try:
        api.patch_namespaced_custom_object_status(*PLACE, name, {"status": status})
        for wide in ((), ("-o", "wide")):
            said = bare.run("get", "cfr", name, *wide)
            print(said)
            assert all(len(line.rstrip()) <= 120 for line in said.splitlines())
            assert {"leduc", "Suspended", "1000000000", "9.712e-04", "1e-3"} <= set(said.split())
    finally:
        api.delete_namespaced_custom_object(*PLACE, name)


def test_the_game_column_names_a_file_too(bare: Kube, api: Any) -> None:
    game = {"configMapKeyRef": {"name": "games", "key": "auction.efg"}}
    api.create_namespaced_custom_object(*PLACE, solve("file", suspend=True, game=game))
    try:
        assert "auction.efg" in bare.run("get", "cfr", "file")
    finally:
        api.delete_namespaced_custom_object(*PLACE, "file")


def test_core_types_are_the_servers_own(bare: Kube) -> None:
    document = server.document("--kubeconfig", str(bare.kubeconfig))
    source, version = coretypes.extracted()["source"], document["info"]["version"]
    if source.rpartition(".")[0] != f"Kubernetes {version.rpartition('.')[0]}":
        pytest.skip(f"the extract is of {source}, the server is {version}")
    assert extract.extract(document) == coretypes.extracted()["schemas"]
