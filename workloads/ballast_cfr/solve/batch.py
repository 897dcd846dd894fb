"""Many solves over one game tree, which differ in payoffs and ranges: scenarios, ablations, sweeps.

Each instance does exactly what a solver alone would do, to the bit. What is compiled is shared; states are not.
Kernels hold no interpreter lock, so instances can be spread over threads.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError
from ballast_cfr.game import Floats
from ballast_cfr.solve.solver import Solver


class Batch:
    """`size` solvers of one program; other arguments as for Solver. threads: how many work at once."""

    def __init__(self, program: Program, size: int, *args: Any, threads: int = 1, **options: Any) -> None:
        if size < 1 or threads < 1:
            raise BadInputError(f"batch size is {size} and threads are {threads}, but both must be at least 1")
        self.solvers = [Solver(program, *args, **options) for _ in range(size)]
        self.threads = threads

    def _each(self, what: Callable[[Solver], Any]) -> list[Any]:
        if self.threads == 1:
            return [what(solver) for solver in self.solvers]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(what, self.solvers))

    def _spread(self, name: str, rows: Sequence[Any] | Floats) -> None:
        if len(rows) != len(self.solvers):
            raise BadInputError(f"{name} are given for {len(rows)} instances, but the batch has {len(self.solvers)}")

    def set_payoffs(self, payoffs: Floats) -> None:
        """(B, T) payoffs of player 0, a row for each instance."""
        self._spread("payoffs", payoffs)
        for solver, row in zip(self.solvers, payoffs, strict=True):
            solver.set_payoffs(row)

    def set_root_ranges(self, first: Floats, second: Floats) -> None:
        """(B, types) factors for what each player is dealt, a row for each instance."""
        self._spread("ranges of player 0", first)
        self._spread("ranges of player 1", second)
        for solver, mine, theirs in zip(self.solvers, first, second, strict=True):
            solver.set_root_ranges(mine, theirs)

    def lock(self, infoset: int | str, strategy: Sequence[float] | Floats, player: int | None = None) -> None:
        """Hold an information set to a strategy in every instance."""
        for solver in self.solvers:
            solver.lock(infoset, strategy, player)

    def mask(self, infoset: int | str, actions: Sequence[int | str], player: int | None = None) -> None:
        """Forbid actions of an information set in every instance."""
        for solver in self.solvers:
            solver.mask(infoset, actions, player)

    def reset(self) -> None:
        """Every instance back to iteration 0."""
        for solver in self.solvers:
            solver.reset()

    def step(self, iterations: int = 1) -> None:
        """Do exactly this many iterations in every instance."""
        self._each(lambda solver: solver.step(iterations))

    def exploitability(self) -> Floats:
        """(B,) of the average strategies."""
        return np.array(self._each(lambda solver: solver.exploitability()))

    def value(self) -> Floats:
        """(B,) payoff of player 0."""
        return np.array(self._each(lambda solver: solver.value()))

    def average(self) -> tuple[Floats, Floats]:
        """The average strategies of both players, each (B, S)."""
        found = self._each(lambda solver: solver.average())
        return np.stack([first for first, _ in found]), np.stack([second for _, second in found])
