"""`bench --device cuda|all`: the GPU's engine beside what it is to be measured against, in one run on one machine.

Solvers take turns in blocks of at least 200 iterations of alternating CFR+. Beside the times stand the bytes an
iteration moves at least, the share of the measured copy bandwidth that makes, and the floor: bytes over bandwidth, or
dependent stages times the measured cost of a barrier, whichever is more.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ballast_cfr.cli.bench import machine as host_machine
from ballast_cfr.cli.bench import named
from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.gpu import checks, choose
from ballast_cfr.gpu import device as gpu
from ballast_cfr.gpu.engine import CudaEngine
from ballast_cfr.gpu.generic import Generic
from ballast_cfr.gpu.limits import Limits, floor, measure
from ballast_cfr.load import load
from ballast_cfr.solve.engine import Engine
from ballast_cfr.solve.variants import variant

SUITE = (
    "kuhn", "leduc", "liars-dice:faces=4", "liars-dice", "goofspiel:cards=5", "goofspiel:cards=6", "battleship",
    "battleship:width=3:height=2:ships=2:shots=3",
)  # fmt: skip
_PEER_SECONDS = 60
_PEER_LIMIT = 200_000  # slots above which building noregret's matrices takes minutes

Block = Callable[[int], tuple[float, float]]


@dataclass(frozen=True)
class Row:
    """One block. wall, cpu: milliseconds for one iteration."""

    game: str
    solver: str
    iterations: int
    wall: float
    cpu: float


def bench(
    games: list[str], wanted: list[str], device: str, noregret: bool, blocks: int, iterations: int, output: Path | None
) -> int:
    """Measure, print the raw rows and the tables; returns the exit code. games: none given are the suite and then all
    checks; `none` is checks alone. wanted: the checks, if not all."""
    limits = measure()
    report: dict[str, Any] = {"machine": machine(), "limits": asdict(limits), "rows": [], "table": [], "checks": []}
    print(json.dumps(report["machine"]))
    print(json.dumps(report["limits"]), flush=True)
    for name in () if games == ["none"] else games or SUITE:
        game, parameters = named(name)
        program = compile_game(load(game, **parameters))
        rows, shape = _measure(name, program, device, noregret, blocks, max(200, iterations))
        report["rows"] += [asdict(row) for row in rows]
        for row in rows:
            print(f"{row.game:44} {row.solver:12} {row.iterations:6} {row.wall:12.6f} {row.cpu:12.6f}")
        line = _line(name, program, rows, shape, limits)
        report["table"].append(line)
        print(json.dumps(line), flush=True)
        _write(output, report)
    for found in checks.run(wanted) if wanted or games in ([], ["none"]) else ():
        print(json.dumps(found), flush=True)
        report["checks"].append(found)
        _write(output, report)
    if report["table"]:
        _print(report["table"])
    return 0


def _write(output: Path | None, report: dict[str, Any]) -> None:
    """Keep what there is so far: the whole takes minutes."""
    if output is not None:
        output.write_text(json.dumps(report, indent=1) + "\n")


def _measure(
    name: str, program: Program, device: str, noregret: bool, blocks: int, iterations: int
) -> tuple[list[Row], str]:
    plus = variant("CFRPlus")
    shape = choose.best_shape(program)
    fused = CudaEngine(program, plus.predict, True, 0.0, shape)
    solvers: dict[str, Block] = {"cuda-fused": _block(fused.run, plus)}
    solvers["cuda-graph"] = Generic(program, graph=True).block
    solvers["cuda-eager"] = Generic(program, graph=False).block
    if device == "all":
        solvers["cpu-fused"] = _block(Engine(program, plus.predict, True, 0.0).run, plus)
    rows = []
    with _peer(name, program, noregret) as peer:
        if peer is not None:
            solvers["noregret"] = peer
        for block in solvers.values():
            block(20)
        for _ in range(blocks):
            # the fused kernels are so fast that one launch would be mostly its own start: a longer block for them
            for solver, block in solvers.items():
                count = iterations * 10 if solver == "cuda-fused" else iterations
                rows.append(Row(name, solver, count, *block(count)))
    return rows, str(shape)


def _block(run: Callable[[Any], None], plus: Any) -> Block:
    def block(iterations: int) -> tuple[float, float]:
        tables = plus.tables(0, iterations)
        wall, cpu = time.perf_counter(), time.process_time()
        run(tables)
        return (time.perf_counter() - wall) * 1e3 / iterations, (time.process_time() - cpu) * 1e3 / iterations

    return block


@contextmanager
def _peer(name: str, program: Program, wanted: bool) -> Iterator[Block | None]:
    """noregret on a game, if it is wanted and the game is not too large for it."""
    if not wanted or sum(plex.slots for plex in program.plex) > _PEER_LIMIT:
        yield None
        return
    command = [sys.executable, "-m", "ballast_cfr.gpu.peer", *name.split(":")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    told, heard = process.stdin, process.stdout
    patience = threading.Timer(_PEER_SECONDS, process.kill)
    patience.start()
    if not heard.readline():
        print(f"noregret: no answer on game {name} within {_PEER_SECONDS} s; it has no rows", file=sys.stderr)
        patience.cancel()
        yield None
        return

    def block(iterations: int) -> tuple[float, float]:
        print(iterations, file=told, flush=True)
        wall, cpu, _ = heard.readline().split()
        return float(wall), float(cpu)

    yield block
    patience.cancel()
    told.close()
    process.wait()


def _line(name: str, program: Program, rows: list[Row], shape: str, limits: Limits) -> dict[str, Any]:
    """A game's line of the table, in microseconds for one iteration."""
    least = floor(program, limits)
    line: dict[str, Any] = {"game": name, "nodes": program.game.nodes, "shape": shape, "bytes": least.bytes}
    for solver in dict.fromkeys(row.solver for row in rows):
        wall = sorted(1e3 * row.wall for row in rows if row.solver == solver)
        line[solver] = {"p10": wall[round(0.1 * (len(wall) - 1))], "median": statistics.median(wall)}
    fused = line["cuda-fused"]["p10"]
    line["ratio"] = {solver: line[solver]["p10"] / fused for solver in line if isinstance(line[solver], dict)}
    line["graph_over_eager"] = line["cuda-eager"]["p10"] / line["cuda-graph"]["p10"]
    speed = limits.cached if least.bytes <= 24 << 20 else limits.memory
    line["bandwidth_share"] = least.bytes / fused / 1e6 / speed
    line["stages"], line["floor_regime"] = least.stages, least.regime
    line["floor"], line["latency_floors"] = least.microseconds, least.latency
    line["over_floor"] = fused / least.microseconds
    return line


