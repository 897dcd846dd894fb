"""Offline answers: what is refused, in which words."""

from copy import deepcopy
from typing import Any

import pytest

from ballast_api.cfrsolve import CFRSolve
from ballast_api.faults import faults
from ballast_api.test_models import SMALLEST


def changed(path: str, value: Any) -> dict[str, Any]:
    """The smallest object with one member set, or removed if value is None."""
    obj = deepcopy(SMALLEST)
    *way, last = path.split(".")
    place = obj
    for key in way:
        place = place.setdefault(key, {})
    place[last] = value
    if value is None:
        del place[last]
    return obj


def test_a_good_object_has_no_fault() -> None:
    assert faults(SMALLEST) == []


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("spec", None, "spec is required; add it"),
        ("spec.gmae", {}, "spec.gmae is not a field; did you mean game?"),
        ("spec.game", {}, "spec.game: game needs exactly one of builtin, configMapKeyRef or persistentVolumeClaim"),
        ("spec.stop", {}, "spec.stop: stop needs exploitability, maxIterations or maxSeconds"),
        ("spec.stop.exploitability", "0", "stop.exploitability must be a decimal above 0 in quotes"),
        ("spec.stop.exploitability", 1e-3, "spec.stop.exploitability must be a string, not 0.001"),
        ("spec.stop.maxIterations", -1, "spec.stop.maxIterations is -1, but must be at least 1"),
        ("spec.backoffLimit", True, "spec.backoffLimit must be a whole number, not True"),
        (
            "spec.game.builtin.name",
            "ledux",
            "is 'ledux', which is none of battleship, dark-hex, goofspiel, kuhn, leduc, liars-dice, oshi-zumo",
        ),
        ("spec.game.configMapKeyRef", {"name": "a", "key": "b"}, "game takes exactly one of"),
        ("spec.game.sha256", "0" * 64, "game.sha256 is the digest of a file, and a builtin game has none"),
        ("spec.output.persistentVolumeClaim", {"claimName": "a", "path": "a/../../b"}, "remove the leading slash"),
        ("spec.template.tolerations", [{"effct": "NoSchedule"}], "tolerations[0].effct is not a field; did you mean"),
        ("spec.template.labels", {"ballast.dev/x": "1"}, "keys that begin with ballast.dev/ are the operator's own"),
        ("spec.template.volumes", [{"name": "game", "emptyDir": {}}], "are the solver's own; use another name"),
        ("spec.template.volumeMounts", [{"name": "v", "mountPath": "/ballast/x"}], "mount the volume elsewhere"),
        ("metadata.name", "a" * 53, "metadata.name has 53 characters, but may have at most 52"),
        ("metadata.name", "a.b", "metadata.name of a CFRSolve takes no dots"),
        ("metadata.name", "Leduc", "may have only lower-case letters"),
        ("kind", "CFRSolv", "kind CFRSolv of ballast.dev/v1alpha1 is not known"),
    ],
)
def test_a_fault_is_named_with_its_way_out(path: str, value: Any, sentence: str) -> None:
    (found,) = faults(changed(path, value))
    assert sentence in found


def test_the_status_is_the_operators_and_is_not_judged() -> None:
    assert faults(SMALLEST | {"status": {"phase": "whatever", "x": 1}}) == []


def test_what_has_no_fault_parses() -> None:
    whole = changed("spec.template", {"resources": {"limits": {"cpu": 2}}, "env": [{"name": "A", "value": "b"}]})
    assert faults(whole) == []
    assert CFRSolve.model_validate(whole).spec.template.env == [{"name": "A", "value": "b"}]
