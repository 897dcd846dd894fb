"""The pod's whole life: load, resume, solve, checkpoint, hand over, say how it ended.

The exit code is for the Job's failure policy, the termination message for the operator, the log for people.
"""

import hashlib
import json
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ballast_cfr import errors
from ballast_cfr.formats.checkpoint import FILE_NAME
from ballast_cfr.job import configmap
from ballast_cfr.job.lock import hold
from ballast_cfr.job.status import Status, serve

_MESSAGE_LIMIT = 4096
_LOG_SECONDS = 10.0


@dataclass(frozen=True)
class Request:
    """What the operator asks of a pod. game: name of a built-in game or path of a file; result: (namespace, name) of a ConfigMap."""

    game: str
    game_parameters: Mapping[str, str]
    sha256: str | None
    variant: str
    updates: str
    tie_tolerance: float
    parameters: Mapping[str, str]
    exploitability: str | None
    unit: str
    max_iterations: int | None
    max_seconds: float | None
    checkpoint_directory: Path
    checkpoint_interval: float
    output_file: Path | None
    output_format: str
    result: tuple[str, str] | None
    status_port: int | None
    termination_log: Path | None


class Terminated(Exception):
    """The pod was told to go; `iteration` is that of the checkpoint."""

    def __init__(self, iteration: int) -> None:
        super().__init__(f"checkpoint written at iteration {iteration}")
        self.iteration = iteration


def run(request: Request) -> int:
    """Do the job; returns the exit code."""
    told: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        told.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    status = Status()
    if request.status_port is not None:
        serve(status, request.status_port)
    try:
        code, message = errors.EXIT_DONE, _Job(request, status, lambda: bool(told)).work()
    except Terminated as end:
        code, message = (
            errors.EXIT_TERMINATED,
            {"reason": "Terminated", "message": str(end), "iteration": end.iteration},
        )
    except errors.SolverError as error:
        code, message = error.exit_code, {"reason": error.reason, "message": str(error)}
    except Exception as error:
        traceback.print_exc()
        code, message = errors.EXIT_FAILED, {"reason": "SolverFailed", "message": f"{type(error).__name__}: {error}"}
    print(f"{message['reason']}: {message['message']}", file=sys.stderr if code else sys.stdout, flush=True)
    if request.termination_log is not None:
        request.termination_log.write_bytes(_fit(message))
    return code


def _fit(message: dict[str, Any]) -> bytes:
    """The message as JSON within what the kubelet keeps; only its sentence is ever shortened."""
    whole = json.dumps(message).encode()
    while len(whole) > _MESSAGE_LIMIT:
        text = message["message"]
        message = {**message, "message": text[: len(text) * 3 // 4] + "..."}
        whole = json.dumps(message).encode()
    return whole


class _Job:
    def __init__(self, request: Request, status: Status, interrupted: Callable[[], bool]) -> None:
        self.request = request
        self.status = status
        self.interrupted = interrupted
        self.path = request.checkpoint_directory / FILE_NAME
        self.saved_at = time.monotonic()
        self.logged_at = 0.0

    def work(self) -> dict[str, Any]:
        """From the request to the termination message of a success. Raises what `run` turns into the others."""
        from ballast_cfr.compile.program import compile_game
        from ballast_cfr.load import load
        from ballast_cfr.solve.goal import stop
        from ballast_cfr.solve.monitor import Monitor
        from ballast_cfr.solve.solver import Solver

        request = self.request
        game = load(request.game, request.sha256, **request.game_parameters)
        self.status.describe(game)
        rule = stop(game, request.exploitability, request.unit, request.max_iterations, request.max_seconds)
        solver = Solver(
            compile_game(game),
            request.variant,
            updates=request.updates,
            tie_tol=request.tie_tolerance,
            parameters=request.parameters,
        )
        lock = hold(request.checkpoint_directory, self.interrupted)
        if self.path.exists():
            solver.load(self.path)
            self.status.set(checkpointIteration=solver.iteration)
            print(f"resuming at iteration {solver.iteration}", flush=True)
        monitor = Monitor(rule)

        def progress(solver: Solver) -> None:
            self.status.follow(monitor.see(solver))
            self.log()
            if time.monotonic() - self.saved_at >= request.checkpoint_interval:
                self.save(solver)

        outcome = solver.solve(rule, interrupted=self.interrupted, progress=progress)
        self.save(solver)
        if outcome.reason == "Interrupted" or self.interrupted():
            raise Terminated(solver.iteration)
        self.status.set(phase="Finishing")
        message = self.finish(solver, outcome)
        lock.close()
        return message

    def save(self, solver: Any) -> None:
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
        known = {
            key: facts[key] for key in ("exploitability", "iterationsPerSecond", "etaSeconds") if facts[key] is not None
        }
        print(f"iteration {facts['iteration']}", *(f"{key}={value:.4g}" for key, value in known.items()), flush=True)

    def finish(self, solver: Any, outcome: Any) -> dict[str, Any]:
        """Write the strategy wherever it was asked for; returns the termination message."""
        from ballast_cfr.export.strategy import FORMATS, csv_text, write
        from ballast_cfr.export.summary import summary

        request, strategies, facts = self.request, solver.average(), summary(solver, outcome)
        text = "".join(csv_text(solver.program, strategies))
        if request.output_file is not None:
            write(request.output_file, FORMATS[request.output_format](solver.program, strategies, facts))
        message = {
            "reason": outcome.reason,
            "message": _sentence(facts),
            "iteration": outcome.iteration,
            "exploitability": facts["exploitability"],
            "value": facts["value"],
            "iterationsPerSecond": facts["iterationsPerSecond"],
            "elapsedSeconds": facts["seconds"],
            "infosets": facts["infosets"],
            "strategyBytes": len(text.encode()),
            "strategySha256": hashlib.sha256(text.encode()).hexdigest(),
            "configMap": False,
            "configMapMessage": None,
            "file": str(request.output_file) if request.output_file else None,
        }
        return self.hand_over(message, facts, text)

    def hand_over(self, message: dict[str, Any], facts: dict[str, Any], text: str) -> dict[str, Any]:
        """Put strategy and summary into the ConfigMap, or say why not and where the strategy is instead."""
        from ballast_cfr.export.strategy import write

        if self.request.result is None:
            return message
        delivered = {**message, "configMap": True}
        data = {"strategy.csv": text, "summary.json": json.dumps({**facts, **delivered}, indent=1)}
        if configmap.size(data) <= configmap.LIMIT:
            configmap.patch(configmap.in_cluster(), *self.request.result, data)
            return delivered
        where = self.request.output_file
        if where is None:
            where = self.request.checkpoint_directory / "strategy.csv"
            write(where, iter((text,)))
        message["file"] = str(where)
        message["configMapMessage"] = (
            f"ResultTooLarge: the strategy has {len(text.encode())} bytes, and a ConfigMap holds {configmap.LIMIT}; it lies in {where}"
        )
        data = {"summary.json": json.dumps({**facts, **message}, indent=1)}
        configmap.patch(configmap.in_cluster(), *self.request.result, data)
        return message


def _sentence(facts: Mapping[str, Any]) -> str:
    why = {
        "TargetReached": "the target exploitability was reached",
        "IterationLimit": "the iteration limit was reached",
        "TimeLimit": "the time limit was reached",
    }[facts["reason"]]
    return (
        f"{why} at iteration {facts['iteration']}: exploitability {facts['exploitability']:.4g}, value {facts['value']:.6g} "
        f"for the first player, {facts['seconds']:.1f} s of solving"
    )
