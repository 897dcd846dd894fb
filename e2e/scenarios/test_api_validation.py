"""What the API server itself says to good and bad CFRSolves: no operator runs here, only the CRD is installed."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ballast_api.cfrsolve import CFRSolve
from ballast_api.faults import faults
from ballast_api.schema import coretypes, extract, server
from ballast_api.schema.crd import root
from ballast_api.yamltext import dump
from e2e.support.kube import Kube, Refused

pytestmark = pytest.mark.cluster
REPOSITORY = Path(__file__).resolve().parents[2]
CRD = "cfrsolves.ballast.dev"
PLACE = ("ballast.dev", "v1alpha1", "default", "cfrsolves")
Object = dict[str, Any]
SCHEMA: Object = root(CFRSolve)


def solve(name: str = "solve", **changes: Any) -> Object:
    """A good object with members of its spec replaced, or removed if None."""
    spec = {"game": {"builtin": {"name": "leduc"}}, "stop": {"exploitability": "1e-3"}} | changes
    kept = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": "ballast.dev/v1alpha1", "kind": "CFRSolve", "metadata": {"name": name}, "spec": kept}


@pytest.fixture(scope="module")
def kube(cluster_kubeconfig: Path) -> Kube:
    """A server with the CRD as it is committed; one that the chart brought is left as it is."""
    kube = Kube(cluster_kubeconfig)
    there = kube.get("crd", CRD)
    if not there or there["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") != "Helm":
        kube.run("apply", "--server-side", "--force-conflicts", "-k", str(REPOSITORY / "crds"))
    kube.run("wait", "--for=condition=Established", "--timeout=30s", f"crd/{CRD}")
    return kube


@pytest.fixture(scope="module")
def api(kube: Kube) -> Any:
    client: Any = kubernetes.config.new_client_from_config  # without types in the package
    return kubernetes.client.CustomObjectsApi(client(str(kube.kubeconfig)))


def answer(api: Any, obj: Object) -> str:
    """The API server's refusal, or nothing. The server keeps nothing, and refuses unknown fields as kubectl asks it."""
    try:
        api.create_namespaced_custom_object(*PLACE, obj, dry_run="All", field_validation="Strict")
    except kubernetes.client.ApiException as refused:
        assert refused.status in (400, 422), refused
        return str(json.loads(refused.body or "{}")["message"])
    return ""


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
        'Unsupported value: "chess": supported values: "kuhn", "leduc", "liars-dice"',
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
    "volume of ours": (
        solve(template={"volumes": [{"name": "checkpoint", "emptyDir": {}}]}),
        "template.volumes: scratch, checkpoint, game and output are the solver's own volumes; use another name",
    ),
}


