"""Other ranges over one compiled game: how much is a stronger range worth on the river?"""

import numpy as np

from ballast_cfr import Solver, compile, load

solver = Solver(compile(load("poker-river", hands=10, seed=4)), "DCFR")
first, second = solver.root_types()
print("player 0 holds", " ".join(name.partition(":")[0] for name in first))

for weight in (1.0, 0.1):
    solver.set_root_ranges(np.array([weight] * 5 + [1.0] * 5), np.ones(len(second)))
    solver.reset()
    solver.step(500)
    print(f"first five hands weighted {weight}: value {solver.value():+.2f} of a pot of 100")
