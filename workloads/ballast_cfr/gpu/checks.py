"""What the GPU's engine promises, checked on the GPU: bits, batches, evaluation, changes in place, device choice."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.game import Game
from ballast_cfr.games import builtin
from ballast_cfr.gpu import choose
from ballast_cfr.gpu import device as gpu
from ballast_cfr.gpu.batch import CudaBatch
from ballast_cfr.gpu.engine import CudaEngine
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import variant

Found = dict[str, Any]

GAMES: dict[str, dict[str, Any]] = {
    "kuhn": {},
    "leduc": {},
    "liars-dice": {},
    "goofspiel": {"cards": 6},
    "battleship": {"width": 3, "height": 2, "ships": "2", "shots": 3},
}
_LARGE = ("leduc", "liars-dice", "goofspiel", "battleship")


@cache
def program(name: str) -> Program:
    """One of GAMES, compiled."""
    return compile_game(builtin(name, GAMES[name]))


def run(names: Iterable[str] = ()) -> Iterator[Found]:
    """The checks of these names, or all of them, one after the other. Raises BadInputError for an unknown name."""
    chosen = list(names) or list(CHECKS)
    for name in chosen:
        if name not in CHECKS:
            raise BadInputError(f"check {name} is unknown; choose some of {', '.join(CHECKS)}")
    for name in chosen:
        yield from CHECKS[name]()


def same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Whether two states are equal to the bit."""
    return one.keys() == two.keys() and all(one[name].tobytes() == two[name].tobytes() for name in one)


def bits(program: Program, iterations: int) -> Found:
    """CPU, GPU and GPU again, in buffers that held no numbers before."""
    plus = variant("CFRPlus")
    cpu = Solver(program, "CFRPlus")
    cpu.step(iterations)
    shape = choose.best_shape(program)
    states = []
    for _ in range(2):
        engine = CudaEngine(program, plus.predict, True, 64, shape, poison=True)
        engine.run(plus.tables(0, iterations))
        states.append(engine.arrays())
    want = cpu._engine.arrays()
    found = engine.evaluations()[0]
    return {
        "check": "bits", "game": program.game.name, "iterations": iterations, "shape": str(shape),
        "equal": all(same(state, want) for state in states),
        "evaluation_equal": found == cpu.evaluate(), "exploitability": cpu.exploitability(),
        "independent": abs(cpu.exploitability() - evaluate(program, cpu.average()).exploitability),
    }  # fmt: skip


