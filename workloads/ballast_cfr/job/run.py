"""The pod's whole life: do the job, say how it ended.

The exit code is for the Job's failure policy, the termination message for the operator, the log for people.
"""

import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from ballast_cfr import errors
from ballast_cfr.job.batch import BatchJob
from ballast_cfr.job.message import fit
from ballast_cfr.job.parts import TerminatedError
from ballast_cfr.job.request import Request
from ballast_cfr.job.solve import SolveJob
from ballast_cfr.writing import why


def run(request: Request) -> int:
    """Do the job; returns the exit code."""
    told: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        told.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    kind = SolveJob if request.batch is None else BatchJob
    code, message = ending(lambda: kind(request, lambda: bool(told)).work())
    print(f"{message['reason']}: {message['message']}", file=sys.stderr if code else sys.stdout, flush=True)
    if request.termination_log is not None:
        try:
            request.termination_log.write_bytes(fit(message))
        except OSError as error:
            print(f"termination log {request.termination_log} cannot be written: {why(error)}", file=sys.stderr)
    return code


def ending(work: Callable[[], dict[str, Any]]) -> tuple[int, dict[str, Any]]:
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
