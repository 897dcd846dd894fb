"""Many solves of one game at once: other payoffs, root ranges, locks and masks over the same topology.

Each solve has a block or a cluster of blocks of its own, so a GPU does as many at a time as it has multiprocessors, and
every one of them comes to the bits it would come to alone.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.compile.variation import Variations
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.game import Floats
from ballast_cfr.gpu.device import device
from ballast_cfr.gpu.engine import LONGEST, CudaEngine
from ballast_cfr.gpu.shape import ONE, Shape
from ballast_cfr.solve import variants
from ballast_cfr.solve.revalue import Drawn, Paid

# Half of a multiprocessor's shared memory, so that two solves share one: while one waits, the other works.
_HALF = 112 * 1024
SHAPE = Shape(ONE, 1, 512, shared=_HALF)


class CudaBatch:
    """`size` solves of one game on GPU number `gpu`. Arrays (S,) are in the order of `program.plex[player]`, as in
    Solver."""

    def __init__(
        self,
        program: Program,
        size: int,
        variant: str = "CFRPlus",
        *,
        updates: str = "Alternating",
        tie_tol: float = 64,
        parameters: Mapping[str, str | float] | None = None,
        gpu: int = 0,
    ) -> None:
        self.program, self.size, self.iteration = program, size, 0
        self.variant = variants.variant(variant, parameters)
        alternating = variants.updates(updates) == "Alternating"
        on = device(gpu)
        self.engine = CudaEngine(program, self.variant.predict, alternating, tie_tol, SHAPE, size, device=on)
        self.variations = Variations(program)
        self.programs = [program] * size
        self._numbers: dict[int, tuple[Paid, Drawn]] = {}

    def step(self, iterations: int = 1) -> None:
        """Do exactly this many iterations of every solve."""
        end = self.iteration + iterations
        while self.iteration < end:
            self.start(end - self.iteration)
            self.finish()

    def start(self, iterations: int) -> None:
        """Set out to do at most so many iterations, and do not wait: meanwhile another GPU can be given work."""
        count = min(iterations, LONGEST)
        self.engine.prepare(self.variant.tables(self.iteration, count))
        self.engine.start()
        self.iteration += count

    def finish(self) -> None:
        """Wait for the end of what was started."""
        self.engine.finish()

    def set_payoffs(self, index: int, payoffs: Floats) -> None:
        """Give one solve other payoffs of player 0, (T,)."""
        self._change(index, self.variations.payoffs(payoffs), self._numbers_of(index)[1])

    def set_root_ranges(self, index: int, first: Floats, second: Floats) -> None:
        """Scale the probability of one solve's deals: see Solver.set_root_ranges."""
        self._change(index, self._numbers_of(index)[0], self.variations.ranges(first, second))

    def _numbers_of(self, index: int) -> tuple[Paid, Drawn]:
        return self._numbers.get(index, (self.variations.paid, self.variations.drawn))

    def _change(self, index: int, paid: Paid, drawn: Drawn) -> None:
        program = self.variations.make(self.program, paid, drawn)
        self.engine.take(program, index)
        self.programs[index], self._numbers[index] = program, (paid, drawn)

    def lock(self, index: int, player: int, infoset: int, strategy: Floats) -> None:
        """Hold a strategy in one information set of one solve."""
        self.engine.lock(player, infoset, strategy, index)

    def mask(self, index: int, player: int, infoset: int, live: NDArray[np.bool_]) -> None:
        """Forbid the actions that are not `live` in one information set of one solve."""
        self.engine.mask(player, infoset, live, index)

    def held_digests(self) -> list[str | None]:
        """SHA-256 of every solve's locks and masks, None where there are none."""
        return [held.digest() for held in self.engine.held]

    def average(self, index: int) -> tuple[Floats, Floats]:
        """One solve's average strategies."""
        return self.engine.average(index)

    def evaluations(self) -> list[Evaluation]:
        """Every solve's exact evaluation, on the GPU. Payoffs that were set keep the game's constant."""
        return self.engine.evaluations()

    def reset(self) -> None:
        """All solves back to iteration 0."""
        self.iteration = 0
        self.engine.reset()
