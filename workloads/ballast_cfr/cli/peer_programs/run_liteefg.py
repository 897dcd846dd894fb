"""LiteEFG's CFR+, one thread, with its linear average."""

import contextlib
import importlib.metadata
import os
import sys
import tempfile
import time

# It writes the games that it builds into the home folder.
os.environ["HOME"] = tempfile.mkdtemp(prefix="liteefg-")

import LiteEFG
import pyspiel
from LiteEFG.baselines import CFRplus

with contextlib.redirect_stdout(sys.stderr):
    begun = time.perf_counter()
    game = pyspiel.load_game(sys.argv[1])
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    environment = LiteEFG.OpenSpielEnv(game, traverse_type="Enumerate")
    LiteEFG.set_threads(1)
    graph = CFRplus.graph()
    environment.set_graph(graph)


def iterate() -> None:
    """Both players, then the average."""
    graph.update_graph(environment)
    environment.update_strategy(graph.current_strategy())


iterate()
print(importlib.metadata.version("LiteEFG"), time.perf_counter() - begun, flush=True)
for line in sys.stdin:
    n = int(line)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(n):
        iterate()
    print((time.perf_counter() - wall) * 1000 / n, (time.process_time() - cpu) * 1000 / n, flush=True)
