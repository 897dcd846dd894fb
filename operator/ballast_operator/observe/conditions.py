"""Conditions of a status: times move only when an answer flips, generations always tell what was looked at."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ballast_api.conditions import Reason, Type
from ballast_operator.objects import Object, format_time

LONGEST_MESSAGE = 950


@dataclass(frozen=True)
class Answer:
    """One statement: type is (not) so, for this reason. status None means Unknown."""

    type: Type
    status: bool | None
    reason: Reason
    message: str


def merge(previous: Iterable[Object], answers: Iterable[Answer], generation: int, now: datetime) -> list[Object]:
    """The conditions to store, sorted by type. One that is not answered now is kept as it was."""
    old = {condition["type"]: condition for condition in previous}
    new = dict(old)
    for answer in answers:
        status = {True: "True", False: "False", None: "Unknown"}[answer.status]
        before = old.get(answer.type.value)
        kept = before["lastTransitionTime"] if before and before["status"] == status else format_time(now)
        new[answer.type.value] = {
            "type": answer.type.value,
            "status": status,
            "reason": answer.reason.value,
            "message": shorten(answer.message),
            "observedGeneration": generation,
            "lastTransitionTime": kept,
        }
    return [new[name] for name in sorted(new)]


def shorten(message: str) -> str:
    """Within what the API takes, at the end of a word where possible."""
    text = " ".join(message.split())
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE].rsplit(" ", 1)[0] + " ..."


def is_true(conditions: Iterable[Object], name: Type) -> bool:
    return any(c["type"] == name.value and c["status"] == "True" for c in conditions)
