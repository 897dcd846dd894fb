"""A batch on a CPU: one instance after another, each exactly as a solve of its own would be, to the bit."""

from collections.abc import Callable

from ballast_cfr.batch.instances import Batch, Instance, factors, named
from ballast_cfr.batch.store import Result, Store
from ballast_cfr.compile.program import Program
from ballast_cfr.compile.variation import Variations
from ballast_cfr.errors import BadInputError
from ballast_cfr.solve.held import Place, allowed, find, probabilities
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Outcome, Solver


def check(batch: Batch, program: Program) -> None:
    """Look every instance over before the first is solved. Raises BadInputError, naming the line of the batch's
    file."""
    variations = Variations(program)
    for instance in batch.instances:
        with named(instance):
            if instance.payoffs is not None:
                variations.demand_payoffs(instance.payoffs)
            if instance.ranges is not None:
                variations.demand_ranges(*factors(instance, variations))
            held: set[Place] = set()
            for demand, holds in ((probabilities, instance.locks), (allowed, instance.masks)):
                for hold in holds:
                    place = find(program, hold.infoset, hold.player)
                    demand(program, place, hold.values)
                    if place in held:
                        raise BadInputError(f"information set {place.name} is held twice; give it one lock or one mask")
                    held.add(place)


def prepare(solver: Solver, instance: Instance, variations: Variations) -> None:
    """Make a new solver the instance's. Raises BadInputError, naming the line of the batch's file."""
    with named(instance):
        if instance.payoffs is not None:
            solver.set_payoffs(instance.payoffs)
        if instance.ranges is not None:
            solver.set_root_ranges(*factors(instance, variations))
        for lock in instance.locks:
            solver.lock(lock.infoset, lock.values, lock.player)
        for mask in instance.masks:
            solver.mask(mask.infoset, mask.values, mask.player)


def solve_each(
    batch: Batch,
    store: Store,
    make: Callable[[], Solver],
    rule: Stop,
    *,
    interrupted: Callable[[], bool],
    begin: Callable[[Instance], None],
    progress: Callable[[Solver, Instance], None],
) -> int | None:
    """Solve what has not ended yet. make: a new solver of the game; begin: told of each instance; progress: called as
    by Solver.solve, and may save. Returns the iteration of the checkpoint if it was interrupted, else None."""
    done = store.results().keys()
    left = [instance for instance in batch.instances if instance.name not in done]
    variations = Variations(make().program)
    for instance in left:
        begin(instance)
        solver = make()
        prepare(solver, instance, variations)
        path = store.checkpoint(instance.name)
        if path.exists():
            solver.load(path)

        def follow(solver: Solver, instance: Instance = instance) -> None:
            progress(solver, instance)

        outcome = solver.solve(rule, interrupted=interrupted, progress=follow)
        if outcome.reason == "Interrupted":
            solver.save(path)
            return solver.iteration
        store.finish(result(instance, solver, outcome), solver.program, solver.average())
        path.unlink(missing_ok=True)
    return None


def result(instance: Instance, solver: Solver, outcome: Outcome) -> Result:
    """What is kept of an instance that has ended."""
    return Result.of(instance.name, outcome.reason, outcome.iteration, solver.evaluate(), outcome.seconds)
