"""Locks and masks: what is best against a habit, and what is an action worth?"""

from ballast_cfr import Solver, compile, load

solver = Solver(compile(load("kuhn")), "CFRPlus")
solver.step(1000)
print(f"equilibrium: value {solver.value():+.4f}")

solver.lock("K:p", [0.5, 0.5], player=1)  # with a king, player 1 answers a check by a bet half of the time
solver.reset()
solver.step(1000)
print(f"player 1 plays a king softly: value {solver.value():+.4f}")

solver.free("K:p", player=1)
for card in "JQK":
    solver.mask(f"{card}:", ["bet"], player=0)
solver.reset()
solver.step(1000)
print(f"player 0 may not open with a bet: value {solver.value():+.4f}")
