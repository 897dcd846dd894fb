"""The status of a serving, put together: counts, what is wrong with pods, conditions, and the autoscaler's decision."""

from ballast_api.conditions import Reason, Type
from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.engine import CONTAINER, served_name
from ballast_operator.desired.moeserving.installation import Installation
from ballast_operator.desired.moeserving.network import url
from ballast_operator.kind import Observation, Situation
from ballast_operator.objects import Object
from ballast_operator.observe.conditions import Answer, merge, shorten
from ballast_operator.observe.moeserving import vamp
from ballast_operator.observe.moeserving.autoscaler import Outcome, autoscale
from ballast_operator.observe.moeserving.checks import Blocked, blocked
from ballast_operator.observe.moeserving.problems import Problem, problems, unplaced
from ballast_operator.observe.moeserving.seen import Seen
from ballast_operator.observe.moeserving.view import View, ready
from ballast_operator.observe.pods import condition, phase, started

LOOK_AGAIN_SECONDS = 10.0
SCALING_SECONDS = 5.0
MOST_PROBLEMS = 5


def observe(situation: Situation[MoEServing], installation: Installation) -> Observation:
    """Status, next look, and what to write to /scale."""
    before = situation.previous.get("conditions", [])
    if situation.model is None:
        answer = Answer(Type.READY, False, Reason.INVALID_SPEC, "; ".join(situation.faults))
        conditions = merge(before, [answer], situation.generation, situation.now)
        status = {**situation.previous, "observedGeneration": situation.generation, "conditions": conditions}
        return Observation(status)
    view = View(situation.model, situation, installation)
    scaling, stuck = autoscale(view), blocked(view)
    answers = [readiness(view, stuck, scaling), availability(view, scaling), progress(view, stuck), *vamp.answers(view)]
    if scaling.answer:
        answers.append(scaling.answer)
    asked = {answer.type.value for answer in answers}
    before = [c for c in before if c["type"] in asked or c["type"] not in (Type.AUTOSCALING, *vamp.TYPES)]
    status = counts(view) | {
        "problems": [_problem(found) for found in problems(view)[:MOST_PROBLEMS]],
        "autoscaling": scaling.status,
        "conditions": merge(before, answers, situation.generation, situation.now),
        "observedGeneration": situation.generation,
    }
    stored = {name: value for name, value in status.items() if value not in (None, [])}
    return Observation(
        stored,
        _again(view, scaling, stuck),
        replicas=scaling.replicas,
        scaled=scaling.notice,
        remember=Seen(scaling.memory, unplaced(view)),
    )


def counts(view: View) -> Object:
    """What columns and autoscalers read."""
    return {
        "url": url(view.serving),
        "model": served_name(view.serving),
        "image": _image(view),
        "revision": view.revision,
        "replicas": view.total,
        "updatedReplicas": view.updated,
        "availableReplicas": view.available,
        "heldRequests": view.held or None,
        "selector": view.engine.selector_text,
    }


def readiness(view: View, stuck: Blocked | None, scaling: Outcome) -> Answer:
    """Whether all that was asked for serves. Pods of an older revision do not count, however well they are."""
    told = f"{view.available} of {view.wanted} replicas serve"
    if stuck:
        return Answer(Type.READY, False, stuck.reason, f"{told}; {stuck.message}")
    if not view.rolling and view.available == view.wanted:
        if view.routers_available == 0:
            return Answer(Type.READY, False, Reason.ROUTER_NOT_READY, f"{told}; no pod of the router is ready")
        if view.router_rolling:
            return Answer(Type.READY, False, Reason.ROLLING_OUT, f"{told}; the router is being rolled out")
        if view.wanted == 0:
            return _at_zero(view, scaling)
        return Answer(Type.READY, True, Reason.ALL_REPLICAS_READY, f"{told}, {view.updated} of the present revision")
    running = [pod for pod in view.engines if phase(pod) == "Running" and not ready(pod) and not _ending(pod)]
    if running:
        return Answer(Type.READY, False, *_unready(view, running, told))
    if view.rolling and view.available >= view.wanted:
        return Answer(Type.READY, False, Reason.ROLLING_OUT, f"{told}, {view.updated} of the present revision")
    return Answer(Type.READY, False, Reason.PODS_NOT_READY, f"{told}; pods are being started or stopped")


