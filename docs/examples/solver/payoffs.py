"""Other payoffs over one compiled game: what if every pot were raked?"""

import numpy as np

from ballast_cfr import Solver, compile, load

game = load("leduc")
solver = Solver(compile(game), "CFRPlus")
solver.step(500)
print(f"as it is: value {solver.value():+.4f}")

won = game.payoff[:, 0]
solver.set_payoffs(np.where(won > 0, won * 0.95, won))  # player 1's payoffs keep the sum
solver.step(500)  # goes on from what was learnt; solver.reset() would forget it
print(f"player 0 gives up 5 % of what it wins: value {solver.value():+.4f}")
