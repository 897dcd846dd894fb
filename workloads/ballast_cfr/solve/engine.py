"""The arrays of a solve on one CPU thread, and the calls into the kernels."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.payoff import Csr
from ballast_cfr.compile.program import Program
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.game import Floats
from ballast_cfr.solve import kernels

T = TypeVar("T")

_NAMES = ("regret", "strategy", "average")


def index(array: NDArray[np.int32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(array, dtype=np.int32).view(np.uint32)


def _arrays(csr: Csr) -> kernels.Matrix:
    return index(csr.start), index(csr.column), csr.value


def _both(make: Callable[[int], T]) -> tuple[T, T]:
    return make(0), make(1)


class Engine:
    """State of both players: cumulative regret, current strategy and summed strategy, each (S,), and what follows
    from them."""

    def __init__(self, program: Program, predict: float, alternating: bool, tie_tol: float) -> None:
        self.program = program
        self.predict = predict
        self.alternating = alternating
        self.ulps = tie_tol * float(np.finfo(np.float64).eps)
        self.plex = _both(self._plex)
        self.state = _both(self._start)
        slots = [plex.slots for plex in program.plex]
        self.plan = _both(lambda player: (np.ones(slots[player] + 1), np.zeros(slots[player] + 1)))
        self.matrix = None if program.matrix is None else (_arrays(program.matrix[0]), _arrays(program.matrix[1]))
        tree = program.tree
        if tree is not None:
            self.nodes = (tree.parent, tree.actor, tree.slot, tree.chance, tree.gain)
            self.reach = np.zeros((3, program.game.nodes))
        self._realise()

    def _plex(self, player: int) -> kernels.Plex:
        plex = self.program.plex[player]
        return index(plex.first), index(plex.parent[plex.of_slot]), self.ulps * plex.magnitude

    def _start(self, player: int) -> kernels.State:
        plex = self.program.plex[player]
        return np.zeros(plex.slots), 1.0 / np.diff(plex.first)[plex.of_slot], np.zeros(plex.slots)

    def _realise(self) -> None:
        for plex, state, plan in zip(self.plex, self.state, self.plan, strict=True):
            kernels.realise(plex, state[1], plan[0])

    def run(self, tables: tuple[Floats, Floats, Floats]) -> None:
        """As many iterations as the tables have entries."""
        if self.matrix is not None:
            kernels.run_sequence(
                self.alternating, self.predict, tables, *self.plex, *self.matrix, *self.state, *self.plan
            )
        else:
            values = (self.plan[0][1][1:], self.plan[1][1][1:])
            kernels.run_tree(
                self.alternating, self.predict, tables, *self.plex, self.nodes, *self.state, self.reach, *values
            )

    def average(self) -> tuple[Floats, Floats]:
        """The summed strategies, normalised."""
        result = (np.empty(len(self.state[0][0])), np.empty(len(self.state[1][0])))
        for plex, state, strategy in zip(self.plex, self.state, result, strict=True):
            kernels.average_strategy(plex[0], state[2], strategy)
        return result

    def copies(self, which: int) -> tuple[Floats, Floats]:
        """Copies of one array of both players' states."""
        return self.state[0][which].copy(), self.state[1][which].copy()

    def evaluate(self, strategies: tuple[Floats, Floats]) -> Evaluation | None:
        """Exact evaluation on the sequence form, at about the cost of one iteration; None on the tree form."""
        if self.matrix is None:
            return None
        value, best0, best1 = (float(v) for v in kernels.judge(*self.plex, *self.matrix, *strategies))
        shift = self.program.shift
        return Evaluation(shift + value, shift - best1, shift + best0)

    def arrays(self) -> dict[str, Floats]:
        """What a checkpoint holds; plans follow from the strategies."""
        return {f"{name}{player}": self.state[player][i] for player in (0, 1) for i, name in enumerate(_NAMES)}

    def restore(self, arrays: Mapping[str, Floats]) -> None:
        """Take over the arrays of a checkpoint."""
        for name, array in self.arrays().items():
            array[:] = arrays[name]
        self._realise()