def resume(program: Program, iterations: int = 1000) -> Found:
    """Half of the iterations, a checkpoint, a new solver and the other half, beside all of them at once, on the GPU."""
    whole, first, second = (Solver(program, "CFRPlus", device="cuda") for _ in range(3))
    whole.step(iterations)
    with tempfile.TemporaryDirectory() as folder:
        first.step(iterations // 2)
        first.save(Path(folder) / "checkpoint")
        second.load(Path(folder) / "checkpoint")
    second.step(iterations - second.iteration)
    return {
        "check": "resume", "game": program.game.name, "iterations": iterations,
        "equal": same(second._engine.arrays(), whole._engine.arrays()) and second.evaluate() == whole.evaluate(),
    }  # fmt: skip


def batch(program: Program, size: int, iterations: int = 1000) -> Found:
    """Solves a second, alone and in a batch; and that one of the batch has the bits of a solve alone."""
    plus = variant("CFRPlus")
    tables = plus.tables(0, iterations)
    alone = CudaEngine(program, plus.predict, True, 64, choose.best_shape(program))
    many = scaled(program, range(size), size)
    times = []
    for engine in (alone, many.engine):
        took = []
        for _ in range(4):
            engine.reset()
            started = time.perf_counter()
            engine.run(tables)
            took.append(time.perf_counter() - started)
        times.append(min(took))
    rates = 1 / times[0], size / times[1]
    return {
        "check": "batch", "game": program.game.name, "size": size, "iterations": iterations,
        "alone_per_second": rates[0], "batch_per_second": rates[1], "ratio": rates[1] / rates[0],
        "shape": str(many.engine.shape),
        "equal": same(many.engine.arrays(size - 1), _scaled_alone(program, size - 1, size, iterations)),
    }  # fmt: skip


def scaled(program: Program, which: range, of: int, number: int = 0) -> CudaBatch:
    """Some of so many solves, each with payoffs of its own, on one GPU."""
    made = CudaBatch(program, len(which), gpu=number)
    for index, one in enumerate(which):
        made.set_payoffs(index, program.game.payoff[:, 0] * (1 + one / of))
    return made


def _scaled_alone(program: Program, one: int, of: int, iterations: int) -> dict[str, Any]:
    """The state of one of them on the CPU."""
    solver = Solver(program)
    solver.set_payoffs(program.game.payoff[:, 0] * (1 + one / of))
    solver.step(iterations)
    return solver._engine.arrays()


def two_gpus(program: Program, size: int = 512, iterations: int = 1000) -> Iterator[Found]:
    """A batch on one GPU and on two, if there are two: time and bits."""
    if gpu.count() < 2:
        return
    ways = [[scaled(program, range(size), size)]]
    ways.append([scaled(program, range(k * size // 2, (k + 1) * size // 2), size, k) for k in (0, 1)])
    times = []
    for way in ways:
        took = []
        for _ in range(5):
            for part in way:
                part.reset()
            started = time.perf_counter()
            for part in way:
                part.start(iterations)
            for part in way:
                part.finish()
            took.append(time.perf_counter() - started)
        times.append(min(took))
    last = size // 2 - 1
    yield {
        "check": "gpus", "game": program.game.name, "size": size, "iterations": iterations, "seconds": times,
        "ratio": times[0] / times[1],
        "equal": same(ways[0][0].engine.arrays(size - 1), ways[1][1].engine.arrays(last))
        and same(ways[1][1].engine.arrays(last), _scaled_alone(program, size - 1, size, iterations)),
    }  # fmt: skip


def mixed(program: Program, iterations: int = 1000, timed: bool = False) -> Found:
    """Mixed precision on the GPU: the bits of the CPU, and what both come to beside float64. timed: its time beside
    that of float64, each in its best shape."""
    shape = choose.best_shape(program)
    engines = {
        "float64": shape,
        "mixed": choose.best_shape(program, True, True) if timed else replace(shape, mixed=True),
    }
    result: Found = {"check": "mixed", "game": program.game.name, "iterations": iterations}
    for name, chosen in engines.items():
        engine, took = _timed(program, chosen, iterations)
        result[name] = {"us": took, "shape": str(chosen)}
        result[name]["exploitability"] = evaluate(program, engine.average()).exploitability
    cpu = Solver(program, "CFRPlus", dtype="Mixed")
    cpu.step(iterations)
    result["equal_to_cpu"] = same(engine.arrays(), cpu._engine.arrays())
    result["evaluation_equal"] = engine.evaluate(engine.average()) == cpu.evaluate()
    if timed:
        result["time_ratio"] = result["mixed"]["us"] / result["float64"]["us"]
    result["exploitability_ratio"] = result["mixed"]["exploitability"] / result["float64"]["exploitability"]
    return result


def _timed(program: Program, shape: Any, iterations: int) -> tuple[CudaEngine, float]:
    """An engine after so many iterations, and microseconds for one of them, the least of three launches."""
    plus = variant("CFRPlus")
    engine = CudaEngine(program, plus.predict, True, 64, shape)
    took = []
    for _ in range(3):
        engine.reset()
        engine.prepare(plus.tables(0, iterations))
        with engine.seconds:
            engine.start()
        engine.finish()
        took.append(engine.seconds.microseconds / iterations)
    return engine, min(took)


def evaluation(program: Program, count: int = 100) -> Found:
    """What a look at the exploitability costs within a launch, in iterations."""
    plus = variant("CFRPlus")
    engine = CudaEngine(program, plus.predict, True, 64, choose.best_shape(program))
    tables = plus.tables(0, count)
    times = []
    for looks in (None, np.arange(1, count + 1, dtype=np.uint32)):
        took = []
        for _ in range(4):
            engine.prepare(tables, looks)
            with engine.seconds:
                engine.start()
            engine.finish()
            took.append(engine.seconds.microseconds)
        times.append(min(took))
    ratio = (times[1] - times[0]) / times[0]
    return {"check": "evaluation", "game": program.game.name, "us": (times[1] - times[0]) / count, "iterations": ratio}


def change(game: Game, holdings: int, repeats: int = 5) -> Found:
    """Payoffs and ranges in place beside compiling, capturing and uploading anew: time, the least of some, and bits."""
    solver = Solver(compile_game(game), device="cuda")
    engine = solver._engine
    assert isinstance(engine, CudaEngine)
    weights = np.linspace(0.5, 2.0, holdings), np.linspace(2.0, 1.0, holdings)
    in_place, anew = [], []
    for turn in range(repeats + 1):  # the first builds what later ones use
        payoff = game.payoff[:, 0] * np.linspace(1.0, 2.0 + turn, len(game.payoff))
        started = time.perf_counter()
        solver.set_payoffs(payoff)
        solver.set_root_ranges(*weights)
        changed = solver.program  # in the engine by now
        in_place.append(time.perf_counter() - started)
        started = time.perf_counter()
        fresh = CudaEngine(compile_game(changed.game), 0.0, True, 64, engine.shape)
        anew.append(time.perf_counter() - started)
    tables = solver.variant.tables(0, 100)
    for one in (engine, fresh):
        one.run(tables)
    took = min(in_place[1:]), min(anew[1:])
    return {
        "check": "change", "game": game.name, "in_place_ms": took[0] * 1e3, "anew_ms": took[1] * 1e3,
        "share": took[0] / took[1], "equal": same(engine.arrays(), fresh.arrays()),
    }  # fmt: skip


def automatic(program: Program, seconds: float = 0.3) -> Found:
    """Time with the device that `auto` takes over the better of both."""
    times = {}
    for device in ("cpu", "cuda", "auto"):
        solver = Solver(program, "CFRPlus", device=device)
        solver.step(20)
        started, best, count = time.perf_counter(), np.inf, 20
        while time.perf_counter() - started < seconds:
            begun = time.perf_counter()
            solver.step(count)
            best = min(best, (time.perf_counter() - begun) / count)
            count = max(20, min(20_000, int(seconds / 4 / best)))
        times[device] = best * 1e6
        chosen = type(solver._engine).__name__
    least = min(times["cpu"], times["cuda"])
    return {
        "check": "auto",
        "game": program.game.name,
        "us": times,
        "chose": chosen,
        "over_best": times["auto"] / least,
    }


CHECKS: dict[str, Callable[[], Iterable[Found]]] = {
    "change": lambda: (change(builtin(name), 6) for name in ("leduc", "liars-dice")),
    "evaluation": lambda: (evaluation(program(name)) for name in _LARGE),
    "batch": lambda: [batch(program("leduc"), 256)],
    "resume": lambda: (resume(program(name)) for name in ("leduc", "liars-dice")),
    "mixed": lambda: (mixed(program(name), timed=name == "battleship") for name in _LARGE),
    "auto": lambda: (automatic(program(name)) for name in GAMES),
    "bits": lambda: (bits(program(name), 1000) for name in _LARGE),
    "gpus": lambda: two_gpus(program("leduc")),
}
