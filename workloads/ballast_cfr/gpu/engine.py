"""The arrays of a solve on the GPU, and the launches; the same interface as the CPU's `solve/engine.py`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.game import Floats
from ballast_cfr.gpu import device as gpu
from ballast_cfr.gpu.layout import LIMIT, WARP, Side, build
from ballast_cfr.gpu.payoffs import Payoffs
from ballast_cfr.gpu.plan import divide
from ballast_cfr.gpu.shape import CLUSTER, GRID, Shape, bytes_of_column, macros
from ballast_cfr.gpu.state import SideState, problem
from ballast_cfr.solve.exact import Evaluator
from ballast_cfr.solve.held import Held
from ballast_cfr.solve.kernels import FREE, LOCKED, MASKED

_NAMES = {"regret": "regret", "strategy": "sigma", "average": "average"}
LONGEST = 1 << 16  # iterations in a launch


@dataclass(frozen=True)
class Stopped:
    """How a launch ended. iterations: done. met: whether each instance met the target. found: (instances, 3) value of
    player 0 and both best replies at the last look, without the game's shift."""

    iterations: NDArray[np.uint32]
    met: NDArray[np.bool_]
    found: Floats


def source() -> str:
    """The kernels' text; barriers come before the stages that use them."""
    parts = {path.stem: path.read_text() for path in gpu.KERNELS.glob("*.cu")}
    head, mark, body = parts["memory"].partition("// One player's share as a block sees it.")
    return "\n".join(
        [head, parts["barrier"], mark + body, *(parts[name] for name in ("stages", "lanes", "sets", "solve"))]
    )


def lay_out(program: Program, shape: Shape) -> tuple[Side, Side]:
    """Both players' arrays for a shape. Raises BadInputError for a game without a sequence form."""
    if program.matrix is None:
        raise BadInputError(
            f"game {program.game.name} is compiled to the tree form, which runs on the CPU only; choose --device cpu"
        )
    most = max(int(np.diff(plex.first).max(initial=1)) for plex in program.plex)
    if most > WARP:
        raise BadInputError(
            f"game {program.game.name} has an information set with {most} actions, and the GPU takes {WARP} at most; "
            "choose --device cpu"
        )
    divisions = []
    for player in (0, 1):
        entries = np.diff(program.matrix[player].start)[1:]
        divisions.append(divide(program.plex[player], entries, shape.blocks, shape.regime, shape.cut[player]))
    sides = build(program.plex, program.matrix, (divisions[0], divisions[1]), shape.sets)
    largest = max(side.sizes["slots"] + side.sizes["infosets"] + side.all_roots for side in sides)
    if largest >= LIMIT:
        raise BadInputError(
            f"game {program.game.name}: {largest} slots and information sets in one block of shape {shape}, and "
            f"{LIMIT} at most can be counted; choose more blocks or --device cpu"
        )
    return sides


def build_kernel(
    sides: tuple[Side, Side], shape: Shape, alternating: bool, device: gpu.Device, poison: bool = False
) -> tuple[bytes, int]:
    """The machine code for a game in a shape, and the bytes of shared memory it wants."""
    defined, shared = macros(sides, shape, alternating)
    architecture = "sm_{}{}".format(*device.capability)
    return gpu.compile_source(source(), {**defined, "POISON": int(poison)}, architecture), shared


