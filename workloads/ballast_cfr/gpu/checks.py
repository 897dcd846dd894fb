"""What the GPU's engine promises, checked on the GPU: bits, batches, evaluation, changes in place, device choice."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.game import Game
from ballast_cfr.games import builtin
from ballast_cfr.gpu import choose
from ballast_cfr.gpu.batch import CudaBatch
from ballast_cfr.gpu.engine import CudaEngine
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import variant

LARGE: dict[str, Any] = {"width": 3, "height": 2, "ships": "2", "shots": 3}


def run() -> Iterator[dict[str, Any]]:
    """All checks, one after the other."""
    leduc, ship = compile_game(builtin("leduc")), compile_game(builtin("battleship", LARGE))
    liar, goof = compile_game(builtin("liars-dice")), compile_game(builtin("goofspiel", {"cards": 6}))
    yield batch(leduc, 256)
    yield from (evaluation(program) for program in (leduc, liar, goof, ship))
    yield from (change(builtin(name), 6) for name in ("leduc", "liars-dice"))
    yield from (automatic(program) for program in (compile_game(builtin("kuhn")), leduc, liar, goof, ship))
    yield from (bits(program, 1000) for program in (leduc, liar, goof, ship))
    yield mixed(ship)


def bits(program: Program, iterations: int) -> dict[str, Any]:
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
    same = all(state[name].tobytes() == want[name].tobytes() for state in states for name in want)
    found = engine.evaluations()[0]
    return {
        "check": "bits", "game": program.game.name, "iterations": iterations, "shape": str(shape), "equal": same,
        "evaluation_equal": found == cpu.evaluate(), "exploitability": cpu.exploitability(),
        "independent": abs(cpu.exploitability() - evaluate(program, cpu.average()).exploitability),
    }  # fmt: skip


def batch(program: Program, size: int, iterations: int = 1000) -> dict[str, Any]:
    """Solves a second, alone and in a batch; and that one of the batch has the bits of a solve alone."""
    plus = variant("CFRPlus")
    tables = plus.tables(0, iterations)
    alone = CudaEngine(program, plus.predict, True, 64, choose.best_shape(program))
    many = CudaBatch(program, size)
    game = program.game
    for index in range(1, size):
        many.set_payoffs(index, game.payoff[:, 0] * (1 + index / size))
    times = []
    for engine in (alone, many.engine):
        took = []
        for _ in range(4):
            engine.reset()
            started = time.perf_counter()
            engine.run(tables)
            took.append(time.perf_counter() - started)
        times.append(min(took))
    last = Solver(program)
    last.set_payoffs(game.payoff[:, 0] * (1 + (size - 1) / size))
    last.step(iterations)
    want, have = last._engine.arrays(), many.engine.arrays(size - 1)
    rates = 1 / times[0], size / times[1]
    return {
        "check": "batch", "game": game.name, "size": size, "iterations": iterations, "alone_per_second": rates[0],
        "batch_per_second": rates[1], "ratio": rates[1] / rates[0], "shape": str(many.engine.shape),
        "equal": all(have[name].tobytes() == want[name].tobytes() for name in want),
    }  # fmt: skip


def mixed(program: Program, iterations: int = 1000) -> dict[str, Any]:
    """Mixed precision beside float64: time, and exploitability of what each comes to, judged in float64 on the CPU."""
    plus = variant("CFRPlus")
    result: dict[str, Any] = {"check": "mixed", "game": program.game.name, "iterations": iterations}
    for name, is_mixed in (("float64", False), ("mixed", True)):
        shape = choose.best_shape(program, True, is_mixed)
        engine = CudaEngine(program, plus.predict, True, 64, shape)
        took = []
        for _ in range(3):
            engine.reset()
            engine.prepare(plus.tables(0, iterations))
            with engine.seconds:
                engine.start()
            engine.finish()
            took.append(engine.seconds.microseconds / iterations)
        result[name] = {"us": min(took), "exploitability": evaluate(program, engine.average()).exploitability}
    cpu = Solver(program, "CFRPlus", dtype="Mixed")
    cpu.step(iterations)
    want, have = cpu._engine.arrays(), engine.arrays()
    result["equal_to_cpu"] = all(have[key].tobytes() == want[key].tobytes() for key in want)
    result["time_ratio"] = result["mixed"]["us"] / result["float64"]["us"]
    result["exploitability_ratio"] = result["mixed"]["exploitability"] / result["float64"]["exploitability"]
    return result


def evaluation(program: Program, count: int = 100) -> dict[str, Any]:
    """What a look costs within a launch, in iterations."""
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


def change(game: Game, holdings: int) -> dict[str, Any]:
    """Payoffs and ranges in place beside compiling, capturing and uploading anew: time and bits."""
    solver = Solver(compile_game(game), device="cuda")
    engine = solver._engine
    assert isinstance(engine, CudaEngine)
    weights = np.linspace(0.5, 2.0, holdings), np.linspace(2.0, 1.0, holdings)
    payoff = game.payoff[:, 0] * np.linspace(1.0, 2.0, len(game.payoff))
    solver.set_payoffs(game.payoff[:, 0])  # the first builds what later ones use
    started = time.perf_counter()
    solver.set_payoffs(payoff)
    solver.set_root_ranges(*weights)
    in_place = time.perf_counter() - started
    started = time.perf_counter()
    fresh = CudaEngine(compile_game(solver.program.game), 0.0, True, 64, engine.shape)
    anew = time.perf_counter() - started
    tables = solver.variant.tables(0, 100)
    for one in (engine, fresh):
        one.run(tables)
    want, have = fresh.arrays(), engine.arrays()
    return {
        "check": "change", "game": game.name, "in_place_ms": in_place * 1e3, "anew_ms": anew * 1e3,
        "share": in_place / anew, "equal": all(have[name].tobytes() == want[name].tobytes() for name in want),
    }  # fmt: skip


def automatic(program: Program, seconds: float = 0.3) -> dict[str, Any]:
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
