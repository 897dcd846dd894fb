"""The job of a batch: many solves of one game, each with a result of its own, done before or after an interruption."""

import csv
import io
import json
import time
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any

from ballast_cfr.batch import instances
from ballast_cfr.batch.sequence import check, solve_each
from ballast_cfr.batch.store import Result, Store
from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.job import configmap
from ballast_cfr.job.message import sentence_of_batch
from ballast_cfr.job.parts import Job, TerminatedError
from ballast_cfr.job.solve import solver_of
from ballast_cfr.load import load
from ballast_cfr.solve import variants
from ballast_cfr.solve.goal import stop
from ballast_cfr.solve.monitor import Monitor
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver

if TYPE_CHECKING:
    from ballast_cfr.batch.together import Group

# How a batch ended is how that one of its solves did which got least far.
_REASONS = ("TimeLimit", "IterationLimit", "TargetReached")


class BatchJob(Job):
    """One game, many strategies."""

    def work(self) -> dict[str, Any]:
        """From the request to the termination message of a success."""
        request = self.request
        assert request.batch is not None
        batch = instances.read(request.batch)
        game = load(request.game, request.sha256, **request.game_parameters)
        self.status.describe(game)
        rule = stop(game, request.exploitability, request.unit, request.max_iterations, request.max_seconds)
        program = compile_game(game)
        solver = solver_of(request, program, device="cpu")  # before anything is kept: what is wrong is to be mended
        check(batch, program)
        if self.interrupted():
            raise TerminatedError(None)
        with self.lock():
            store = self.store(solver, batch, rule)
            self.status.set(instances=len(batch.instances), instancesDone=len(store.results()))
            solve = self.together if self.on_gpu(program, len(batch.instances)) else self.in_sequence
            left_at = solve(batch, store, program, rule)
            if left_at is not None:
                raise TerminatedError(left_at)
            self.status.set(phase="Finishing")
            found = store.results()
            return self.hand_over(store, program, [found[name] for name in batch.names])

    def store(self, solver: Solver, batch: instances.Batch, rule: Stop) -> Store:
        """The folder of results, made sure to be this batch's. Settings are compared as what they mean, not as they
        were written. solver: one without changes. Raises CheckpointMismatchError."""
        request = self.request
        settings = {
            **solver.settings(),
            "batch": batch.digest,
            "exploitability": rule.exploitability,
            "maxIterations": rule.iterations,
            "maxSeconds": rule.seconds,
        }
        output = None if request.output_file is None else (request.output_file, request.output_format)
        made = Store(request.checkpoint_directory, settings, output)
        made.claim()
        return made

    def on_gpu(self, program: Program, size: int) -> bool:
        """Whether a GPU does it: if asked for, or, for `auto`, if there is one and it is faster. Raises BadInputError
        for what a GPU does not do in batches."""
        if self.request.device == "cpu":
            return False
        mixed = variants.dtype(self.request.dtype) == "Mixed"
        if self.request.device == "cuda":
            if mixed:
                raise BadInputError("a batch on a GPU is solved in Float64; remove the precision Mixed, or choose CPU")
            return True
        from ballast_cfr.gpu.choose import batch_is_faster

        return not mixed and batch_is_faster(program, size, self.request.updates == "Alternating")

    def in_sequence(self, batch: instances.Batch, store: Store, program: Program, rule: Stop) -> int | None:
        """One after another on the CPU."""
        monitors: dict[str, Monitor] = {}
        pace = Pace(len(batch.instances), len(store.results()))

        def begin(instance: instances.Instance) -> None:
            monitors.clear()
            monitors[instance.name] = Monitor(rule)
            done = len(store.results())
            self.status.set(instancesDone=done)
            print(f"instance {instance.name}, {done + 1} of {len(batch.instances)}", flush=True)

        def progress(solver: Solver, instance: instances.Instance) -> None:
            self.status.follow(
                monitors[instance.name].see(solver), **pace(self.status.facts["instancesDone"]), value=None
            )
            self.log()
            if self.checkpoint_is_due():
                solver.save(store.checkpoint(instance.name))
                self.saved(solver.iteration)

        def make() -> Solver:
            return solver_of(self.request, program, device="cpu")

        return solve_each(batch, store, make, rule, interrupted=self.interrupted, begin=begin, progress=progress)

    def together(self, batch: instances.Batch, store: Store, program: Program, rule: Stop) -> int | None:
        """All at once on the GPU."""
        from ballast_cfr.batch.together import solve_together

        request, pace = self.request, Pace(len(batch.instances), len(store.results()))

        def progress(groups: "Sequence[Group]", done: int) -> bool:
            group = min(groups, key=lambda group: group.batch.iteration)
            iteration = group.batch.iteration
            self.status.set(
                phase="Solving",
                iteration=iteration,
                exploitability=max(one.exploitability for group in groups for one in group.found or ()),
                exploitabilityIteration=iteration,
                iterationsPerSecond=iteration / group.seconds if group.seconds else None,
                instancesDone=done,
                **pace(done),
            )
            self.log()
            due = self.checkpoint_is_due()
            if due:
                self.saved(iteration)
            return due

        return solve_together(
            batch,
            store,
            program,
            rule,
            interrupted=self.interrupted,
            progress=progress,
            variant=request.variant,
            updates=request.updates,
            tie_tol=request.tie_tolerance,
            parameters=request.parameters,
        )

    def hand_over(self, store: Store, program: Program, results: Sequence[Result]) -> dict[str, Any]:
        """Fill the result ConfigMap with what fits; returns the termination message."""
        request = self.request
        lies = request.output_file or store.results_folder
        facts = {
            "reason": min((one.reason for one in results), key=_REASONS.index),
            "iteration": max(one.iteration for one in results),
            "exploitability": max(one.exploitability for one in results),
            "elapsedSeconds": sum(one.seconds for one in results),
            "instances": len(results),
            "instancesDone": len(results),
        }
        message = {
            **facts,
            "message": sentence_of_batch([one.reason for one in results], facts),
            "infosets": program.game.infosets,
            "configMap": False,
            "configMapMessage": None,
            "file": str(lies),
        }
        if request.result is None:
            return message
        data, whole = _fitting(store, results, {**facts, "game": program.game.name, "gameHash": program.game.digest})
        if not whole:
            message["configMapMessage"] = (
                f"ResultTooLarge: the strategies of {len(results)} instances are more than a ConfigMap holds; "
                f"they lie in {lies}"
            )
        elif request.output_file is None:
            message["file"] = None
        configmap.patch(configmap.in_cluster(), *request.result, data)
        return {**message, "configMap": whole}


