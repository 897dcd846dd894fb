"""The payoff matrix of the sequence form: what each pair of sequences is worth, chance included.

A[r, c] sums chance reach times payoff over the terminals at which player 0 has played sequence r and player 1
sequence c. Each player gets the rows of its own sequences with the payoff seen from its side, so that both updates
run the same code.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.game import Floats


@dataclass(frozen=True, eq=False)
class Csr:
    """A sparse matrix by rows. start: (rows + 1,); column, value: (nnz,). cell: the entry that each terminal it was
    made of is part of.

    Columns descend in each row: the deepest sequences, whose reach is smallest, are summed first, and every sum has
    one order.
    """

    start: NDArray[np.int32]
    column: NDArray[np.int32]
    value: Floats
    cell: NDArray[np.int64]


def matrix(row: NDArray[np.int64], column: NDArray[np.int64], weight: Floats, shape: tuple[int, int]) -> Csr:
    """Collect the terminals (row, column, weight), each (T,), adding up those of one cell in their order."""
    key = row * shape[1] + (shape[1] - 1 - column)
    cells, inverse = np.unique(key, return_inverse=True)
    value = np.bincount(inverse, weights=weight, minlength=len(cells))
    counts = np.bincount(cells // shape[1], minlength=shape[0])
    return Csr(
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        column=(shape[1] - 1 - cells % shape[1]).astype(np.int32),
        value=np.asarray(value, dtype=np.float64),
        cell=inverse,
    )
