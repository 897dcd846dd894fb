"""What is wrong with single pods, as a list of small questions in the order in which a person would ask them.

A pod that restarted because its container failed stays a problem until it is ready again: between two crashes it looks
as if it were just loading. Of a group of nodes both pods are made anew then, with nothing in them that tells of it, so
what was told before is told again until their leader is ready.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ballast_api.conditions import Reason
from ballast_operator.desired.moeserving.parts import ROUTER
from ballast_operator.objects import Object
from ballast_operator.observe.moeserving.ask import silent
from ballast_operator.observe.moeserving.view import View, ready
from ballast_operator.observe.pods import Ending, condition, last_ending, waiting

PLACING_SECONDS = 5.0  # that the scheduler gets for a pod once there is room for it
_SAID = (
    Reason.MODEL_NOT_FOUND,
    Reason.INVALID_ENGINE_ARGS,
    Reason.OUT_OF_MEMORY,
    Reason.STARTUP_TIMEOUT,
    Reason.ENGINE_FAILED,
)


# How the scheduler words it that a claim, and not a lack of processors or memory, keeps a pod from its node.
_OF_CLAIMS = ("resourceclaim", "cannot allocate all claims", "device class")


@dataclass(frozen=True)
class Problem:
    """Why one pod does not serve. current: it is of the revision that is asked for, and not about to be replaced."""

    pod: str
    reason: Reason
    message: str
    current: bool = True


Question = Callable[[View, Object], tuple[Reason, str] | None]


def not_scheduled(view: View, pod: Object) -> tuple[Reason, str] | None:
    """Why no node takes the pod, in the scheduler's own words. One for which an old pod is about to make room waits."""
    found = _unscheduled(pod)
    if found is None or _another_gives_way(view, pod):
        return None
    message = str(found.get("message", ""))
    reason = Reason.INSUFFICIENT_CAPACITY
    if any(words in message.lower() for words in _OF_CLAIMS):
        reason = Reason.CLAIM_PENDING
    elif "persistentvolumeclaim" in message.lower():
        reason = Reason.VOLUME_PENDING
    return reason, f"no node fits it: {message}"


def image_not_pulled(_: View, pod: Object) -> tuple[Reason, str] | None:
    found = waiting(pod)
    if found is None or "Image" not in found["reason"]:
        return None
    message = str(found.get("message", ""))  # it names the image, which may be that of the model
    image = "" if "image" in message else f"image {pod['spec']['containers'][0]['image']}: "
    return Reason.IMAGE_PULL_FAILED, f"{image}{found['reason']}: {message}"


def failed(view: View, pod: Object) -> tuple[Reason, str] | None:
    """How its container ended, if it did and has not been ready since."""
    end = last_ending(pod, view.container(pod))
    if end is None or ready(pod) or (end.exit_code == 0 and not _crashing(pod)):
        return None
    return _why(end), _how(pod, end)


def not_created(_: View, pod: Object) -> tuple[Reason, str] | None:
    found = waiting(pod)
    if found is None:
        return None
    return Reason.CONTAINER_CONFIG_INVALID, f"{found['reason']}: {found.get('message', '')}"


def not_mounted(view: View, pod: Object) -> tuple[Reason, str] | None:
    """A pod on its node that cannot start, in the kubelet's words. What the scheduler said before is over."""
    said = view.situation.complaint
    if said is None or said.startswith("FailedScheduling") or pod is not silent(view.children):
        return None
    claimed = "claim" in said.lower() and bool(pod["spec"].get("resourceClaims"))
    return Reason.CLAIM_PENDING if claimed else Reason.VOLUME_PENDING, f"it cannot start: {said}"


QUESTIONS: list[Question] = [not_scheduled, image_not_pulled, failed, not_created, not_mounted]


def problems(view: View) -> list[Problem]:
    """One for each pod that has one: engines first, and of these the revision that is asked for."""
    found = []
    for pod in sorted(view.pods, key=lambda pod: (view.role(pod) == ROUTER, not view.is_current(pod))):
        if pod["metadata"].get("deletionTimestamp"):
            continue
        answer = next((answer for ask in QUESTIONS if (answer := ask(view, pod))), None)
        if answer:
            found.append(Problem(pod["metadata"]["name"], *answer, view.is_current(pod)))
    return [*found, *_before(view, {problem.pod for problem in found})]


