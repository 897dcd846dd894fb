"""noregret's CFR+ (NumPy), alternating. The game is a file of its own format, as noregret_game.py writes it."""

import importlib.metadata
import json
import sys
import time
from pathlib import Path

from noregret.games import TwoPlayerZeroSumExtensiveFormGame
from noregret.regret_minimizers import CounterfactualRegretMinimizationPlus

begun = time.perf_counter()
game = TwoPlayerZeroSumExtensiveFormGame.deserialize(json.loads(Path(sys.argv[1]).read_text()))
row, column = map(CounterfactualRegretMinimizationPlus, game.tree_form_sequential_decision_processes)
state = {"column": column.next_strategy()}


def iterate() -> None:
    """Both players, the row player first."""
    mine = row.next_strategy()
    row.observe_utility(game.row_utility(state["column"]))
    column.observe_utility(game.column_utility(mine))
    state["column"] = column.next_strategy()


print(importlib.metadata.version("noregret"), time.perf_counter() - begun, flush=True)
for line in sys.stdin:
    n = int(line)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(n):
        iterate()
    print((time.perf_counter() - wall) * 1000 / n, (time.process_time() - cpu) * 1000 / n, flush=True)
