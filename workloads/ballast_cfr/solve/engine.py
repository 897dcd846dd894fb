"""The arrays of a solve on one CPU thread, and the calls into the kernels."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.evaluate.best_response import Evaluation, evaluate
from ballast_cfr.game import Floats
from ballast_cfr.solve import kernels, sweep_kernels
from ballast_cfr.solve.exact import Evaluator
from ballast_cfr.solve.layout import MatrixLayout, index, matrix_layout, schedule

T = TypeVar("T")

_NAMES = ("regret", "strategy", "average")


def _both(make: Callable[[int], T]) -> tuple[T, T]:
    return make(0), make(1)


class Engine:
    """State of both players: cumulative regret, current strategy and summed strategy, each (S,), and what follows
    from them.

    mixed: current strategies, plans, values and payoffs in float32; regrets and sums stay in float64.
    """

    where = "cpu"

    def __init__(
        self, program: Program, predict: float, alternating: bool, tie_tol: float, mixed: bool = False
    ) -> None:
        self.program = program
        self.predict = predict
        self.alternating = alternating
        self.ulps = tie_tol * float(np.finfo(np.float64).eps)
        self.real: Any = np.float32 if mixed else np.float64
        self.parent = _both(lambda player: index(program.plex[player].parent[program.plex[player].of_slot]))
        self.kind = _both(lambda player: np.zeros(program.plex[player].infosets, dtype=np.uint8))
        self.live = _both(lambda player: np.ones(program.plex[player].slots, dtype=np.uint8))
        self.held_to = _both(lambda player: 1.0 / np.diff(program.plex[player].first)[program.plex[player].of_slot])
        self.layout: tuple[MatrixLayout, MatrixLayout] | None = None
        self.evaluator: Evaluator | None = None  # of the sequence form
        self.take(program)
        self.state = _both(self._start)
        self.plan = _both(self._plan)
        if program.tree is not None:
            self.reach = np.zeros((3, program.game.nodes))
        self.reset()

    def reset(self) -> None:
        """No regrets, the uniform strategy, or what is locked or left."""
        for player, (regret, strategy, average) in enumerate(self.state):
            regret[:] = 0.0
            average[:] = 0.0
            strategy[:] = self.held_to[player]
        self._realise()

    def take(self, program: Program) -> None:
        """Go on with the payoffs and chances of another program over the same tree."""
        old = self.program.matrix
        shape = None if self.layout is None or old is None else old[0].start
        self.program = program
        self.plex = _both(self._plex)
        if shape is None:
            self._arrange()
        for (_, _, tie), arranged in zip(self.plex, self.schedule, strict=True):
            arranged[4][:] = tie[arranged[3]]
        if program.matrix is not None:
            both = program.matrix
            if shape is not both[0].start:
                many = [plex.slots + 1 for plex in program.plex]
                self.layout = _both(lambda player: matrix_layout(both[player], many[1 - player]))
                if shape is not None:
                    self.plan = _both(self._plan)
                    self._realise()
            layout = self.layout
            assert layout is not None
            self.matrix = _both(lambda player: layout[player].fill(both[player].value, self.real))
            if self.evaluator is None:
                self.evaluator = Evaluator(program)
            self.evaluator.take(program)
        tree = program.tree
        if tree is not None:
            self.nodes = (tree.parent, tree.actor, tree.slot, tree.chance, tree.gain)

    def _plex(self, player: int) -> kernels.Plex:
        plex = self.program.plex[player]
        return index(plex.first), self.parent[player], self.ulps * plex.magnitude

    def _arrange(self) -> None:
        """After a lock or a mask."""
        self.held = self.kind[0], self.live[0], self.kind[1], self.live[1]
        self.schedule = _both(
            lambda player: schedule(
                self.program.plex[player], self.plex[player][2], self.kind[player], self.live[player]
            )
        )

    def _start(self, player: int) -> kernels.State:
        slots = self.program.plex[player].slots
        return np.zeros(slots), self.held_to[player].astype(self.real), np.zeros(slots)

    def _plan(self, player: int) -> sweep_kernels.Plan:
        plex = self.program.plex[player]
        many = plex.slots + 1
        g = np.zeros(many + (self.layout[player].chunks if self.layout else 0), dtype=self.real)
        v = np.zeros(plex.infosets, dtype=self.real)
        return np.ones(many, dtype=self.real), g, v, np.zeros(many + 1, dtype=np.uint32), np.empty(sweep_kernels.BLOCK)

    def _realise(self) -> None:
        for parent, state, plan in zip(self.parent, self.state, self.plan, strict=True):
            sweep_kernels.realise(parent, state[1], plan)

    def run(self, tables: tuple[Floats, Floats, Floats]) -> None:
        """As many iterations as the tables have entries."""
        if self.program.matrix is not None:
            sweep_kernels.run_sequence(
                self.alternating, self.predict, tables, self.schedule, self.parent, self.matrix, self.state, self.plan
            )
        else:
            held = self.held[:2], self.held[2:]
            values = (self.plan[0][1][1:], self.plan[1][1][1:])
            kernels.run_tree(
                self.alternating, self.predict, tables, *self.plex, *held, self.nodes, *self.state, self.reach, *values
            )

    def lock(self, player: int, infoset: int, strategy: Floats) -> None:
        """Hold an information set of the treeplex to a strategy (actions,) from now on; its regrets become zero."""
        self._hold(player, infoset, kernels.LOCKED, np.ones(len(strategy), dtype=np.uint8), strategy)

    def live_actions(self, player: int, infoset: int) -> NDArray[np.bool_]:
        """Which actions (actions,) of an information set are not forbidden."""
        return self.live[player][self._slots(player, infoset)].astype(bool)

    def mask(self, player: int, infoset: int, live: NDArray[np.bool_]) -> None:
        """Forbid the actions of an information set that are not live (actions,); its regrets become zero."""
        kind = kernels.FREE if live.all() else kernels.MASKED
        self._hold(player, infoset, kind, live.astype(np.uint8), live / live.sum())

    def free(self, player: int, infoset: int) -> None:
        """Lift a lock or a mask; play starts from uniform there."""
        slots = self._slots(player, infoset)
        n = slots.stop - slots.start
        self._hold(player, infoset, kernels.FREE, np.ones(n, dtype=np.uint8), np.full(n, 1.0 / n))

    def _hold(self, player: int, infoset: int, kind: int, live: NDArray[np.uint8], strategy: Floats) -> None:
        slots = self._slots(player, infoset)
        self.kind[player][infoset] = kind
        self.live[player][slots] = live
        self.held_to[player][slots] = strategy
        regret, current, average = self.state[player]
        regret[slots] = 0.0
        current[slots] = strategy
        average[slots] *= live  # an average that still plays what is forbidden would beat the best reply
        self._arrange()
        self._realise()

    def _slots(self, player: int, infoset: int) -> slice:
        first = self.program.plex[player].first
        return slice(int(first[infoset]), int(first[infoset + 1]))

    def held_digest(self) -> str | None:
        """SHA-256 of all locks and masks, None if there are none."""
        if not any(kind.any() for kind in self.kind):
            return None
        whole = hashlib.sha256()
        for player in (0, 1):
            held = self.kind[player][self.program.plex[player].of_slot] > 0
            for array in (self.kind[player], self.live[player], np.where(held, self.held_to[player], 0.0)):
                whole.update(np.ascontiguousarray(array).tobytes())
        return whole.hexdigest()

    def average(self) -> tuple[Floats, Floats]:
        """The summed strategies, normalised; what is locked is what it is locked to."""
        result = (self.held_to[0].copy(), self.held_to[1].copy())
        for player, strategy in enumerate(result):
            held = (self.kind[player], self.live[player])
            kernels.average_strategy(self.plex[player][0], self.state[player][2], held, strategy)
        return result

    def copies(self, which: int) -> tuple[Floats, Floats]:
        """Copies of one array of both players' states."""
        return self.state[0][which].astype(np.float64), self.state[1][which].astype(np.float64)

    def evaluate(self, strategies: tuple[Floats, Floats]) -> Evaluation:
        """Exact evaluation, on the sequence form at about the cost of one iteration. Best replies keep to what is
        locked and forbidden."""
        if self.evaluator is None:
            limits = tuple((kind == kernels.LOCKED, live == 0) for kind, live in zip(self.kind, self.live, strict=True))
            return evaluate(self.program, strategies, (limits[0], limits[1]) if self.held_digest() else None)
        return self.evaluator(self.kind, self.live, strategies)

    def arrays(self) -> dict[str, Floats]:
        """What a checkpoint holds; plans follow from the strategies."""
        return {
            f"{name}{player}": self.state[player][i].astype(np.float64)
            for player in (0, 1)
            for i, name in enumerate(_NAMES)
        }

    def restore(self, arrays: Mapping[str, Floats]) -> None:
        """Take over the arrays of a checkpoint."""
        for player in (0, 1):
            for i, name in enumerate(_NAMES):
                self.state[player][i][:] = arrays[f"{name}{player}"]
        self._realise()
