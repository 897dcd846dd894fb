"""What the operator may rely on when it parses an object."""

from typing import Any

import pytest
from pydantic import ValidationError

from ballast_api.cfrsolve import CFRSolve, ExploitabilityUnit, GameName, Variant
from ballast_api.conditions import Reason, Type

SMALLEST: dict[str, Any] = {
    "apiVersion": "ballast.dev/v1alpha1",
    "kind": "CFRSolve",
    "metadata": {"name": "leduc", "namespace": "games", "managedFields": [{}]},
    "spec": {"game": {"builtin": {"name": "leduc"}}, "stop": {"exploitability": "1e-3"}},
}


def condition(**changes: Any) -> dict[str, Any]:
    return {
        "type": "Progressing",
        "status": "True",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Running",
        "message": "pod leduc-solve-x solves",
    } | changes


def test_the_smallest_object_parses_with_every_default() -> None:
    solve = CFRSolve.model_validate(SMALLEST)
    assert solve.spec.game.builtin is not None
    assert solve.spec.game.builtin.name is GameName.LEDUC
    assert solve.spec.stop.unit is ExploitabilityUnit.ABSOLUTE
    assert solve.spec.algorithm.variant is Variant.CFR_PLUS
    assert (solve.spec.checkpoint.interval_seconds, solve.spec.checkpoint.size) == (30, "1Gi")
    assert (solve.spec.suspend, solve.spec.backoff_limit, solve.spec.queue_name) == (False, 6, None)
    assert solve.status.conditions == []


@pytest.mark.parametrize("path", [("spec",), ("spec", "game"), ("spec", "stop"), ("spec", "game", "builtin")])
def test_an_unknown_field_of_the_spec_is_refused(path: tuple[str, ...]) -> None:
    inner: dict[str, Any] = {"typo": 1}
    for key in reversed(path):
        inner = {key: inner}
    with pytest.raises(ValidationError):
        CFRSolve.model_validate(SMALLEST | {"spec": SMALLEST["spec"] | inner["spec"]})


def test_a_size_may_be_a_number_of_bytes() -> None:
    spec = SMALLEST["spec"] | {"checkpoint": {"size": 1073741824}}
    assert CFRSolve.model_validate(SMALLEST | {"spec": spec}).spec.checkpoint.size == "1073741824"


@pytest.mark.parametrize("size", ["0", "0Gi", "-1Gi", "1gb", "", True, 1.5])
def test_a_size_that_is_no_amount_is_refused(size: Any) -> None:
    with pytest.raises(ValidationError):
        CFRSolve.model_validate(SMALLEST | {"spec": SMALLEST["spec"] | {"checkpoint": {"size": size}}})


def test_a_status_of_a_newer_operator_still_parses() -> None:
    stored = [
        condition(),
        condition(type="Complete", reason="FoundInAFutureRelease"),
        condition(type="example.com/Approved", reason="Approved"),
    ]
    solve = CFRSolve.model_validate(SMALLEST | {"status": {"conditions": stored, "unheardOf": 1}})
    assert [(c.type, c.reason) for c in solve.status.conditions] == [(Type.PROGRESSING, Reason.RUNNING)]


def test_a_model_cannot_be_changed_by_accident() -> None:
    with pytest.raises(ValidationError):
        CFRSolve.model_validate(SMALLEST).spec.suspend = True
