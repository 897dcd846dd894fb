"""Builders for tests: the shortest way to a solve, a Job or a pod in some state."""

from datetime import UTC, datetime
from typing import Any

from ballast_api.cfrsolve import CFRSolve
from ballast_operator.kind import Children, Situation
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Object

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"


def solve_object(name: str = "leduc", status: Object | None = None, **spec: Any) -> Object:
    """A CFRSolve as the API server would hand it out. Keyword arguments are members of the spec, camelCase."""
    base: Object = {"game": {"builtin": {"name": "leduc"}}, "stop": {"exploitability": "1e-3"}}
    return {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "CFRSolve",
        "metadata": {"name": name, "namespace": "team-a", "uid": UID, "generation": 1, "resourceVersion": "10"},
        "spec": base | spec,
        "status": status or {},
    }


def solve(name: str = "leduc", status: Object | None = None, **spec: Any) -> CFRSolve:
    return CFRSolve.model_validate(solve_object(name, status, **spec))


def child(kind: str, name: str, api_version: str = "v1", **body: Any) -> Object:
    """A child of `solve()` of some kind."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"uid-of-{name}",
            "resourceVersion": "20",
            "creationTimestamp": "2026-01-02T03:00:00Z",
            "labels": {OWNER_KIND: "CFRSolve", OWNER_NAME: "leduc"},
            "ownerReferences": [{"uid": UID, "controller": True, "kind": "CFRSolve", "name": "leduc"}],
        },
    } | body


def job(condition: str | None = None, reason: str = "", **status: Any) -> Object:
    """The solve's Job; condition: the one that is True."""
    conditions = [{"type": condition, "status": "True", "reason": reason}] if condition else []
    spec = {"template": {"spec": {"containers": [{"name": "solver", "image": "old"}]}}}
    return child("Job", "leduc-solve", "batch/v1", spec=spec, status={"conditions": conditions} | status)


def pod(
    phase: str = "Running",
    *,
    name: str = "leduc-solve-x",
    exit_code: int | None = None,
    said: str = "",
    reason: str = "Completed",
    waiting: Object | None = None,
    conditions: list[Object] | None = None,
    deleted: bool = False,
) -> Object:
    """A pod of the Job; exit_code and said: how its container ended and its termination message."""
    state: Object = {}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "message": said, "reason": reason}}
    elif waiting:
        state = {"waiting": waiting}
    made = child("Pod", name)
    if deleted:
        made["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:00Z"
    made["spec"] = {"nodeName": "node1", "containers": [{"name": "solver", "image": "ballast/cfr:1"}]}
    made["status"] = {
        "phase": phase,
        "podIP": "10.0.0.9",
        "startTime": "2026-01-02T03:00:05Z",
        "conditions": conditions or [],
        "containerStatuses": [{"name": "solver", "state": state}],
    }
    return made


def situation(solved: CFRSolve | None = None, *children: Object, **rest: Any) -> Situation[CFRSolve]:
    """What `observe` is asked about."""
    model = solved or solve()
    return Situation(
        model=model,
        children=Children(children),
        previous=rest.pop("previous", {}),
        generation=rest.pop("generation", 1),
        now=rest.pop("now", NOW),
        **rest,
    )
