"""What can keep a serving from being ready, as a list of small questions in the order in which a person would ask them.

Each answers None, or why it is not ready. `kubectl ballast why` prints the first answer. A new way to be stuck is one
more function here and its test.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ballast_api.autoscaling import Mode
from ballast_api.conditions import Reason
from ballast_operator.desired.moeserving.installation import HTTP_ROUTE, LEADER_WORKER_SET, SCALED_OBJECT
from ballast_operator.objects import Object, describe
from ballast_operator.observe.moeserving.ask import silent
from ballast_operator.observe.moeserving.problems import problems
from ballast_operator.observe.moeserving.view import View
from ballast_operator.observe.pods import condition


@dataclass(frozen=True)
class Blocked:
    """Why a serving is not ready. pod: the one that it is about, if it is about one."""

    reason: Reason
    message: str
    pod: str | None = None


Check = Callable[[View], Blocked | None]


def cluster_takes_children(view: View) -> Blocked | None:
    """What the API server refused, in its own words."""
    trouble = view.situation.trouble
    return Blocked(Reason(trouble.reason), trouble.message) if trouble else None


def cluster_has_the_kinds(view: View) -> Blocked | None:
    """Kinds of other projects that the spec needs."""
    spec = view.serving.spec
    asked = [
        (spec.parallelism.nodes > 1, LEADER_WORKER_SET, "parallelism.nodes", "set parallelism.nodes to 1"),
        (spec.access.gateway_ref is not None, HTTP_ROUTE, "access.gatewayRef", "remove access.gatewayRef"),
        (
            spec.autoscaling is not None and spec.autoscaling.mode is Mode.KEDA,
            SCALED_OBJECT,
            "autoscaling.mode KEDA",
            "use mode Operator",
        ),
    ]
    for wanted, kind, name, way_out in asked:
        if wanted and kind not in view.installation.optional:
            message = f"{name} needs the kind {kind}, which this cluster has not; install it, or {way_out}"
            return Blocked(Reason.DEPENDENCY_MISSING, message)
    return None


def needs_are_met(view: View) -> Blocked | None:
    """Objects of the user's that the spec names and that are not there."""
    if not view.situation.missing:
        return None
    lack = view.situation.missing[0].missing_from(view.serving.metadata.namespace)
    return Blocked(Reason.DEPENDENCY_MISSING, lack)


def volume_is_bound(view: View) -> Blocked | None:
    """The cache's claim, if nothing can bind it. One that waits for its first pod is not stuck."""
    claim = view.children.get("PersistentVolumeClaim", view.engine.names.child("cache"))
    if claim is None or claim.get("status", {}).get("phase") != "Pending" or claim["spec"].get("storageClassName"):
        return None
    return Blocked(
        Reason.NO_DEFAULT_STORAGE_CLASS,
        f"{describe(claim)} has no storage class and the cluster has no default one; mark one as default, or delete "
        "the claim and set cache.storageClassName",
    )


def pods_are_allowed(view: View) -> Blocked | None:
    """What makes pods that the API server refuses: a policy, a quota, an account that is not there."""
    for child in (view.workload, view.router_deployment):
        found = condition(child, "ReplicaFailure") if child else None
        if child and found and found["status"] == "True":
            return _refused(child, str(found.get("message", "")))
    said, maker = view.situation.complaint or "", silent(view.children)
    if maker and maker["kind"] == "StatefulSet" and said.startswith("FailedCreate"):
        return _refused(maker, said)
    return None


def pods_are_well(view: View) -> Blocked | None:
    """The first pod that cannot serve; the others are in status.problems. One that is about to be replaced is in
    nobody's way: what was wrong may be mended already."""
    found = [problem for problem in problems(view) if problem.current]
    if not found:
        return None
    first = found[0]
    more = f" ({len(found) - 1} more pods have a problem)" if len(found) > 1 else ""
    return Blocked(first.reason, f"pod {first.pod}: {first.message}{more}", first.pod)


CHECKS: list[Check] = [
    cluster_takes_children,
    cluster_has_the_kinds,
    needs_are_met,
    volume_is_bound,
    pods_are_allowed,
    pods_are_well,
]


def blocked(view: View) -> Blocked | None:
    """The first thing that stands in the way, or None."""
    return next((answer for check in CHECKS if (answer := check(view))), None)


def _refused(child: Object, message: str) -> Blocked:
    if "exceeded quota" in message:
        return Blocked(Reason.QUOTA_EXCEEDED, message)
    reason = Reason.FORBIDDEN if "forbidden" in message else Reason.INVALID_SPEC
    return Blocked(reason, f"{describe(child)} cannot make a pod: {message}")
