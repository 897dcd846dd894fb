"""Replicas that follow the load: the decision of mode Operator, and what other autoscalers say of theirs."""

from dataclasses import dataclass

from ballast_api.autoscaling import Autoscaling, Mode
from ballast_api.conditions import Reason, Type
from ballast_operator.kind import Notice
from ballast_operator.objects import Object, controller_uid, describe, format_time
from ballast_operator.observe.conditions import Answer
from ballast_operator.observe.moeserving.load import Load, Memory, measure, propose, text
from ballast_operator.observe.moeserving.view import View
from ballast_operator.observe.pods import condition
from ballast_operator.observe.scaling import decide

PATIENCE_SECONDS = 12.0  # of engines that do not say their metrics, before that is told


@dataclass(frozen=True)
class Outcome:
    """What autoscaling comes to. replicas: to be written, or None; polls: it needs numbers again soon; settled: nothing
    will change without an event."""

    answer: Answer | None = None
    status: Object | None = None
    replicas: int | None = None
    notice: Notice | None = None
    memory: Memory | None = None
    polls: bool = False
    settled: bool = True


def autoscale(view: View) -> Outcome:
    """The outcome for this look."""
    scaling = view.serving.spec.autoscaling
    rivals = _rivals(view)
    if scaling is None:
        return _external(view, rivals)
    if rivals:
        message = f"{describe(rivals[0])} scales this object too; delete it, or remove spec.autoscaling"
        answer = Answer(Type.AUTOSCALING, False, Reason.AUTOSCALER_CONFLICT, message)
        return Outcome(answer, view.previous.get("autoscaling"), polls=True)
    if scaling.mode is Mode.OPERATOR:
        return _ours(view, scaling)
    return _delegated(view, scaling.mode)


def _ours(view: View, scaling: Autoscaling) -> Outcome:
    """Measure, propose, decide."""
    load, memory = measure(view, scaling)
    now = view.now.timestamp()
    idle = now - memory.active >= scaling.scale_to_zero_after_seconds
    if view.wanted == 0 or (scaling.min_replicas == 0 and idle and load.complete):
        wakes = load.held > 0 or scaling.min_replicas > 0
        replicas = max(scaling.min_replicas, 1) if wakes else 0
        return _outcome(view, scaling, load, memory.scaled(replicas - view.wanted, now), replicas)
    bounded = min(max(view.wanted, load.limits.fewest), load.limits.most)
    proposed = propose(view, load)
    if proposed is None or bounded != view.wanted:  # limits hold at once, and whatever is measured
        return _outcome(view, scaling, load, memory, bounded)
    replicas, history = decide(proposed, view.wanted, load.limits, memory.history, now)
    return _outcome(view, scaling, load, memory.with_history(history), replicas)


def _outcome(view: View, scaling: Autoscaling, load: Load, memory: Memory, desired: int) -> Outcome:
    changed = desired != view.wanted
    before = view.previous.get("autoscaling") or {}
    status: Object = {
        "desiredReplicas": desired,
        "lastScaleTime": format_time(view.now) if changed else before.get("lastScaleTime"),
        "metrics": [each.status() for each in load.metrics],
    }
    if memory.blind is not None and view.now.timestamp() - memory.blind >= PATIENCE_SECONDS:
        message = f"no metrics of {load.silent}; replicas are not lowered until they answer"
        answer = Answer(Type.AUTOSCALING, False, Reason.METRICS_UNAVAILABLE, message)
    else:
        followed = ", ".join(f"{metric.type.value} ({text(metric)} a replica)" for metric in scaling.measured)
        answer = Answer(Type.AUTOSCALING, True, Reason.FOLLOWING_LOAD, f"replicas follow {followed}")
    return Outcome(
        answer,
        {name: value for name, value in status.items() if value is not None},
        desired if changed else None,
        _notice(view, scaling, load, desired) if changed else None,
        memory,
        polls=True,
    )


