"""Compiling every kernel before it is needed, such as when an image is built."""

import time

import numpy as np

from ballast_cfr.compile.program import compile_game
from ballast_cfr.games import builtin
from ballast_cfr.solve.solver import Solver


def warm() -> str:
    """Solve the smallest game in both forms and precisions and change it, which puts the code of every kernel into the
    cache; says what was done."""
    from ballast_cfr.solve import revalue_kernels  # imports numba, which nothing else needs to wait for
    from ballast_cfr.solve.jit import cache_directory

    started = time.monotonic()
    for form, dtype in (("sequence", "Float64"), ("sequence", "Mixed"), ("tree", "Float64")):
        solver = Solver(compile_game(builtin("kuhn"), form), dtype=dtype)
        solver.set_payoffs(solver.program.game.payoff[:, 0].copy())
        solver.set_root_ranges(np.ones(3), np.ones(3))
        solver.step(2)
        solver.evaluate()
    for real in (np.float64, np.float32):  # what a GPU is given
        revalue_kernels.arrange(np.zeros(1), np.zeros(1, dtype=np.uint32), np.zeros(1, dtype=real))
    revalue_kernels.thresholds(np.zeros(1), 0.0, np.zeros(1, dtype=np.uint32), np.zeros(1))
    return f"kernels are in {cache_directory()} after {time.monotonic() - started:.1f} s"
