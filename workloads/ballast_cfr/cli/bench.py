"""`bench`: iterations per second beside other solvers, on one machine, in one run.

Solvers take turns in blocks of iterations, so that a busy neighbour slows all of them alike; blocks are long enough
to fill the caches again. Every raw block is printed or written: wall and process CPU time for one iteration. Ratios
are of the CPU times' medians, which a busy machine distorts least, and of the walls' 10th percentiles.
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ballast_cfr.cli.output import STANDARD, emit
from ballast_cfr.cli.peers import Peer, known, peer
from ballast_cfr.compile.program import compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.games import BUILTINS
from ballast_cfr.load import load
from ballast_cfr.solve.solver import Solver

OURS = "ballast"
_LONG = 50.0  # milliseconds for one iteration; slower peers get shorter blocks


@dataclass(frozen=True)
class Block:
    """One block of CFR+ iterations. wall, cpu: milliseconds for one iteration."""

    game: str
    solver: str
    iterations: int
    wall: float
    cpu: float


@dataclass(frozen=True)
class Line:
    """A solver on a game, over its blocks, in milliseconds for one iteration; ratios are how many times longer than
    ours it takes."""

    game: str
    solver: str
    blocks: int
    p10_wall: float
    median_wall: float
    median_cpu: float
    ratio_p10_wall: float
    ratio_median_cpu: float


@dataclass(frozen=True)
class Start:
    """Seconds from a game's name to a solver that is ready: generating or loading, compiling, building."""

    game: str
    solver: str
    seconds: float


def bench(games: list[str], peers: list[str], blocks: int, iterations: int, output: Path | None) -> int:
    """Measure, print the raw rows and the table; returns the exit code. games: as `name` or `name:key=value:...`."""
    wanted = known(peers)
    rows: list[Block] = []
    starts: list[Start] = []
    versions: dict[str, str] = {}
    for game in games:
        name, parameters = named(game)
        begun = time.perf_counter()
        solver = Solver(compile_game(load(name, **parameters)), "CFRPlus", tie_tol=0)
        starts.append(Start(game, OURS, time.perf_counter() - begun))
        solver.step(iterations)
        everything = {**{key: one.default for key, one in BUILTINS[name].parameters.items()}, **parameters}
        others = [found for one in wanted if (found := peer(one, name, everything, solver.program)) is not None]
        starts.extend(Start(game, other.name, other.load) for other in others)
        versions.update((other.name, other.version) for other in others)
        for _ in range(blocks):
            rows.append(Block(game, OURS, iterations, *_ours(solver, iterations)))
            rows.extend(_theirs(game, other, iterations) for other in others)
        for other in others:
            other.close()
    lines = [line for game in games for line in summarise([row for row in rows if row.game == game])]
    report = {
        "machine": machine(versions_of(versions)),
        "rows": [asdict(row) for row in rows],
        "starts": [asdict(start) for start in starts],
        "table": [asdict(line) for line in lines],
    }
    if output != STANDARD:
        _print(report, rows, lines, starts)
    if output is not None:
        emit(output, report)
    return 0


def named(game: str) -> tuple[str, dict[str, str]]:
    """A game's name and parameters, from `name:key=value`. Raises BadInputError if it is not a built-in one."""
    name, *parameters = game.split(":")
    if name not in BUILTINS or not all("=" in one for one in parameters):
        raise BadInputError(f"game {game} cannot be measured; give a built-in one, such as goofspiel:cards=5")
    return name, {key: value for key, _, value in (one.partition("=") for one in parameters)}


def _theirs(game: str, other: Peer, iterations: int) -> Block:
    """A peer's block. Peers that take long need fewer iterations to fill the caches and the clock."""
    wall, _ = other.block(1)
    enough = iterations if wall < _LONG else max(3, round(iterations * _LONG / wall))
    return Block(game, other.name, enough, *other.block(enough))


def _ours(solver: Solver, iterations: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    solver.step(iterations)
    scale = 1000 / iterations
    return (time.perf_counter() - wall) * scale, (time.process_time() - cpu) * scale


def summarise(rows: list[Block]) -> list[Line]:
    """The table's lines for one game, ours first."""

    def over(solver: str, of: Callable[[Block], float]) -> list[float]:
        return sorted(of(row) for row in rows if row.solver == solver)

    def p10(values: list[float]) -> float:
        return values[round(0.1 * (len(values) - 1))]

    our_wall, our_cpu = p10(over(OURS, lambda row: row.wall)), statistics.median(over(OURS, lambda row: row.cpu))
    lines = []
    for solver in dict.fromkeys(row.solver for row in rows):
        wall, cpu = over(solver, lambda row: row.wall), over(solver, lambda row: row.cpu)
        median = statistics.median(cpu)
        lines.append(
            Line(
                game=rows[0].game,
                solver=solver,
                blocks=len(wall),
                p10_wall=p10(wall),
                median_wall=statistics.median(wall),
                median_cpu=median,
                ratio_p10_wall=p10(wall) / our_wall,
                ratio_median_cpu=median / our_cpu,
            )
        )
    return lines


def versions_of(peers: dict[str, str]) -> dict[str, str]:
    """Versions of everything that was measured."""
    return {
        "ballast": version("ballast"),
        "numba": version("numba"),
        "numpy": version("numpy"),
        **peers,
    }


def machine(versions: dict[str, str]) -> dict[str, Any]:
    """Where this was measured."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = os.getloadavg()[0]
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": versions,
        "command": "python -m ballast_cfr " + " ".join(sys.argv[1:]),
    }


def _print(report: dict[str, Any], rows: list[Block], lines: list[Line], starts: list[Start]) -> None:
    print(json.dumps(report["machine"]))
    print(f"{'game':24} {'solver':10} {'iterations':>10} {'wall ms':>10} {'cpu ms':>10}")
    for row in rows:
        print(f"{row.game:24} {row.solver:10} {row.iterations:10} {row.wall:10.5f} {row.cpu:10.5f}")
    print()
    head = (
        "game",
        "solver",
        "blocks",
        "p10 wall ms",
        "median wall ms",
        "median CPU ms",
        "x ours, p10 wall",
        "x ours, CPU",
    )
    for cells in (head, ("---",) * len(head), *map(_cells, lines)):
        print("| " + " | ".join(cells) + " |")
    print()
    for cells in (("game", "solver", "seconds to a ready solver"), ("---",) * 3, *map(_start_cells, starts)):
        print("| " + " | ".join(cells) + " |")


def _start_cells(start: Start) -> tuple[str, str, str]:
    return start.game, start.solver, f"{start.seconds:.3f}"


def _cells(line: Line) -> tuple[str, ...]:
    times = (line.p10_wall, line.median_wall, line.median_cpu)
    ratios = (line.ratio_p10_wall, line.ratio_median_cpu)
    return (
        line.game,
        line.solver,
        str(line.blocks),
        *(f"{value:.4f}" for value in times),
        *(f"{value:.1f}" for value in ratios),
    )
