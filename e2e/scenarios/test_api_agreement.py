"""The API server, the models and the offline check agree on whatever is put before them."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ballast_api.cfrsolve import CFRSolve
from ballast_api.faults import faults
from e2e.support.api_server import SCHEMA, Object, answer, solve

pytestmark = pytest.mark.cluster


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
