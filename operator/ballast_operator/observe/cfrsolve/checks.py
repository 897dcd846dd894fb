"""What can stand in a solve's way, as a list of small questions in the order in which a person would ask them.

Each answers None, or why the solve is not running. `kubectl ballast why` prints the first answer. A new way to be stuck
is one more function here and its test.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ballast_api.conditions import Reason
from ballast_operator.objects import describe
from ballast_operator.observe.cfrsolve.view import View
from ballast_operator.observe.pods import condition, disrupted, phase, waiting


@dataclass(frozen=True)
class Blocked:
    """Why a solve does not run. waits: the reason will pass by itself."""

    reason: Reason
    message: str
    waits: bool = False


Check = Callable[[View], Blocked | None]


def cluster_takes_children(view: View) -> Blocked | None:
    """What the API server refused, in its own words."""
    return Blocked(Reason(view.trouble.reason), view.trouble.message) if view.trouble else None


def needs_are_met(view: View) -> Blocked | None:
    """Objects of the user's that the spec names and that are not there."""
    if not view.missing:
        return None
    lack = view.missing[0].missing_from(view.solve.metadata.namespace)
    return Blocked(Reason.DEPENDENCY_MISSING, f"{lack} and the solve starts")


def earlier_pods_are_gone(view: View) -> Blocked | None:
    """A pod of a deleted Job that may still write the checkpoint."""
    if view.job is not None or view.running is None:
        return None
    return Blocked(
        Reason.WAITING_FOR_PODS,
        f"pod {view.running['metadata']['name']} of an earlier Job is still there; the next one starts when it is gone",
        waits=True,
    )


def queue_admitted(view: View) -> Blocked | None:
    """A Job that its queue holds back."""
    if view.job is None or not view.job["spec"].get("suspend"):
        return None
    return Blocked(Reason.QUEUED, f"waiting for queue {view.solve.spec.queue_name} to admit the Job", waits=True)


def volume_is_bound(view: View) -> Blocked | None:
    """A checkpoint claim that nothing can bind. One that waits for its first pod is not stuck."""
    claim = view.claim
    if claim is None or claim.get("status", {}).get("phase") != "Pending" or claim["spec"].get("storageClassName"):
        return None
    return Blocked(
        Reason.NO_DEFAULT_STORAGE_CLASS,
        f"{describe(claim)} has no storage class and the cluster has no default one; mark one as default, or create a "
        "new CFRSolve with checkpoint.storageClassName, or with checkpoint.ephemeral: {}",
    )


def pods_are_allowed(view: View) -> Blocked | None:
    """A Job whose pods the API server refuses: a policy, a quota, an account that is not there."""
    if view.job is None or view.pods or view.complaint is None:
        return None
    if "exceeded quota" in view.complaint:
        return Blocked(Reason.QUOTA_EXCEEDED, view.complaint)
    refused = "forbidden" in view.complaint
    return Blocked(Reason.FORBIDDEN if refused else Reason.INVALID_SPEC, f"no pod can be made: {view.complaint}")


def volumes_are_mounted(view: View) -> Blocked | None:
    """A pod on its node that cannot start, in the kubelet's words."""
    if view.running is None or phase(view.running) != "Pending" or view.complaint is None:
        return None
    return Blocked(Reason.VOLUME_PENDING, f"pod {view.running['metadata']['name']} cannot start: {view.complaint}")


def pod_is_made(view: View) -> Blocked | None:
    """What keeps the Job controller from making a pod: its back-off after a pod that did not end well."""
    if view.job is None or view.running is not None:
        return None
    last = view.last_ended
    if last is None or phase(last) == "Succeeded":
        return None
    name = last["metadata"]["name"]
    if disruption := disrupted(last):
        return Blocked(
            Reason.DISRUPTED,
            f"pod {name} was disrupted ({disruption.get('reason', 'unknown')}); the Job controller makes the next one "
            "after 10 to 20 s, which goes on from the checkpoint; this does not count against backoffLimit",
            waits=True,
        )
    failed, limit = view.job.get("status", {}).get("failed", 0), view.solve.spec.backoff_limit
    return Blocked(
        Reason.RETRYING,
        f"pod {name} {how_it_ended(view)}; {failed} of at most {limit} failures; the Job controller makes the next "
        "one after its back-off, which goes on from the checkpoint",
        waits=True,
    )


def pod_is_scheduled(view: View) -> Blocked | None:
    """Why no node takes the pod, in the scheduler's own words."""
    found = condition(view.running, "PodScheduled") if view.running else None
    if view.running is None or found is None or found["status"] != "False":
        return None
    message = found.get("message", "")
    reason = Reason.INSUFFICIENT_CAPACITY
    if "resourceclaim" in message.lower() or "cannot allocate all claims" in message:
        reason = Reason.CLAIM_PENDING
    elif "persistentvolumeclaim" in message.lower():
        reason = Reason.VOLUME_PENDING
    elif lacking := re.search(r"Insufficient (\S+/\S+?)[.,]", message):
        return Blocked(
            Reason.DEVICE_UNAVAILABLE,
            f"no node has a free {lacking[1]} for pod {view.running['metadata']['name']}: {message}",
        )
    return Blocked(
        reason,
        f"no node fits pod {view.running['metadata']['name']}: {message}",
    )


def image_is_pulled(view: View) -> Blocked | None:
    """An image that the node cannot have."""
    found = waiting(view.running) if view.running else None
    if view.running is None or found is None or "Image" not in found["reason"]:
        return None
    image = view.running["spec"]["containers"][0]["image"]
    return Blocked(Reason.IMAGE_PULL_FAILED, f"image {image}: {found['reason']}: {found.get('message', '')}")


def container_is_created(view: View) -> Blocked | None:
    """A container that the node cannot create as asked."""
    found = waiting(view.running) if view.running else None
    if found is None:
        return None
    return Blocked(Reason.CONTAINER_CONFIG_INVALID, f"{found['reason']}: {found.get('message', '')}")


CHECKS: list[Check] = [
    cluster_takes_children,
    needs_are_met,
    earlier_pods_are_gone,
    queue_admitted,
    volume_is_bound,
    pods_are_allowed,
    pod_is_made,
    pod_is_scheduled,
    image_is_pulled,
    container_is_created,
    volumes_are_mounted,
]


def blocked(view: View) -> Blocked | None:
    """The first thing that stands in the way, or None."""
    return next((answer for check in CHECKS if (answer := check(view))), None)


def how_it_ended(view: View) -> str:
    """How the last pod ended: `failed with exit code 1: ...` or `was killed for memory`."""
    last = view.last_ended
    end = view.ending(last)
    if last is None or end is None:
        message = (last or {}).get("status", {}).get("message")
        return f"failed: {message}" if message else "failed"
    if end.reason == "OOMKilled":
        return "was killed for memory; create a new CFRSolve with a higher template.resources.limits.memory"
    said = end.said.get("message") or end.message.strip().splitlines()[-1:] or ""
    text = said if isinstance(said, str) else "".join(said)
    return f"failed with exit code {end.exit_code}" + (f": {text}" if text else "")
