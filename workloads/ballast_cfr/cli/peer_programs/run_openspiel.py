"""OpenSpiel's CFR+ in C++, called once for each iteration."""

import importlib.metadata
import sys
import time

import pyspiel

begun = time.perf_counter()
game = pyspiel.load_game(sys.argv[1])
if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
    game = pyspiel.convert_to_turn_based(game)
solver = pyspiel.CFRPlusSolver(game)
solver.evaluate_and_update_policy()
print(importlib.metadata.version("open_spiel"), time.perf_counter() - begun, flush=True)
for line in sys.stdin:
    n = int(line)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(n):
        solver.evaluate_and_update_policy()
    print((time.perf_counter() - wall) * 1000 / n, (time.process_time() - cpu) * 1000 / n, flush=True)
