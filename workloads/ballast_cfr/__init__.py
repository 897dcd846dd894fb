"""Counterfactual regret minimisation for two-player zero-sum games, exact to the last bit on every run.

    from ballast_cfr import Solver, compile, load, validate
    solver = Solver(compile(load("leduc")), "CFRPlus")
    solver.step(1000)
    print(solver.exploitability(), solver.value())

Data flows through the folders in this order: `formats` and `games` make a `Game`; `compile` checks it and turns it
into arrays; `solve` iterates on them; `evaluate` judges strategies; `export` writes them. `job` is all of it as a
pod, `cli` as a command. Start reading at `game.py`, then `solve/kernels.py`.
"""

import signal
import sys
from types import FrameType


def _told_early(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


if sys.argv[:1] == ["-m"]:  # not imported, but about to run as a program
    # The first process of a container is not ended by a signal that it has no handler for, and the imports below take
    # seconds: without this a pod that is deleted meanwhile would stay for its whole grace period.
    signal.signal(signal.SIGTERM, _told_early)
    signal.signal(signal.SIGINT, _told_early)  # without a traceback

from ballast_cfr.compile.program import compile_game as compile  # noqa: A004 - the word users look for
from ballast_cfr.compile.validate import validate
from ballast_cfr.load import load
from ballast_cfr.solve.batch import Batch
from ballast_cfr.solve.solver import Solver

__all__ = ["Batch", "Solver", "compile", "load", "validate"]
