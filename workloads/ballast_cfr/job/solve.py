"""The job of one solve: load, resume, solve, checkpoint, hand over."""

from typing import Any

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.formats.checkpoint import FILE_NAME
from ballast_cfr.job.finish import finish
from ballast_cfr.job.parts import Job, TerminatedError
from ballast_cfr.job.request import Request
from ballast_cfr.load import load
from ballast_cfr.solve.goal import stop
from ballast_cfr.solve.monitor import Monitor
from ballast_cfr.solve.solver import Solver


def solver_of(request: Request, program: Program, device: str | None = None) -> Solver:
    """A new solver of a compiled game, as the request wants it; device: another than it says."""
    return Solver(
        program,
        request.variant,
        updates=request.updates,
        tie_tol=request.tie_tolerance,
        parameters=request.parameters,
        dtype=request.dtype,
        device=device or request.device,
    )


class SolveJob(Job):
    """One game, one strategy."""

    def work(self) -> dict[str, Any]:
        """From the request to the termination message of a success."""
        request = self.request
        game = load(request.game, request.sha256, **request.game_parameters)
        self.status.describe(game)
        rule = stop(game, request.exploitability, request.unit, request.max_iterations, request.max_seconds)
        solver = solver_of(request, compile_game(game))
        if self.interrupted():
            raise TerminatedError(None)
        with self.lock():
            self.resume(solver)
            monitor = Monitor(rule)

            def progress(solver: Solver) -> None:
                self.status.follow(monitor.see(solver))
                self.log()
                if self.checkpoint_is_due():
                    self.save(solver)

            outcome = solver.solve(rule, interrupted=self.interrupted, progress=progress)
            self.save(solver)
            if self.interrupted():
                raise TerminatedError(solver.iteration)
            self.status.set(phase="Finishing")
            return finish(request, solver, outcome)

    def resume(self, solver: Solver) -> None:
        """Go on from the checkpoint, if there is one."""
        path = self.request.checkpoint_directory / FILE_NAME
        if path.exists():
            solver.load(path)
            self.status.set(iteration=solver.iteration, checkpointIteration=solver.iteration)
            print(f"resuming at iteration {solver.iteration}", flush=True)

    def save(self, solver: Solver) -> None:
        """Write the checkpoint."""
        solver.save(self.request.checkpoint_directory / FILE_NAME)
        self.saved(solver.iteration)