def _notice(view: View, scaling: Autoscaling, load: Load, desired: int) -> Notice:
    if desired == 0:
        seconds = scaling.scale_to_zero_after_seconds
        return Notice("ScaledToZero", f"from {view.wanted} to 0 replicas: no request for {seconds} s")
    word = "ScaledUp" if desired > view.wanted else "ScaledDown"
    why = load.words()
    if view.wanted == 0 and load.held:
        why = f"{load.held} requests are held"
    elif not scaling.min_replicas <= view.wanted <= scaling.max_replicas:
        why = f"minReplicas is {scaling.min_replicas}, maxReplicas {scaling.max_replicas}"
    return Notice(word, f"from {view.wanted} to {desired} replicas: {why}")


def _delegated(view: View, mode: Mode) -> Outcome:
    """What the autoscaler made for this object says of itself."""
    kind = "HorizontalPodAutoscaler" if mode is Mode.HPA else "ScaledObject"
    child = view.children.get(kind, view.engine.name)
    if child is None:
        answer = Answer(Type.AUTOSCALING, None, Reason.DEPENDENCY_MISSING, f"there is no {kind} yet")
        return Outcome(answer, settled=False)
    if mode is Mode.HPA and view.wanted == 0:
        return Outcome(_off(child))
    found = condition(child, "ScalingActive" if mode is Mode.HPA else "Ready")
    if found and found["status"] == "False":
        message = f"{describe(child)}: {found.get('reason')}: {found.get('message', '')}"
        return Outcome(Answer(Type.AUTOSCALING, False, Reason.METRICS_UNAVAILABLE, message))
    return Outcome(Answer(Type.AUTOSCALING, True, Reason.DELEGATED, f"{describe(child)} decides"))


def _external(view: View, rivals: list[Object]) -> Outcome:
    """No autoscaler of ours; one of somebody else's may still be of no use, or point at the wrong object."""
    child = [hpa for hpa in rivals if _target(hpa) != ("MoEServing", view.serving.metadata.name)]
    if child:
        message = (
            f"{describe(child[0])} scales {'/'.join(_target(child[0]))}, whose replicas are this object's; point it at "
            f"MoEServing/{view.serving.metadata.name}"
        )
        return Outcome(Answer(Type.AUTOSCALING, False, Reason.AUTOSCALER_CONFLICT, message), settled=False)
    if view.wanted == 0 and (hpas := [hpa for hpa in rivals if hpa["kind"] == "HorizontalPodAutoscaler"]):
        return Outcome(_off(hpas[0]), settled=False)
    if rivals:
        return Outcome(Answer(Type.AUTOSCALING, True, Reason.DELEGATED, f"{describe(rivals[0])} decides"))
    return Outcome(settled=view.wanted > 0)


def _off(hpa: Object) -> Answer:
    message = f"{describe(hpa)} does nothing while spec.replicas is 0; scale to 1 or more, and it goes on"
    return Answer(Type.AUTOSCALING, False, Reason.AUTOSCALER_OFF, message)


def _rivals(view: View) -> list[Object]:
    """Autoscalers of somebody else's over the object or over the child that runs its engines."""
    name = view.serving.metadata.name
    runs = "LeaderWorkerSet" if view.grouped else "Deployment"
    ours = {("MoEServing", name), (runs, view.engine.name)}
    found = [obj for obj in view.situation.around if _target(obj) in ours]
    return [obj for obj in found if controller_uid(obj) != view.serving.metadata.uid and not _of_keda(view, obj)]


def _of_keda(view: View, obj: Object) -> bool:
    """KEDA makes an HPA of its own for the ScaledObject that we made."""
    owners = obj["metadata"].get("ownerReferences") or []
    return any(o.get("kind") == "ScaledObject" and o.get("name") == view.engine.name for o in owners)


def _target(obj: Object) -> tuple[str, str]:
    ref = obj.get("spec", {}).get("scaleTargetRef", {})
    return str(ref.get("kind", "Deployment")), str(ref.get("name", ""))