class Pace:
    """Seconds so far and to go, by what those instances took that ended since this pod began."""

    def __init__(self, many: int, before: int) -> None:
        self.many, self.before, self.started = many, before, time.monotonic()

    def __call__(self, done: int) -> dict[str, float | None]:
        seconds = time.monotonic() - self.started
        each = seconds / (done - self.before) if done > self.before else None
        left = None if each is None else round(each * (self.many - done))
        return {"elapsedSeconds": seconds, "etaSeconds": left}


def table(results: Sequence[Result]) -> str:
    """All results as CSV, one line each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Result)])
    writer.writerows(astuple(result) for result in results)
    return text.getvalue()


def _fitting(store: Store, results: Sequence[Result], facts: dict[str, Any]) -> tuple[dict[str, str], bool]:
    """Data of the ConfigMap, and whether every strategy is in it: all of them, or none but the table, or the facts."""
    summary = {"summary.json": json.dumps(facts, indent=1)}
    listed = {**summary, f"{instances.TABLE}.csv": table(results)}
    size = configmap.size(listed) + sum(store.strategy(one.name).stat().st_size + len(one.name) + 4 for one in results)
    if size <= configmap.LIMIT:
        return listed | {f"{one.name}.csv": store.strategy(one.name).read_text() for one in results}, True
    return (listed if configmap.size(listed) <= configmap.LIMIT else summary), False