def _unready(view: View, running: list[Object], told: str) -> tuple[Reason, str]:
    """Why engines that run take no requests."""
    if waits := [f"{_name(pod)} waits for {', '.join(ranks)}" for pod in running if (ranks := view.missing(pod))]:
        return Reason.PODS_NOT_READY, f"{told}; {'; '.join(waits[:3])}"
    before = condition({"status": view.previous}, Type.READY)
    if before and before["reason"] == Reason.MODEL_LOADING:  # loaded by now, and about to be ready
        loading = sorted(map(_name, running))
    else:
        loading = sorted(_name(pod) for pod in running if not started(pod))
    if loading:
        return Reason.MODEL_LOADING, f"{told}; {', '.join(loading[:3])} is loading the model"
    silent = ", ".join(sorted(map(_name, running))[:3])
    return Reason.PODS_NOT_READY, f"{told}; {silent} has loaded the model, and does not answer"


def availability(view: View, scaling: Outcome) -> Answer:
    """Whether a request is answered: at once, or after a wait in the router."""
    if view.routers_available == 0:
        return Answer(Type.AVAILABLE, False, Reason.ROUTER_NOT_READY, "no pod of the router is ready")
    if view.available >= max(view.wanted, 1):
        return Answer(Type.AVAILABLE, True, Reason.ALL_REPLICAS_READY, "requests are answered")
    if view.available > 0:
        return Answer(Type.AVAILABLE, True, Reason.SOME_REPLICAS_READY, "requests are answered by some of the replicas")
    limit = view.serving.spec.router.hold.timeout_seconds
    if view.wanted == 0:
        wakes = _wakes(view, scaling)
        message = "the next request starts a replica and waits for it" if wakes else f"requests get 503 after {limit} s"
        return Answer(Type.AVAILABLE, wakes, Reason.SCALED_TO_ZERO, message)
    return Answer(Type.AVAILABLE, False, Reason.HOLDING, f"no replica serves; requests wait for up to {limit} s")


def progress(view: View, stuck: Blocked | None) -> Answer:
    """Whether a rollout goes on."""
    told = f"{view.updated} of {view.wanted} replicas are of revision {view.revision}"
    if view.router_rolling:
        told = f"{told}; the router is being rolled out"
    elif not view.rolling:
        return Answer(Type.PROGRESSING, False, Reason.ROLLED_OUT, told)
    if stuck:
        return Answer(Type.PROGRESSING, False, Reason.ROLLOUT_BLOCKED, f"{told}; {stuck.message}")
    return Answer(Type.PROGRESSING, True, Reason.ROLLING_OUT, told)


def _at_zero(view: View, scaling: Outcome) -> Answer:
    if _wakes(view, scaling):
        return Answer(Type.READY, True, Reason.SCALED_TO_ZERO, "nobody asks; the next request starts a replica")
    message = "spec.replicas is 0; scale it up, or set autoscaling.minReplicas to 0 to have that done by requests"
    if scaling.answer and scaling.answer.status is not True:
        message = f"spec.replicas is 0, and no autoscaler changes that: {scaling.answer.message}"
    return Answer(Type.READY, False, Reason.SCALED_TO_ZERO, message)


def _wakes(view: View, scaling: Outcome) -> bool:
    """Whether an autoscaler brings a serving back from zero: one that may, and that nothing keeps from it."""
    asked = view.serving.spec.autoscaling
    may = asked is not None and asked.min_replicas == 0
    return may and scaling.answer is not None and scaling.answer.status is True


def _image(view: View) -> str | None:
    """The engine's image as it was pinned."""
    kept = view.children.get("ControllerRevision", view.engine.names.child(f"engine-{view.revision}"))
    if kept is None:
        return None
    containers = kept["data"]["template"]["spec"]["containers"]
    return next((str(c["image"]) for c in containers if c["name"] == CONTAINER), None)


def _problem(found: Problem) -> Object:
    return {"pod": found.pod, "reason": found.reason.value, "message": shorten(found.message)}


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def _ending(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _again(view: View, scaling: Outcome, stuck: Blocked | None) -> float | None:
    """Soon while numbers decide; now and then while something is told by Events alone, or by nobody; else never."""
    if scaling.polls:
        return SCALING_SECONDS
    settled = not stuck and not view.rolling and view.available == view.wanted and scaling.settled
    if settled and view.serving.spec.vamp and view.available:
        return vamp.LOOK_SECONDS  # an engine gives up VAMP, or takes it up again, without an event
    return None if settled else LOOK_AGAIN_SECONDS
