"""Arranging a compiled game for the CPU's loops (`sweep_kernels.py`): what is alike lies together.

Nothing here changes a sum: rows keep their entries' order, and only rows change places.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.payoff import Csr
from ballast_cfr.compile.treeplex import Treeplex
from ballast_cfr.game import Floats
from ballast_cfr.solve.kernels import FREE, ROW_CHUNK
from ballast_cfr.solve.sweep_kernels import Matrix, Schedule

_WIDTH = 4  # rows summed side by side
Longs = NDArray[np.int64]


def index(array: NDArray[Any]) -> NDArray[np.uint32]:
    """Unsigned, which spares every access the question whether it counts from the end."""
    return np.ascontiguousarray(array, dtype=np.uint32)


def _runs(sorted_keys: NDArray[Any]) -> list[tuple[int, int]]:
    """Ranges of equal values in a sorted array."""
    edges = [0, *(np.flatnonzero(np.diff(sorted_keys)) + 1).tolist(), len(sorted_keys)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


@dataclass(frozen=True, eq=False)
class MatrixLayout:
    """Where a sparse matrix's entries go. by_row, by_column: (nnz,) which entry of the matrix comes at each place.
    chunks: how many sums of parts of rows follow the rows in g."""

    rows: tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
    columns: tuple[NDArray[np.uint32], NDArray[np.uint32]]
    longs: NDArray[np.uint32]
    by_row: Longs
    by_column: Longs
    chunks: int

    def fill(self, value: Floats, dtype: Any) -> Matrix:
        """The arrays for the loops, with the values (nnz,) of the entries."""
        cast = value.astype(dtype)
        return (*self.rows, cast[self.by_row]), (*self.columns, cast[self.by_column]), self.longs


def matrix_layout(csr: Csr, columns: int) -> MatrixLayout:
    """Arrange a matrix. columns: how many it has."""
    start = csr.start.astype(np.int64)
    many = len(start) - 1
    parts = np.maximum(1, -(-np.diff(start) // ROW_CHUNK))
    of_part = np.repeat(np.arange(many), parts)
    within = np.arange(len(of_part)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin = start[of_part] + ROW_CHUNK * within
    length = np.minimum(start[of_part + 1] - begin, ROW_CHUNK)
    split = parts[of_part] > 1
    out = np.where(split, many + np.cumsum(split) - 1, of_part)
    order = np.argsort(length, kind="stable")
    runs, by_row = [], []
    entry = 0
    for a, b in _runs(length[order]):
        chosen, n = order[a:b], int(length[order[a]])
        runs.append((n, a, b, entry))
        entries = begin[chosen][:, None] + np.arange(n)
        whole = len(chosen) // _WIDTH * _WIDTH
        by_row.append(entries[:whole].reshape(whole // _WIDTH, _WIDTH, n).transpose(0, 2, 1).ravel())
        by_row.append(entries[whole:].ravel())
        entry += entries.size
    taken = np.concatenate([np.zeros(0, dtype=np.int64), *by_row])
    by_column = np.argsort(csr.column, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(csr.column, minlength=columns))])
    target = np.repeat(out, length)[by_column]
    long_rows = np.flatnonzero(parts > 1)
    first = np.concatenate([[0], np.cumsum(parts)])[long_rows]
    return MatrixLayout(
        rows=(index(np.array(runs).reshape(-1, 4)), index(out[order]), index(csr.column[taken])),
        columns=(index(starts), index(target)),
        longs=index(np.stack([long_rows, out[first] if len(first) else first, parts[long_rows]], axis=1)),
        by_row=taken,
        by_column=by_column,
        chunks=int(split.sum()),
    )


def schedule(plex: Treeplex, tie: Floats, kind: NDArray[np.uint8], live: NDArray[np.uint8]) -> Schedule:
    """Arrange a treeplex. tie: (I,) threshold; kind: (I,) FREE, LOCKED or MASKED; live: (S,) 0 where forbidden."""
    many = np.diff(plex.first).astype(np.int64)
    key = many * (int(kind.max(initial=FREE)) + 1) + kind
    levels: list[tuple[int, int, int, int]] = []
    runs: list[tuple[int, int, int, int]] = []
    orders = [np.zeros(0, dtype=np.int64)]
    placed = 0
    for start, stop in reversed(plex.levels()):
        order = start + np.argsort(key[start:stop], kind="stable")
        before = len(runs)
        for a, b in _runs(key[order]):
            runs.append((int(many[order[a]]), placed + a, placed + b, int(kind[order[a]])))
        levels.append((before, len(runs), start, stop))
        orders.append(order)
        placed += len(order)
    order = np.concatenate(orders)
    return (
        index(np.array(levels).reshape(-1, 4)),
        index(np.array(runs).reshape(-1, 4)),
        index(plex.first[:-1][order]),
        index(order),
        np.ascontiguousarray(tie[order]),
        index(plex.parent),
        index(live),
    )