@pytest.mark.parametrize(("obj", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_with_a_sentence(api: Any, obj: Object, sentence: str) -> None:
    assert sentence in answer(api, obj)
    assert faults(obj), "the offline check lets it pass"


def test_what_kubectl_prints_names_the_field(kube: Kube) -> None:
    said = 'The CFRSolve "solve" is invalid: spec.game: Invalid value: game needs exactly one of'
    with pytest.raises(Refused, match=said):
        kube.run("apply", "--dry-run=server", "-f", "-", text=dump(solve(game={})))


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
    assert spec["algorithm"] == {"variant": "CFRPlus", "updates": "Alternating", "tieTolerance": 64}
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


def test_every_field_is_explained(kube: Kube) -> None:
    served = json.loads(kube.run("get", "--raw", "/openapi/v3/apis/ballast.dev/v1alpha1"))["components"]["schemas"][
        "dev.ballast.v1alpha1.CFRSolve"
    ]
    bare = [".".join(path) for path, schema in fields(served) if not schema.get("description") and "$ref" not in schema]
    assert [path for path in bare if path != "metadata"] == []
    said = kube.run("explain", "cfr.spec", "--recursive")
    for name in ("exploitability", "tolerations", "persistentVolumeClaim", "enum: CFR, CFRPlus, DCFR, PCFRPlus"):
        assert name in said
    assert "When the solve ends. At least one of" in kube.run("explain", "cfr.spec.stop")


def test_columns_fit_120_characters(kube: Kube, api: Any) -> None:
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
            said = kube.run("get", "cfr", name, *wide)
            print(said)
            assert all(len(line.rstrip()) <= 120 for line in said.splitlines())
            assert {"leduc", "Suspended", "1000000000", "9.712e-04", "1e-3"} <= set(said.split())
    finally:
        api.delete_namespaced_custom_object(*PLACE, name)


def test_the_game_column_names_a_file_too(kube: Kube, api: Any) -> None:
    game = {"configMapKeyRef": {"name": "games", "key": "auction.efg"}}
    api.create_namespaced_custom_object(*PLACE, solve("file", suspend=True, game=game))
    try:
        assert "auction.efg" in kube.run("get", "cfr", "file")
    finally:
        api.delete_namespaced_custom_object(*PLACE, "file")


def test_core_types_are_the_servers_own(kube: Kube) -> None:
    document = server.document("--kubeconfig", str(kube.kubeconfig))
    source, version = coretypes.extracted()["source"], document["info"]["version"]
    if source.rpartition(".")[0] != f"Kubernetes {version.rpartition('.')[0]}":
        pytest.skip(f"the extract is of {source}, the server is {version}")
    assert extract.extract(document) == coretypes.extracted()["schemas"]


def values(schema: Object) -> st.SearchStrategy[Any]:
    """Values that a schema allows, rules aside."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "pattern" in schema:
        return st.from_regex(schema["pattern"].removesuffix("$") + r"\Z").filter(lambda text: len(text) < 30)
    if schema.get("type") == "string":
        return st.text("ab-.", min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 9), 9))
    if schema.get("type") == "integer":
        return st.integers(schema.get("minimum", -9), min(schema.get("maximum", 99), 99))
    if schema.get("type") == "boolean":
        return st.booleans()
    if schema.get("type") == "array":
        keys = schema.get("x-kubernetes-list-map-keys")
        unique = (lambda item: tuple(item[key] for key in keys)) if keys else None
        return st.lists(values(schema["items"]), max_size=2, unique_by=unique)
    if "additionalProperties" in schema:
        return st.dictionaries(
            st.text("abc", min_size=1, max_size=3), values(schema["additionalProperties"]), max_size=2
        )
    members = {name: values(member) for name, member in schema.get("properties", {}).items()}
    required = set(schema.get("required", []))
    return st.fixed_dictionaries(
        {name: member for name, member in members.items() if name in required},
        optional={name: member for name, member in members.items() if name not in required},
    )


@st.composite
def specs(draw: st.DrawFn) -> Object:
    """Specs of the right shape; most keep the rules, a third have one member spoilt."""
    spec: Object = draw(values(SCHEMA["properties"]["spec"]))
    if "template" in spec and draw(st.booleans()):
        del spec["template"]  # by far the largest part
    if draw(st.integers(0, 9)) > 0:
        mend(spec)
    if draw(st.integers(0, 2)) == 0:
        spec = spoilt(draw, spec)
    return solve() | {"spec": spec}


def mend(spec: Object) -> None:
    """Keep the rules that values drawn one by one seldom keep: one source, one place, a reason to stop."""
    game = spec["game"]
    for source in sorted(game.keys() - {"sha256"})[1:]:
        del game[source]
    if game.keys() <= {"sha256", "builtin"}:
        game.pop("sha256", None)
        game.setdefault("builtin", {"name": "kuhn"})
    spec["stop"].setdefault("maxIterations", 1)
    if spec.get("checkpoint", {}).keys() & {"ephemeral", "persistentVolumeClaim"}:
        spec["checkpoint"].pop("storageClassName", None)
        spec["checkpoint"].pop("ephemeral", None)


def spoilt(draw: st.DrawFn, spec: Object) -> Object:
    """The spec with one member, at some depth, of another kind or called something else."""
    spec = copy.deepcopy(spec)
    place: Any = spec
    while isinstance(place, dict) and place:
        key = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or draw(st.booleans()):
            if draw(st.booleans()):
                place[key + "x"] = place.pop(key)
            else:
                place[key] = draw(st.sampled_from([-1, 0, 1.5, "x", "", True, [], {}, "1" * 2000]))
            break
        place = place[key]
    return spec


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(obj=specs())
def test_server_model_and_offline_check_agree(api: Any, obj: Object) -> None:
    """What the server takes, the model parses and the offline check praises; what it refuses, the check refuses."""
    said = answer(api, obj)
    assert bool(faults(obj)) == bool(said), said
    if not said:
        CFRSolve.model_validate(obj)
