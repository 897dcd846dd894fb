"""The status of a solve, put together: an end if there is one, else suspended, else blocked, else on its way."""

from datetime import timedelta
from typing import Any

from ballast_api.cfrsolve import CFRSolve
from ballast_api.conditions import Reason, Type
from ballast_operator.kind import Observation, Situation
from ballast_operator.objects import Object, format_time, parse_time
from ballast_operator.observe.cfrsolve.checks import blocked
from ballast_operator.observe.cfrsolve.ends import End, end
from ballast_operator.observe.cfrsolve.probe import POLL_SECONDS
from ballast_operator.observe.cfrsolve.view import View
from ballast_operator.observe.conditions import Answer, is_true, merge
from ballast_operator.observe.pods import phase

LOOK_AGAIN_SECONDS = 10.0
FIRST_LOOK_SECONDS = 2.0  # for a pod that should be there any moment


def observe(situation: Situation[CFRSolve]) -> Observation:
    """Status and next look. A solve that has ended stays as it ended."""
    before = situation.previous.get("conditions", [])
    if situation.model is None:
        message = "; ".join(situation.faults)
        return _store(situation, {}, [Answer(Type.PROGRESSING, False, Reason.INVALID_SPEC, message)], None)
    view = View.of(situation, situation.model)
    if is_true(before, Type.COMPLETE) or is_true(before, Type.FAILED):
        return _finished(view)
    if over := end(view):
        return _ended(situation, view, over)
    if view.solve.spec.suspend:
        return _suspended(situation, view)
    resumed = [Answer(Type.SUSPENDED, False, Reason.RESUMED, "suspend is false")] if _was_suspended(before) else []
    if stuck := blocked(view):
        state = "Queued" if stuck.reason is Reason.QUEUED else "Pending"
        answer = Answer(Type.PROGRESSING, stuck.waits, stuck.reason, stuck.message)
        return _store(situation, {"phase": state}, [answer, *resumed], LOOK_AGAIN_SECONDS)
    return _under_way(situation, view, resumed)


def _under_way(situation: Situation[CFRSolve], view: View, resumed: list[Answer]) -> Observation:
    pod = view.running
    if pod is None and view.succeeded:
        answer = Answer(Type.PROGRESSING, True, Reason.RUNNING, "the solver has finished; the Job is about to")
        return _store(situation, {}, [answer, *resumed], LOOK_AGAIN_SECONDS)
    if pod is None or phase(pod) != "Running":
        what = f"pod {pod['metadata']['name']} is starting" if pod else "waiting for the Job's pod"
        answer = Answer(Type.PROGRESSING, True, Reason.STARTING, what)
        soon = POLL_SECONDS if pod else FIRST_LOOK_SECONDS
        return _store(situation, {"phase": "Pending"}, [answer, *resumed], soon)
    told = _progress(view.reported)
    message = f"pod {pod['metadata']['name']} on node {pod['spec'].get('nodeName')} is solving"
    changed = {"phase": "Running", "startTime": view.previous.get("startTime") or pod["status"].get("startTime")} | told
    answer = Answer(Type.PROGRESSING, True, Reason.RUNNING, message)
    return _store(situation, changed, [answer, *resumed], POLL_SECONDS)


def _suspended(situation: Situation[CFRSolve], view: View) -> Observation:
    """Suspended is True when nothing runs any more, not when it was asked for."""
    if view.job is not None or view.running is not None:
        message = "the pod is writing its checkpoint and ending"
        answers = [
            Answer(Type.PROGRESSING, False, Reason.SUSPENDING, message),
            Answer(Type.SUSPENDED, False, Reason.SUSPENDING, message),
        ]
        # the Job goes after its pods, so this is the last look at what the pod said
        last_words = _checkpointed(view) if view.running is None else {}
        return _store(situation, {"phase": "Suspending"} | last_words, answers, LOOK_AGAIN_SECONDS)
    message = "suspend is true; set it to false to go on from the checkpoint"
    if view.trouble:
        message = f"{message}; {view.trouble.message}"
    answers = [
        Answer(Type.PROGRESSING, False, Reason.SUSPENDED, message),
        Answer(Type.SUSPENDED, True, Reason.SUSPENDED, message),
    ]
    stopped = {"phase": "Suspended", "iterationsPerSecond": None, "etaSeconds": None}
    return _store(situation, stopped | _checkpointed(view), answers, None)


def _checkpointed(view: View) -> Object:
    """The iteration that the last pod said it left in its checkpoint."""
    finished = view.ending(view.last_ended)
    iteration = finished.said.get("iteration") if finished else None
    return {"iteration": iteration} if isinstance(iteration, int) else {}


def _finished(view: View) -> Observation:
    """Nothing changes any more, but the object may have a time to go."""
    ttl, ended = view.solve.spec.ttl_seconds_after_finished, view.previous.get("completionTime")
    if ttl is None or ended is None:
        return Observation(view.previous)
    left = (parse_time(ended) + timedelta(seconds=ttl) - view.now).total_seconds()
    return Observation(view.previous, again=max(0.0, left), expired=left <= 0)


def _ended(situation: Situation[CFRSolve], view: View, over: End) -> Observation:
    """The end is the only condition that is left: what led there is history, and `kubectl describe` has to fit."""
    final = merge([], [Answer(over.type, True, over.reason, over.message)], situation.generation, situation.now)
    kept = {**situation.previous, **_numbers_at_the_end(view, over)}
    status = {name: value for name, value in kept.items() if value is not None}
    return Observation(status | {"conditions": final, "observedGeneration": situation.generation}, again=0.0)


def _numbers_at_the_end(view: View, over: End) -> Object:
    changed: Object = {
        "phase": over.type.value,
        "completionTime": format_time(view.now),
        "etaSeconds": None,
        "iterationsPerSecond": None,
    }
    if over.type is Type.COMPLETE:
        changed |= _progress(over.summary)
        changed |= {"etaSeconds": None, "iterationsPerSecond": None, "result": over.result or None}
        pod = view.succeeded
        if "startTime" not in view.previous and pod:
            changed["startTime"] = pod["status"].get("startTime")
    return changed


def _progress(told: Any) -> Object:
    """Fields of the status that a solver's report has something for."""
    if not isinstance(told, dict):
        return {}
    formats = {"exploitability": "{:.3e}", "value": "{:.6g}", "iterationsPerSecond": "{:.4g}"}
    found: Object = {
        name: text.format(told[name]) for name, text in formats.items() if isinstance(told.get(name), int | float)
    }
    if found.get("iterationsPerSecond") and told["iterationsPerSecond"] >= 1000:
        found["iterationsPerSecond"] = str(round(told["iterationsPerSecond"]))
    for name in ("iteration", "instances", "instancesDone"):
        if isinstance(told.get(name), int):
            found[name] = told[name]
    if "etaSeconds" in told:
        eta = told["etaSeconds"]
        found["etaSeconds"] = round(eta) if isinstance(eta, int | float) else None
    return found


def _was_suspended(conditions: list[Object]) -> bool:
    return any(condition["type"] == Type.SUSPENDED.value for condition in conditions)


def _store(situation: Situation[CFRSolve], changed: Object, answers: list[Answer], again: float | None) -> Observation:
    """The previous status with what is new; a field set to None goes."""
    status = {**situation.previous, **changed, "observedGeneration": situation.generation}
    before = situation.previous.get("conditions", [])
    status["conditions"] = merge(before, answers, situation.generation, situation.now)
    return Observation({name: value for name, value in status.items() if value is not None}, again)
