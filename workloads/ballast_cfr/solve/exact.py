"""Exact evaluation by the kernels: what every engine uses that does not evaluate on its own device."""

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.compile.treeplex import Treeplex
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.game import Floats
from ballast_cfr.solve import kernels
from ballast_cfr.solve.layout import index

Bytes = NDArray[np.uint8]


class Evaluator:
    """Judges strategies on the sequence form, in float64, at about the cost of one iteration. The same strategies come
    to the same bits, whoever asks."""

    def __init__(self, program: Program) -> None:
        first, second = program.plex
        self._plex = _plex(first), _plex(second)
        self._start: object = None
        self.take(program)

    def take(self, program: Program) -> None:
        """Go on with the payoffs and chances of another program over the same tree."""
        assert program.matrix is not None
        self._shift = program.shift
        if self._start is not program.matrix[0].start:
            self._start = program.matrix[0].start
            self._places = [(index(csr.start), index(csr.column)) for csr in program.matrix]
        first, second = ((*at, csr.value) for at, csr in zip(self._places, program.matrix, strict=True))
        self._matrices = first, second

    def __call__(
        self, kind: tuple[Bytes, Bytes], live: tuple[Bytes, Bytes], strategies: tuple[Floats, Floats]
    ) -> Evaluation:
        """kind (I,), live (S,), strategies (S,): by player. Best replies keep to what is locked and forbidden."""
        held = (kind[0], live[0]), (kind[1], live[1])
        value, best0, best1 = kernels.judge(*self._plex, *held, *self._matrices, *strategies).tolist()
        return Evaluation(self._shift + value, self._shift - best1, self._shift + best0)


def _plex(plex: Treeplex) -> kernels.Plex:
    """As the kernels want it, without tie thresholds: an evaluation has no ties."""
    return index(plex.first), index(plex.parent[plex.of_slot]), np.zeros(plex.infosets)
