"""noregret's CUDA kernel on our games, in a process of its own.

Run as `python -m ballast_cfr.gpu.peer GAME KEY=VALUE ...`; needs noregret and what it needs. Prints its version, then
for each number of iterations on standard input the wall and CPU milliseconds of one iteration of CFR+, alternating.
"""

import sys
import time
from typing import Any

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.load import load


def polytope(nr: Any, kernel: Any, program: Program, player: int) -> Any:
    """One player's decisions in noregret's form."""
    from ordered_set import OrderedSet

    plex = program.plex[player]
    actions: dict[str, Any] = {}
    parents: dict[str, tuple[str, str] | None] = {}
    for infoset in range(plex.infosets):
        a, b = (int(k) for k in plex.first[infoset : infoset + 2])
        actions[f"j{infoset}"] = OrderedSet([f"a{k - a}" for k in range(a, b)])
        above = int(plex.parent[infoset])
        if above == 0:
            parents[f"j{infoset}"] = None
        else:
            owner = int(plex.of_slot[above - 1])
            parents[f"j{infoset}"] = (f"j{owner}", f"a{above - 1 - int(plex.first[owner])}")
    return nr.SequenceFormPolytope(kernel, actions, parents)


def payoffs(kernel: Any, program: Program) -> Any:
    """The payoff matrix: noregret numbers the sequences as we do."""
    from scipy.sparse import csr_matrix

    assert program.matrix is not None
    csr = program.matrix[0]
    made = csr_matrix((csr.value, csr.column, csr.start), shape=(len(csr.start) - 1, program.plex[1].slots + 1))
    made.sort_indices()
    return kernel.scipy.sparse.csr_array(made)


def main() -> None:
    """Load, warm up, answer."""
    import importlib.metadata

    import noregret as nr

    program = compile_game(load(sys.argv[1], **dict(pair.split("=") for pair in sys.argv[2:])))
    kernel = nr.CUDAKernel()
    sides = [polytope(nr, kernel, program, player) for player in (0, 1)]
    game = nr.EFG_2p0s(kernel, payoffs(kernel, program), tuple(sides))
    minimizers = [nr.CFR_plus(kernel, side) for side in sides]
    nr.rm(game, *minimizers, alternation=True, iteration_count=5, progress_bar=False, checkpoints=(-1,))
    print(importlib.metadata.version("noregret"), flush=True)
    for line in sys.stdin:
        count = int(line)
        kernel.numpy.cuda.Device().synchronize()
        wall, cpu = time.perf_counter(), time.process_time()
        run(game, minimizers, count)
        kernel.numpy.cuda.Device().synchronize()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        error = float(game.exploitability(*(minimizer.average_strategy for minimizer in minimizers)))
        print(wall * 1e3 / count, cpu * 1e3 / count, error, flush=True)


def run(game: Any, minimizers: list[Any], count: int) -> None:
    """What its `regret_minimization` does in a loop with alternation, without its output and final average."""
    strategies = [minimizer.next_strategy for minimizer in minimizers]
    for _ in range(count):
        for player, minimizer in enumerate(minimizers):
            minimizer.observe(game.utility(player, *strategies[:player], *strategies[player + 1 :]))
            strategies[player] = minimizer.output(False)


if __name__ == "__main__":
    main()
