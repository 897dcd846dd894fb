"""What pods and their containers say, in the words of whoever said it."""

import json
from dataclasses import dataclass
from typing import Any

from ballast_operator.objects import Object

FINAL = ("Succeeded", "Failed")


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def may_run(pod: Object) -> bool:
    """Not in one of the two final phases; a pod that is being deleted may still run."""
    return phase(pod) not in FINAL


def condition(obj: Object, name: str) -> Object | None:
    """The condition of this type, or None."""
    return next((c for c in obj.get("status", {}).get("conditions") or [] if c["type"] == name), None)


def waiting(pod: Object) -> Object | None:
    """Why a container has not started: `reason` and `message`, or None."""
    for status in pod.get("status", {}).get("containerStatuses") or []:
        found = status.get("state", {}).get("waiting")
        if found and found.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return dict(found)
    return None


def started(pod: Object) -> bool:
    """Whether its containers were started up, in the judgement of their startup probes."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return bool(statuses) and all(status.get("started") for status in statuses)


def disrupted(pod: Object) -> Object | None:
    """The condition that says who disrupted the pod (eviction, preemption, taint), or None."""
    found = condition(pod, "DisruptionTarget")
    return found if found and found["status"] == "True" else None


@dataclass(frozen=True)
class Ending:
    """How a container ended. said: what its termination message holds, parsed if it is a JSON object, else {}."""

    exit_code: int
    reason: str
    message: str
    said: dict[str, Any]


def ending(pod: Object, container: str) -> Ending | None:
    """How a container of this name ended, or None while it has not."""
    for status in pod.get("status", {}).get("containerStatuses") or []:
        ended = status.get("state", {}).get("terminated")
        if status.get("name") == container and ended:
            return _ending(ended)
    return None


def last_ending(pod: Object, container: str) -> Ending | None:
    """How a container of this name ended last, be it that it runs again; None if it never did."""
    for status in pod.get("status", {}).get("containerStatuses") or []:
        if status.get("name") == container:
            ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated")
            return _ending(ended) if ended else None
    return None


def _ending(ended: Object) -> Ending:
    message = str(ended.get("message", ""))
    return Ending(int(ended["exitCode"]), str(ended.get("reason", "")), message, _said(message))


def _said(message: str) -> dict[str, Any]:
    try:
        said = json.loads(message)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
