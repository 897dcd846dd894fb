"""One look at a solve: its model, its children by their part, and what is known of its pods."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from ballast_api.cfrsolve import CFRSolve
from ballast_operator.desired.cfrsolve.job import CONTAINER
from ballast_operator.desired.names import Names
from ballast_operator.kind import Children, Need, Situation, Trouble
from ballast_operator.objects import Object
from ballast_operator.observe.pods import Ending, condition, ending, may_run, phase


@dataclass(frozen=True)
class View:
    """What the questions of `checks` and `status` are asked of."""

    solve: CFRSolve
    children: Children
    previous: Object
    now: datetime
    trouble: Trouble | None
    missing: tuple[Need, ...]
    complaint: str | None
    reported: Any | None

    @classmethod
    def of(cls, situation: Situation[CFRSolve], solve: CFRSolve) -> "View":
        return cls(
            solve,
            situation.children,
            situation.previous,
            situation.now,
            situation.trouble,
            tuple(situation.missing),
            situation.complaint,
            situation.reported,
        )

    @cached_property
    def names(self) -> Names:
        return Names("CFRSolve", self.solve.metadata)

    @cached_property
    def job(self) -> Object | None:
        return self.children.get("Job", self.names.child("solve"))

    @cached_property
    def claim(self) -> Object | None:
        return self.children.get("PersistentVolumeClaim", self.names.child("checkpoint"))

    @cached_property
    def pods(self) -> list[Object]:
        """Pods of the present Job and of earlier ones, oldest first."""
        return self.children.all("Pod")

    @cached_property
    def running(self) -> Object | None:
        """The youngest pod that may still run."""
        return next((pod for pod in reversed(self.pods) if may_run(pod)), None)

    @cached_property
    def last_ended(self) -> Object | None:
        """The youngest pod that has ended."""
        return next((pod for pod in reversed(self.pods) if not may_run(pod)), None)

    @cached_property
    def succeeded(self) -> Object | None:
        return next((pod for pod in reversed(self.pods) if phase(pod) == "Succeeded"), None)

    def job_condition(self, name: str) -> Object | None:
        """The Job's condition of this type if it is True."""
        found = condition(self.job, name) if self.job else None
        return found if found and found["status"] == "True" else None

    def ending(self, pod: Object | None) -> Ending | None:
        return ending(pod, CONTAINER) if pod else None
