"""The pod's whole life: load, resume, solve, checkpoint, hand over, say how it ended.

The exit code is for the Job's failure policy, the termination message for the operator, the log for people.
"""

import signal
import sys
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import IO, Any

from ballast_cfr import errors
from ballast_cfr.compile.program import compile_game
from ballast_cfr.formats.checkpoint import FILE_NAME
from ballast_cfr.job.finish import finish
from ballast_cfr.job.lock import BusyError, hold
from ballast_cfr.job.message import fit
from ballast_cfr.job.request import Request
from ballast_cfr.job.status import Status, serve
from ballast_cfr.load import load
from ballast_cfr.solve.goal import stop
from ballast_cfr.solve.monitor import Monitor
from ballast_cfr.solve.solver import Solver

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


def run(request: Request) -> int:
    """Do the job; returns the exit code."""
    told: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        told.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    code, message = _end(_Job(request, lambda: bool(told)).work)
    print(f"{message['reason']}: {message['message']}", file=sys.stderr if code else sys.stdout, flush=True)
    if request.termination_log is not None:
        request.termination_log.write_bytes(fit(message))
    return code


def _end(work: Callable[[], dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Exit code and termination message, however the work ends."""
    try:
        return errors.EXIT_DONE, work()
    except TerminatedError as end:
        return errors.EXIT_TERMINATED, {"reason": "Terminated", "message": str(end), "iteration": end.iteration}
    except errors.SolverError as error:
        return error.exit_code, {"reason": error.reason, "message": str(error)}
    except Exception as error:
        traceback.print_exc()
        return errors.EXIT_FAILED, {"reason": "SolverFailed", "message": f"{type(error).__name__}: {error}"}


class _Job:
    def __init__(self, request: Request, interrupted: Callable[[], bool]) -> None:
        self.request = request
        self.status = Status()
        self.interrupted = interrupted
        self.path = request.checkpoint_directory / FILE_NAME
        self.saved_at = time.monotonic()
        self.logged_at = 0.0

    def work(self) -> dict[str, Any]:
        """From the request to the termination message of a success."""
        request = self.request
        if request.status_port is not None:
            serve(self.status, request.status_port)
        game = load(request.game, request.sha256, **request.game_parameters)
        self.status.describe(game)
        rule = stop(game, request.exploitability, request.unit, request.max_iterations, request.max_seconds)
        solver = Solver(
            compile_game(game),
            request.variant,
            updates=request.updates,
            tie_tol=request.tie_tolerance,
            parameters=request.parameters,
            dtype=request.dtype,
            device=request.device,
        )
        if self.interrupted():
            raise TerminatedError(None)
        with self.lock():
            self.resume(solver)
            monitor = Monitor(rule)

            def progress(solver: Solver) -> None:
                self.status.follow(monitor.see(solver))
                self.log()
                if time.monotonic() - self.saved_at >= request.checkpoint_interval:
                    self.save(solver)

            outcome = solver.solve(rule, interrupted=self.interrupted, progress=progress)
            self.save(solver)
            if self.interrupted():
                raise TerminatedError(solver.iteration)
            self.status.set(phase="Finishing")
            return finish(request, solver, outcome)

    def lock(self) -> IO[str]:
        """Keep other pods off the checkpoint while this one lives."""
        try:
            return hold(self.request.checkpoint_directory, self.interrupted)
        except BusyError:
            if self.interrupted():
                raise TerminatedError(None) from None
            raise

    def resume(self, solver: Solver) -> None:
        """Go on from the checkpoint, if there is one."""
        if self.path.exists():
            solver.load(self.path)
            self.status.set(iteration=solver.iteration, checkpointIteration=solver.iteration)
            print(f"resuming at iteration {solver.iteration}", flush=True)

    def save(self, solver: Solver) -> None:
        """Write the checkpoint."""
        solver.save(self.path)
        self.saved_at = time.monotonic()
        self.status.set(checkpointIteration=solver.iteration)

    def log(self) -> None:
        """A line every ten seconds."""
        if time.monotonic() - self.logged_at < _LOG_SECONDS:
            return
        self.logged_at = time.monotonic()
        facts = self.status.facts
        shown = ("exploitability", "iterationsPerSecond", "etaSeconds")
        known = [f"{key}={facts[key]:.4g}" for key in shown if facts[key] is not None]
        print(f"iteration {facts['iteration']}", *known, flush=True)
