"""What a job of one solve and a job of a batch share: being told to go, being alone, saying how it goes."""

import time
from collections.abc import Callable
from typing import IO

from ballast_cfr.job.lock import BusyError, hold
from ballast_cfr.job.request import Request
from ballast_cfr.job.status import Status, serve

_LOG_SECONDS = 10.0


class TerminatedError(Exception):
    """The pod was told to go; `iteration` is that of the checkpoint, None if there was nothing to keep yet."""

    def __init__(self, iteration: int | None) -> None:
        said = (
            "told to go before the first iteration"
            if iteration is None
            else f"checkpoint written at iteration {iteration}"
        )
        super().__init__(said)
        self.iteration = iteration


class Job:
    """The request, the status that is served, and whether the pod was told to go."""

    def __init__(self, request: Request, interrupted: Callable[[], bool]) -> None:
        self.request = request
        self.status = Status()
        self.interrupted = interrupted
        self.saved_at = time.monotonic()
        self.logged_at = 0.0
        if request.status_port is not None:
            serve(self.status, request.status_port)

    def lock(self) -> IO[str]:
        """Keep other pods off the checkpoint while this one lives."""
        try:
            return hold(self.request.checkpoint_directory, self.interrupted)
        except BusyError:
            if self.interrupted():
                raise TerminatedError(None) from None
            raise

    def checkpoint_is_due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self.saved_at >= self.request.checkpoint_interval

    def saved(self, iteration: int) -> None:
        """A checkpoint of this iteration was written."""
        self.saved_at = time.monotonic()
        self.status.set(checkpointIteration=iteration)

    def log(self) -> None:
        """A line every ten seconds."""
        if time.monotonic() - self.logged_at < _LOG_SECONDS:
            return
        self.logged_at = time.monotonic()
        facts = self.status.facts
        shown = ("exploitability", "iterationsPerSecond", "etaSeconds")
        known = [f"{key}={facts[key]:.4g}" for key in shown if facts[key] is not None]
        if facts.get("instances"):
            known.insert(0, f"instances={facts['instancesDone']}/{facts['instances']}")
        print(f"iteration {facts['iteration']}", *known, flush=True)
