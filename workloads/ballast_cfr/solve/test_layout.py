"""The loops of one core do the sums that the plain kernels define, whatever the shape of the game."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_cfr.compile.payoff import Csr, matrix
from ballast_cfr.compile.program import compile_game
from ballast_cfr.game import Floats
from ballast_cfr.games import builtin
from ballast_cfr.solve import kernels, sweep_kernels
from ballast_cfr.solve.engine import Engine
from ballast_cfr.solve.layout import index, matrix_layout
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import VARIANTS


def random_matrix(seed: int, rows: int, columns: int, density: float) -> Csr:
    random = np.random.default_rng(seed)
    row, column = np.nonzero(random.random((rows, columns)) < density)
    return matrix(row, column, random.standard_normal(len(row)), (rows, columns))


def plain(csr: Csr, y: Floats) -> Floats:
    g = np.empty(len(csr.start) - 1)
    kernels.gradient((index(csr.start), index(csr.column), csr.value), y, g)
    return g


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 90),
    st.sampled_from([0.02, 0.2, 0.6, 1.0]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_both_ways_to_multiply_come_to_the_bits_of_the_plain_one(
    seed: int, rows: int, columns: int, density: float, reached: float
) -> None:
    csr = random_matrix(seed, rows, columns, density)
    random = np.random.default_rng(seed + 1)
    y = np.where(random.random(columns) < reached, random.random(columns), 0.0)
    layout = matrix_layout(csr, columns)
    by_rows, by_columns, longs = layout.fill(csr.value, np.float64)
    where = np.flatnonzero(y).astype(np.uint32)
    live = np.concatenate([[len(where)], where, np.zeros(columns + 1 - len(where))]).astype(np.uint32)
    none = np.zeros(0)
    found = [np.full(rows + layout.chunks, np.nan) for _ in range(3)]
    sweep_kernels.gather(by_rows, y, found[0])
    sweep_kernels.scatter(by_columns, y, live, found[1])
    sweep_kernels.gradient((by_rows, by_columns, longs), (y, none, none, live, none), found[2])
    summed = np.concatenate([np.diff(csr.start) <= kernels.ROW_CHUNK, np.ones(layout.chunks, dtype=bool)])
    assert found[0][summed].tobytes() == found[1][summed].tobytes()
    assert found[2][:rows].tobytes() == plain(csr, y).tobytes()


def on_cpu(solver: Solver) -> Engine:
    """A solver's engine, which is the CPU's."""
    assert isinstance(solver._engine, Engine)
    return solver._engine


def reference(solver: Solver, iterations: int) -> list[bytes]:
    """The iterations of a solver by the plain kernels, one information set after the other."""
    engine, states = on_cpu(solver), []
    assert solver.program.matrix is not None
    matrices = [(index(csr.start), index(csr.column), csr.value) for csr in solver.program.matrix]
    plans: list[Any] = []
    for player, plex in enumerate(engine.plex):
        regret, sigma, average = (array.copy() for array in engine.state[player])
        states.append((regret, sigma, average))
        x = np.empty(len(sigma) + 1)
        kernels.realise(plex, sigma, x)
        plans.append(x)
    for weight, positive, negative in zip(*solver.variant.tables(solver.iteration, iterations), strict=True):
        for player in (0, 1):
            first, parent, tie = engine.plex[player]
            regret, sigma, average = states[player]
            g = np.empty(len(sigma) + 1)
            kernels.gradient(matrices[player], plans[1 - player], g)
            for i in range(len(tie) - 1, -1, -1):
                a, n = int(first[i]), int(first[i + 1] - first[i])
                rates = (positive, negative, solver.variant.predict)
                value, total = kernels.weigh(a, n, tie[i], rates, regret, sigma, g[1:])
                kernels.normalise(a, n, total, sigma)
                g[parent[a]] += value
            average += weight * plans[player][1:]
            kernels.realise(engine.plex[player], sigma, plans[player])
    return [array.tobytes() for state in states for array in state]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["kuhn", "leduc", "goofspiel", "battleship", "poker-river", "random-game"])
def test_a_sweep_does_what_the_plain_kernels_do(name: str, variant: str) -> None:
    solver = Solver(compile_game(builtin(name)), variant)
    solver.step(7)
    expected = reference(solver, 12)
    solver.step(12)
    states = on_cpu(solver).state
    assert [array.tobytes() for state in states for array in state] == expected


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 5), st.sampled_from(VARIANTS))
def test_random_games_are_swept_as_by_the_plain_kernels(seed: int, depth: int, branching: int, variant: str) -> None:
    game = builtin("random-game", {"seed": seed, "depth": depth, "branching": branching})
    solver = Solver(compile_game(game), variant)
    expected = reference(solver, 6)
    solver.step(6)
    states = on_cpu(solver).state
    assert [array.tobytes() for state in states for array in state] == expected