class CudaEngine:
    """State of both players for `instances` solves of one game at once."""

    def __init__(
        self,
        program: Program,
        predict: float,
        alternating: bool,
        tie_tol: float,
        shape: Shape,
        instances: int = 1,
        poison: bool = False,
        device: gpu.Device | None = None,
    ) -> None:
        if instances > 1 and shape.regime == GRID:
            raise BadInputError(f"shape {shape} holds one solve, not {instances}; choose one block or a cluster")
        self.device = device or gpu.device()
        self.device.use()
        self.shape, self.instances, self.predict, self.alternating = shape, instances, predict, alternating
        self.ulps = tie_tol * float(np.finfo(np.float64).eps)
        self.poison = poison
        self.where = f"{self.device.name}, {shape}"
        self.held = [Held(program) for _ in range(instances)]
        self._build(program)
        self.tables = [gpu.Buffer(8 * LONGEST) for _ in range(3)]
        self.looks = gpu.Buffer(4 * LONGEST)
        self.found, self.status = gpu.Buffer(24 * instances), gpu.Buffer(8 * instances)
        self.barrier = gpu.Buffer(512 * instances)
        self.seconds = gpu.Stopwatch()
        if shape.mixed:
            self.look = None  # type: ignore[method-assign,assignment]  # its bits are too few to stop by

    def _build(self, program: Program) -> None:
        """Lay the game out, compile, and fill the GPU's memory."""
        self.device.use()
        shape = self.shape
        self.program = program
        sides = lay_out(program, shape)
        binary, shared = build_kernel(sides, shape, self.alternating, self.device, self.poison)
        self.kernel = gpu.Kernel(binary, "solve", shared)
        if shape.regime == GRID and self.kernel.blocks_per_multiprocessor(shape.threads) < 1:
            raise BadInputError(f"shape {shape}: its blocks are not all resident at once; choose fewer threads")
        self.payoffs = Payoffs(sides, np.float32 if shape.mixed else np.float64, self.ulps, self.instances)
        column = bytes_of_column(sides)
        self.sides = (
            SideState(program, 0, sides[0], column, self.payoffs),
            SideState(program, 1, sides[1], column, self.payoffs),
        )
        for instance in range(self.instances):
            self._put_payoffs(program, instance)

    def run(self, tables: tuple[Floats, Floats, Floats]) -> None:
        """As many iterations as the tables have entries."""
        for start in range(0, len(tables[0]), LONGEST):
            self.launch(tuple(table[start : start + LONGEST] for table in tables))

    def launch(self, tables: tuple[Floats, ...], looks: NDArray[Any] | None = None, target: float = -1.0) -> Stopped:
        """One launch, to its end. looks: iterations of it, counted from 1, after which to evaluate and stop if the
        exploitability is at most `target`."""
        self.prepare(tables, looks, target)
        self.start()
        return self.finish()

    def prepare(self, tables: tuple[Floats, ...], looks: NDArray[Any] | None = None, target: float = -1.0) -> None:
        """Hand over what a launch reads."""
        for held, table in zip(self.tables, tables, strict=True):
            held.write(np.asarray(table, dtype=np.float64))
        chosen = np.zeros(0, dtype=np.uint32) if looks is None else np.asarray(looks, dtype=np.uint32)
        self.looks.write(chosen)
        names = ("weight", "positive", "negative")
        rest: dict[str, Any] = {name: held.pointer for name, held in zip(names, self.tables, strict=True)}
        for name in ("looks", "found", "status", "barrier"):
            rest[name] = getattr(self, name).pointer
        rest |= {"predict": self.predict, "target": target, "shift": self.program.shift}
        rest |= {"iterations": len(tables[0]), "n_looks": len(chosen)}
        self.argument = problem(self.sides, rest)
        self.barrier.fill(0)

    def start(self) -> None:
        """Launch what was prepared."""
        shape = self.shape
        self.kernel.launch(
            shape.blocks * self.instances,
            shape.threads,
            self.argument,
            cluster=shape.blocks if shape.regime == CLUSTER else 0,
            cooperative=shape.regime == GRID,
        )

    def finish(self) -> Stopped:
        """Wait for a launch's end."""
        gpu.synchronize(self.device)
        status = self.status.read(np.uint32, 2 * self.instances).reshape(-1, 2)
        found = self.found.read(np.float64, 3 * self.instances).reshape(-1, 3)
        return Stopped(status[:, 0], status[:, 1] != 0, found)

    def look(
        self, tables: tuple[Floats, Floats, Floats], looks: list[int], target: float
    ) -> tuple[int, Evaluation | None]:
        """Iterate, evaluating on the GPU after each of `looks` (iterations of this call, from 1), and stop where the
        exploitability is at most `target`. Returns the iterations done, and the last evaluation."""
        stopped = self.launch(tables, np.array(looks, dtype=np.uint32), target)
        done = int(stopped.iterations[0])
        return done, self._evaluation(stopped.found[0]) if any(look <= done for look in looks) else None

    def _evaluation(self, found: Floats) -> Evaluation:
        value, best0, best1 = found.tolist()
        shift = self.program.shift
        return Evaluation(shift + value, shift - best1, shift + best0)

    def evaluations(self) -> list[Evaluation]:
        """Exact evaluation of every instance's average strategies, on the GPU."""
        none = np.zeros(0)
        found = self.launch((none, none, none), np.zeros(1, dtype=np.uint32)).found
        return [self._evaluation(one) for one in found]

    def evaluate(self, strategies: tuple[Floats, Floats]) -> Evaluation:
        """Exact evaluation of the average strategies: on the GPU, or of mixed ones in float64 on the CPU."""
        if not self.shape.mixed:
            return self.evaluations()[0]
        self.evaluator.take(self.program)
        held = self.held[0]
        return self.evaluator((held.kind[0], held.kind[1]), (held.live[0], held.live[1]), strategies)

    @cached_property
    def evaluator(self) -> Evaluator:
        """What judges mixed strategies."""
        return Evaluator(self.program)

    def averages(self, instance: int = 0) -> tuple[Floats, Floats]:
        """The summed strategies of one instance, as they are."""
        return self.sides[0].get("average")[instance], self.sides[1].get("average")[instance]

    def average(self, instance: int = 0) -> tuple[Floats, Floats]:
        """The summed strategies, normalised by the CPU's kernel, which rounds as the GPU does."""
        from ballast_cfr.solve import kernels
        from ballast_cfr.solve.layout import index

        held = self.held[instance]
        result = (held.to[0].copy(), held.to[1].copy())
        for player, total in enumerate(self.averages(instance)):
            kinds = (held.kind[player], held.live[player])
            kernels.average_strategy(
                index(self.sides[player].plex.first), np.ascontiguousarray(total), kinds, result[player]
            )
        return result

    def copies(self, which: int) -> tuple[Floats, Floats]:
        """Copies of one array of both players' states."""
        name = list(_NAMES.values())[which]
        return tuple(side.get(name)[0].astype(np.float64) for side in self.sides)

    def arrays(self, instance: int = 0) -> dict[str, Floats]:
        """What a checkpoint holds."""
        return {
            f"{name}{player}": self.sides[player].get(ours)[instance].astype(np.float64)
            for player in (0, 1)
            for name, ours in _NAMES.items()
        }

    def restore(self, arrays: Mapping[str, Floats], instance: int = 0) -> None:
        """Take over the arrays of a checkpoint."""
        for player, side in enumerate(self.sides):
            for name, ours in _NAMES.items():
                side.put(ours, arrays[f"{name}{player}"], instance)
            side.realise()

    def reset(self) -> None:
        """Back to the start, with whatever payoffs, locks and masks there are."""
        for side in self.sides:
            side.reset()

    def _put_payoffs(self, program: Program, instance: int) -> None:
        assert program.matrix is not None
        values = program.matrix[0].value, program.matrix[1].value
        self.payoffs.put(values, (program.plex[0].magnitude, program.plex[1].magnitude), instance)

    def take(self, program: Program, instance: int = 0) -> None:
        """Go on with the payoffs and chances of another program over the same tree. Raises BadInputError if it pays
        where nothing was paid before, in a batch, whose solves share one matrix."""
        assert program.matrix is not None and self.program.matrix is not None
        if program.matrix[0].start is not self.program.matrix[0].start:
            if self.instances > 1:
                raise BadInputError(
                    f"game {program.game.name}: solve {instance} of the batch pays at a terminal that paid nothing "
                    "when the batch was made; make the batch of a game that pays there"
                )
            kept, held = self.arrays(), self.held[0]
            self._build(program)
            self._hold_again(held)
            self.restore(kept)
            return
        if self.instances == 1:
            self.program = program
        self._put_payoffs(program, instance)

    def _hold_again(self, held: Held) -> None:
        for player, side in enumerate(self.sides):
            for infoset in np.flatnonzero(held.kind[player]).tolist():
                slots = held.slots(player, infoset)
                live = held.live[player][slots].astype(bool) if held.kind[player][infoset] == MASKED else None
                side.hold(infoset, live, held.to[player][slots], 0)

    def lock(self, player: int, infoset: int, strategy: Floats, instance: int = 0) -> None:
        """Hold a strategy in an information set of the treeplex, from now on; its regrets become zero."""
        self.held[instance].put(player, infoset, LOCKED, np.ones(len(strategy), dtype=np.uint8), strategy)
        self.sides[player].hold(infoset, None, strategy, instance)
        self.sides[player].realise()

    def live_actions(self, player: int, infoset: int, instance: int = 0) -> NDArray[np.bool_]:
        """Which actions (actions,) of an information set are not forbidden."""
        held = self.held[instance]
        return held.live[player][held.slots(player, infoset)].astype(bool)

    def mask(self, player: int, infoset: int, live: NDArray[np.bool_], instance: int = 0) -> None:
        """Forbid the actions of an information set that are not `live`, from now on; its regrets become zero."""
        strategy = live / live.sum()
        self.held[instance].put(player, infoset, FREE if live.all() else MASKED, live.astype(np.uint8), strategy)
        self.sides[player].hold(infoset, live, strategy, instance)
        self.sides[player].realise()

    def free(self, player: int, infoset: int, instance: int = 0) -> None:
        """Lift a lock or a mask; play starts from uniform there."""
        slots = self.held[instance].slots(player, infoset)
        every = np.ones(slots.stop - slots.start, dtype=bool)
        strategy = every / every.sum()
        self.held[instance].put(player, infoset, FREE, every.astype(np.uint8), strategy)
        self.sides[player].hold(infoset, every, strategy, instance)
        self.sides[player].realise()

    def held_digest(self) -> str | None:
        """SHA-256 of all locks and masks, None if there are none."""
        return self.held[0].digest()
