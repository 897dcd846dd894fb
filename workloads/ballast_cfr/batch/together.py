"""A batch on GPUs: instances in lockstep, a group on each GPU at a time, each instance in blocks of its own.

Whoever meets the stop rule is done, and its strategy is kept as it was then; the others go on. All look at the
iterations at which a solve alone would look, so each ends where it would have ended alone. Groups do not depend on how
many GPUs there are, so what was begun on two goes on on one.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ballast_cfr.batch.instances import Batch, Instance, factors, named
from ballast_cfr.batch.store import Result, Store
from ballast_cfr.compile.program import Program
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.formats import checkpoint
from ballast_cfr.game import Floats
from ballast_cfr.gpu.batch import CudaBatch
from ballast_cfr.gpu.device import count
from ballast_cfr.solve.held import allowed, find, probabilities
from ballast_cfr.solve.schedule import Stop, is_look

GROUP = 256  # solves at once: no GPU runs more blocks of this size at a time


@dataclass
class Group:
    """Some instances on a GPU. `left`: which of them have not ended; `found`: their last evaluations, once there are
    any."""

    number: int
    gpu: int
    batch: CudaBatch
    members: Sequence[Instance]
    left: list[int]
    seconds: float = 0.0
    found: list[Evaluation] | None = None

    @classmethod
    def of(
        cls, number: int, members: Sequence[Instance], done: set[str], program: Program, gpu: int, **options: Any
    ) -> "Group":
        """Put instances on a GPU. Raises BadInputError, naming the line of the batch's file."""
        made = CudaBatch(program, len(members), gpu=gpu, **options)
        for index, instance in enumerate(members):
            with named(instance):
                _change(made, index, instance)
        return cls(number, gpu, made, members, [index for index, one in enumerate(members) if one.name not in done])

    def save(self, store: Store) -> None:
        """Write one checkpoint for all."""
        arrays: dict[str, Floats] = {}
        for index in range(len(self.members)):
            arrays |= {f"{index}/{name}": array for name, array in self.batch.engine.arrays(index).items()}
        header = {"settings": self._settings(), "iteration": self.batch.iteration, "seconds": self.seconds}
        checkpoint.write(store.group(self.number), header, arrays)

    def resume(self, store: Store) -> None:
        """Go on from the checkpoint, if there is one. Raises CheckpointMismatchError."""
        path = store.group(self.number)
        if not path.exists():
            return
        header, arrays = checkpoint.read(path)
        checkpoint.demand_same(path, header["settings"], self._settings())
        self.batch.iteration, self.seconds = int(header["iteration"]), float(header["seconds"])
        for index in range(len(self.members)):
            mine = f"{index}/"
            kept = {name.removeprefix(mine): array for name, array in arrays.items() if name.startswith(mine)}
            self.batch.engine.restore(kept, index)

    def _settings(self) -> dict[str, Any]:
        digests = [program.game.digest for program in self.batch.programs]
        return {"games": digests, "held": self.batch.held_digests()}


def _change(batch: CudaBatch, index: int, instance: Instance) -> None:
    if instance.payoffs is not None:
        batch.set_payoffs(index, instance.payoffs)
    if instance.ranges is not None:
        batch.set_root_ranges(index, *factors(instance, batch.variations))
    program = batch.programs[index]
    for lock in instance.locks:
        place = find(program, lock.infoset, lock.player)
        batch.lock(index, place.player, place.infoset, probabilities(program, place, lock.values))
    for mask in instance.masks:
        place = find(program, mask.infoset, mask.player)
        batch.mask(index, place.player, place.infoset, allowed(program, place, mask.values))


def solve_together(
    batch: Batch,
    store: Store,
    program: Program,
    rule: Stop,
    *,
    interrupted: Callable[[], bool],
    progress: Callable[[Sequence[Group], int], bool],
    group_size: int = GROUP,
    **options: Any,
) -> int | None:
    """Solve what has not ended yet, by groups of the file's order, one on each GPU. options: as for CudaBatch.
    progress: told of the groups under way and how many of the batch have ended; its answer says whether to write
    checkpoints. Returns the iteration of the checkpoint that is least far if it was interrupted, else None."""
    done = set(store.results())
    groups = enumerate(range(0, len(batch.instances), group_size))
    waiting = [(number, batch.instances[start : start + group_size]) for number, start in groups]
    waiting = [(number, members) for number, members in waiting if not done.issuperset(one.name for one in members)]
    running: list[Group] = []
    idle = list(range(count()))
    while waiting or running:
        while waiting and idle:
            number, members = waiting.pop(0)
            running.append(Group.of(number, members, done, program, idle.pop(0), **options))
            running[-1].resume(store)
        if interrupted():
            for group in running:
                group.save(store)
            return min(group.batch.iteration for group in running)
        _advance(running, store, rule, done)
        due = progress(running, len(done))
        for group in running:
            if not group.left:
                store.group(group.number).unlink(missing_ok=True)
                idle.append(group.gpu)
            elif due:
                group.save(store)
        running = [group for group in running if group.left]
    return None


def _advance(groups: Sequence[Group], store: Store, rule: Stop, done: set[str]) -> None:
    """All on to their next looks, at the same time; keep the results of those that are done."""
    started = time.monotonic()
    ends = [(group.batch, rule.target(group.batch.iteration)) for group in groups]
    while behind := [(batch, end) for batch, end in ends if batch.iteration < end]:
        for batch, end in behind:
            batch.start(end - batch.iteration)
        for batch, _ in behind:
            batch.finish()
    for group in groups:
        group.found = group.batch.evaluations()
    seconds = time.monotonic() - started
    for group in groups:
        group.seconds += seconds
        done |= _keep(group, group.found or [], store, rule)


def _keep(group: Group, found: Sequence[Evaluation], store: Store, rule: Stop) -> set[str]:
    """Keep the results of those of a group that are done; returns their names."""
    batch, ended = group.batch, {}
    for index in group.left:
        reason = _reason(rule, batch.iteration, group.seconds, found[index])
        if reason is not None:
            ended[index] = group.members[index].name
            result = Result.of(ended[index], reason, batch.iteration, found[index], group.seconds)
            store.finish(result, batch.programs[index], batch.average(index))
    group.left = [index for index in group.left if index not in ended]
    return set(ended.values())


def _reason(rule: Stop, iteration: int, seconds: float, found: Evaluation) -> str | None:
    limit = rule.iterations is not None and iteration >= rule.iterations
    if (
        rule.exploitability is not None
        and found.exploitability <= rule.exploitability
        and (is_look(iteration) or limit)
    ):
        return "TargetReached"
    if limit:
        return "IterationLimit"
    return "TimeLimit" if rule.seconds is not None and seconds >= rule.seconds else None