def _before(view: View, told: set[str]) -> list[Problem]:
    """How pods of this revision failed whose group was made anew since, and is not ready yet. told: those that have a
    problem now, which counts more."""
    if not view.grouped or view.previous.get("revision") != view.revision:
        return []
    serve = {pod["metadata"]["name"] for pod in view.engines if ready(pod)}
    waited_for = {f"{view.engine.name}-{index}" for index in range(view.wanted)} - serve
    return [
        Problem(old["pod"], Reason(old["reason"]), old["message"])
        for old in view.previous.get("problems", [])
        if old["pod"] not in told
        and old["reason"] in (*_SAID, Reason.CRASH_LOOPING)
        and waited_for & {old["pod"], old["pod"].rpartition("-")[0]}
    ]


def unplaced(view: View) -> dict[str, float]:
    """For the next look: since when new pods have had no node although no old one gives way, by name."""
    now, waits = view.now.timestamp(), [pod for pod in view.pods if _unscheduled(pod) and not _room_is_made(view, pod)]
    return {name: view.seen.unplaced.get(name, now) for name in (str(pod["metadata"]["name"]) for pod in waits)}


def _unscheduled(pod: Object) -> Object | None:
    """The scheduler's condition of a pod that it found no node for."""
    found = condition(pod, "PodScheduled")
    if found is None or found["status"] != "False" or found.get("reason") == "SchedulingGated":
        return None
    return found


def _another_gives_way(view: View, pod: Object) -> bool:
    """Whether an old pod makes room for this one, or made it just now: the scheduler takes a moment to notice."""
    if _prescribed(view, pod) or not _older(view, pod):
        return False
    since = view.seen.unplaced.get(pod["metadata"]["name"])
    return _room_is_made(view, pod) or since is None or view.now.timestamp() - since < PLACING_SECONDS


def _room_is_made(view: View, pod: Object) -> bool:
    """Whether an old pod is on its way out, or is about to be: it may go as long as there are as many as asked for."""
    if view.role(pod) == ROUTER:
        serving, wanted = view.routers, view.serving.spec.router.replicas
    else:
        serving, wanted = view.engines, view.wanted
    going = any(old["metadata"].get("deletionTimestamp") for old in _older(view, pod))
    return going or len([other for other in serving if ready(other)]) >= wanted


def _prescribed(view: View, pod: Object) -> bool:
    """Whether the spec says how its rollout goes, so that nothing makes room by itself."""
    return view.role(pod) != ROUTER and view.serving.spec.rollout.max_surge is not None


def _older(view: View, pod: Object) -> list[Object]:
    """Pods of other revisions that do what this one will."""
    revision, routes = view.revision_of(pod), view.role(pod) == ROUTER
    return [
        other for other in view.pods if (view.role(other) == ROUTER) == routes and view.revision_of(other) != revision
    ]


def _crashing(pod: Object) -> bool:
    return (waiting(pod) or {}).get("reason") == "CrashLoopBackOff"


def _why(end: Ending) -> Reason:
    said = end.said.get("reason")
    known = next((reason for reason in _SAID if reason.value == said), None)
    if end.reason == "OOMKilled" and known in (None, Reason.ENGINE_FAILED):
        return Reason.OUT_OF_MEMORY  # where vLLM alone was killed, its parent knows no more than that it failed
    return known or Reason.CRASH_LOOPING


def _how(pod: Object, end: Ending) -> str:
    restarts = max((s.get("restartCount", 0) for s in pod["status"].get("containerStatuses") or []), default=0)
    times = f" ({restarts} restarts)" if restarts > 1 else ""
    if end.reason == "OOMKilled":
        return f"it was killed for memory{times}; raise resources.limits.memory"
    last = (end.message.strip().splitlines() or [""])[-1]
    said = str(end.said.get("message") or last)
    return f"it failed with exit code {end.exit_code}{times}" + (f": {said}" if said else "")
