"""Compiling every kernel before it is needed, such as when an image is built."""

import time

from ballast_cfr.compile.program import compile_game
from ballast_cfr.games import builtin
from ballast_cfr.solve.solver import Solver


def warm() -> str:
    """Solve the smallest game in both forms and precisions, which puts the code of every kernel into the cache; says
    what was done."""
    from ballast_cfr.solve.jit import cache_directory  # imports numba, which nothing else needs to wait for

    started = time.monotonic()
    for form, dtype in (("sequence", "Float64"), ("sequence", "Mixed"), ("tree", "Float64")):
        solver = Solver(compile_game(builtin("kuhn"), form), dtype=dtype)
        solver.step(2)
        solver.evaluate()
    return f"kernels are in {cache_directory()} after {time.monotonic() - started:.1f} s"
