"""The arrays of a solve on one CPU thread, and the calls into the kernels."""

from collections.abc import Mapping

import numpy as np

from ballast_cfr.compile.program import Program
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.game import Floats
from ballast_cfr.solve import kernels

_NAMES = ("regret", "strategy", "average")


class Engine:
    """State of both players: cumulative regret, current strategy and summed strategy, each (S,), and what follows from them."""

    def __init__(self, program: Program, predict: float, alternating: bool, tie_tol: float) -> None:
        self.program = program
        self.predict = predict
        self.alternating = alternating
        ulp = tie_tol * float(np.finfo(np.float64).eps)
        self.plex = [(plex.first, plex.parent, ulp * plex.magnitude) for plex in program.plex]
        self.state = [(np.zeros(p.slots), 1.0 / np.diff(p.first)[p.of_slot], np.zeros(p.slots)) for p in program.plex]
        self.plan = [(np.ones(plex.slots + 1), np.zeros(plex.slots + 1)) for plex in program.plex]
        if program.matrix is not None:
            self.matrix = [(csr.start, csr.column, csr.value) for csr in program.matrix]
            self._realise()
        else:
            tree = program.tree
            assert tree is not None
            self.nodes = (tree.parent, tree.actor, tree.slot, tree.chance, tree.gain)
            self.reach = np.zeros((3, program.game.nodes))

    def _realise(self) -> None:
        for plex, state, plan in zip(self.plex, self.state, self.plan, strict=True):
            kernels.realise(plex, state[1], plan[0])

    def run(self, tables: tuple[Floats, Floats, Floats]) -> None:
        """As many iterations as the tables have entries."""
        if self.program.matrix is not None:
            kernels.run_sequence(
                self.alternating, self.predict, tables, *self.plex, *self.matrix, *self.state, *self.plan
            )
        else:
            values = (self.plan[0][1], self.plan[1][1])
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
        if self.program.matrix is None:
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
        if self.program.matrix is not None:
            self._realise()
