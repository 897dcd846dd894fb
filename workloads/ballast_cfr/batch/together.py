"""A batch on a GPU: instances in lockstep, a group at a time, each in blocks of its own.

Whoever meets the stop rule is done, and its strategy is kept as it was then; the others go on. All look at the
iterations at which a solve alone would look, so each ends where it would have ended alone.
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
from ballast_cfr.solve.held import allowed, find, probabilities
from ballast_cfr.solve.schedule import Stop, is_look

GROUP = 256  # solves at once: no GPU runs more blocks of this size at a time


@dataclass
class Group:
    """Some instances on the GPU. `found`: their last evaluations, once there are any."""

    number: int
    batch: CudaBatch
    members: Sequence[Instance]
    seconds: float = 0.0
    found: list[Evaluation] | None = None

    @classmethod
    def of(cls, number: int, members: Sequence[Instance], program: Program, **options: Any) -> "Group":
        """Put instances on the GPU. Raises BadInputError, naming the line of the batch's file."""
        made = CudaBatch(program, len(members), **options)
        for index, instance in enumerate(members):
            with named(instance):
                _change(made, index, instance)
        return cls(number, made, members)

    def save(self, store: Store) -> None:
        """Write one checkpoint for all."""
        arrays: dict[str, Floats] = {}
        for index in range(len(self.members)):
            arrays |= {f"{index}/{name}": array for name, array in self.batch.engine.arrays(index).items()}
        header = {"settings": self._settings(), "iteration": self.batch.iteration, "seconds": self.seconds}
        checkpoint.write(store.checkpoint(f"group-{self.number}"), header, arrays)

    def resume(self, store: Store) -> None:
        """Go on from the checkpoint, if there is one. Raises CheckpointMismatchError."""
        path = store.checkpoint(f"group-{self.number}")
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

    def look(self) -> list[Evaluation]:
        """Evaluate every member where it is."""
        self.found = self.batch.evaluations()
        return self.found


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
    progress: Callable[[Group, int], bool],
    group_size: int = GROUP,
    **options: Any,
) -> int | None:
    """Solve what has not ended yet, by groups of the file's order. options: as for CudaBatch. progress: told of a group
    and how many of the batch have ended; its answer says whether to write a checkpoint. Returns the iteration of the
    checkpoint if it was interrupted, else None."""
    done = set(store.results())
    for number, start in enumerate(range(0, len(batch.instances), group_size)):
        members = batch.instances[start : start + group_size]
        left = [index for index, one in enumerate(members) if one.name not in done]
        if not left:
            continue
        group = Group.of(number, members, program, **options)
        group.resume(store)
        while left:
            if interrupted():
                group.save(store)
                return group.batch.iteration
            still = _advance(group, left, store, rule)
            done |= {members[index].name for index in set(left) - set(still)}
            left = still
            if progress(group, len(done)) and left:
                group.save(store)
        store.checkpoint(f"group-{number}").unlink(missing_ok=True)
    return None


def _advance(group: Group, left: list[int], store: Store, rule: Stop) -> list[int]:
    """On to the next look; keep the results of those that are done, and return the others."""
    started, batch = time.monotonic(), group.batch
    batch.step(rule.target(batch.iteration) - batch.iteration)
    found = group.look()
    group.seconds += time.monotonic() - started
    still = []
    for index in left:
        reason = _reason(rule, batch.iteration, group.seconds, found[index])
        if reason is None:
            still.append(index)
            continue
        result = Result.of(group.members[index].name, reason, batch.iteration, found[index], group.seconds)
        store.finish(result, batch.programs[index], batch.average(index))
    return still


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