def machine() -> dict[str, Any]:
    """Where this was measured, and with what."""
    import importlib.metadata

    versions = {}
    for package in ("numpy", "numba", "cuda-bindings", "torch", "cupy-cuda13x", "noregret", "open-spiel"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    device = gpu.device()
    found = {"gpu": device.name, "multiprocessors": device.multiprocessors, "l2": device.l2_bytes}
    return {**host_machine(versions), **found, "cuda_driver": device.driver_version, "driver": _driver()}


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.max.sm", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _print(table: list[dict[str, Any]]) -> None:
    solvers = list(
        dict.fromkeys(
            key for line in table for key, value in line.items() if isinstance(value, dict) and "p10" in value
        )
    )
    head = [
        "game",
        "shape",
        *(f"{solver} us" for solver in solvers),
        *(f"{s} x" for s in solvers[1:]),
        "floor us",
        "over",
        "bandwidth",
    ]
    for cells in (head, ["---"] * len(head)):
        print("| " + " | ".join(cells) + " |")
    for line in table:
        times = [f"{line[s]['p10']:.2f}" if s in line else "-" for s in solvers]
        ratios = [f"{line['ratio'][s]:.1f}" if s in line else "-" for s in solvers[1:]]
        last = [
            f"{line['floor']:.2f} ({line['floor_regime']})",
            f"{line['over_floor']:.2f}",
            f"{line['bandwidth_share']:.1%}",
        ]
        print("| " + " | ".join([line["game"], line["shape"], *times, *ratios, *last]) + " |")
