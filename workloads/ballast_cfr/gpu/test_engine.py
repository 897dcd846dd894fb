"""The engine and its kernels without a GPU: in every regime the bits of the CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.games import builtin
from ballast_cfr.gpu import testing
from ballast_cfr.gpu.batch import CudaBatch
from ballast_cfr.gpu.engine import CudaEngine
from ballast_cfr.gpu.shape import Shape
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import variant

pytestmark = pytest.mark.skipif(testing.missing() is not None, reason=str(testing.missing()))

GAMES: dict[str, dict[str, Any]] = {
    "kuhn": {}, "leduc": {"ranks": 2}, "liars-dice": {"faces": 3}, "goofspiel": {}, "battleship": {},
}  # fmt: skip
CASES = [
    ("kuhn", Shape("one", 1, 32)),
    ("leduc", Shape("one", 1, 64, sets=True)),
    ("liars-dice", Shape("one", 1, 64, shared=6_000)),
    ("liars-dice", Shape("one", 1, 64, sets=True, shared=6_000)),
    ("goofspiel", Shape("cluster", 3, 32, push=True)),
    ("goofspiel", Shape("cluster", 3, 32, push=True, sets=True)),
    ("leduc", Shape("cluster", 4, 32)),
    ("battleship", Shape("grid", 5, 32, cut=(1, 1))),
    ("battleship", Shape("grid", 5, 32, cut=(1, 1), sets=True)),
    ("liars-dice", Shape("grid", 7, 32, cut=(2, 0))),
    ("liars-dice", Shape("grid", 7, 32, cut=(2, 0), sets=True, shared=4_000)),
    ("leduc", Shape("grid", 4, 32, cut=(1, 2), mixed=True)),
    ("leduc", Shape("grid", 4, 32, cut=(1, 2), mixed=True, sets=True)),
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    testing.install(monkeypatch.setattr, folder, 2)


def program(name: str) -> Program:
    return compile_game(builtin(name, GAMES[name]))


def same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return all(one[name].tobytes() == two[name].tobytes() for name in two)


@pytest.mark.parametrize(("name", "shape"), CASES, ids=str)
def test_every_regime_has_the_bits_of_the_cpu(name: str, shape: Shape) -> None:
    game = program(name)
    dtype = "Mixed" if shape.mixed else "Float64"
    for chosen in ("PCFRPlus", "DCFR"):
        kind = variant(chosen)
        cpu = Solver(game, chosen, dtype=dtype)
        engine = CudaEngine(game, kind.predict, True, 64, shape, poison=True)
        for start in (0, 4):
            engine.run(kind.tables(start, 4))
            cpu.step(4)
        assert same(engine.arrays(), cpu._engine.arrays()), chosen
        assert engine.evaluate(engine.average()) == cpu.evaluate(), chosen
        assert same(engine.arrays(), cpu._engine.arrays()), "evaluating must leave the state alone"


@pytest.mark.parametrize("sets", [False, True])
def test_simultaneous_updates_have_the_bits_of_the_cpu(sets: bool) -> None:
    game, kind = program("leduc"), variant("CFR")
    cpu = Solver(game, "CFR", updates="Simultaneous")
    engine = CudaEngine(game, kind.predict, False, 64, Shape("cluster", 3, 32, sets=sets))
    engine.run(kind.tables(0, 6))
    cpu.step(6)
    assert same(engine.arrays(), cpu._engine.arrays())


@pytest.mark.parametrize("shape", [Shape("one", 1, 64, sets=True), Shape("grid", 3, 32, cut=(1, 1))], ids=str)
def test_a_launch_looks_and_stops_where_it_should(shape: Shape) -> None:
    game, kind = program("kuhn"), variant("CFRPlus")
    tables, looks = kind.tables(0, 60), np.array([20, 40, 50], dtype=np.uint32)
    cpu = Solver(game)
    cpu.step(40)
    for target, ends in ((cpu.exploitability(), 40), (-1.0, 60)):
        engine = CudaEngine(game, kind.predict, True, 64, shape)
        stopped = engine.launch(tables, looks, target)
        assert (int(stopped.iterations[0]), bool(stopped.met[0])) == (ends, target > 0)
        looked = Solver(game)
        looked.step(ends if target > 0 else 50)
        assert engine._evaluation(stopped.found[0]) == looked.evaluate()
        looked.step(ends - looked.iteration)
        assert same(engine.arrays(), looked._engine.arrays())


def test_a_solve_ends_on_one_device_where_it_ends_on_the_other() -> None:
    ends = []
    for device in ("cpu", "cuda"):
        solver = Solver(program("kuhn"), "DCFR", device=device)
        outcome = solver.solve(Stop(exploitability=0.01))
        ends.append((outcome.reason, outcome.iteration, outcome.look and outcome.look.evaluation))
    assert ends[0] == ends[1]


def test_a_checkpoint_goes_from_one_device_to_the_other(tmp_path: Path) -> None:
    whole, first, second = Solver(program("kuhn")), Solver(program("kuhn"), device="cuda"), Solver(program("kuhn"))
    whole.step(20)
    first.step(10)
    first.save(tmp_path / "checkpoint")
    second.load(tmp_path / "checkpoint")
    second.step(10)
    assert same(second._engine.arrays(), whole._engine.arrays())


def test_payoffs_and_ranges_change_in_place() -> None:
    game = builtin("kuhn")
    solvers = [Solver(compile_game(game), device=name) for name in ("cpu", "cuda")]
    for solver in solvers:
        solver.step(5)
        solver.set_payoffs(game.payoff[:, 0] * 3)
        solver.set_root_ranges(np.array([1.0, 2.0, 0.5]), np.array([1.0, 1.0, 4.0]))
        solver.step(10)
        solver.set_payoffs(np.linspace(1, 2, len(game.payoff)))  # pays where nothing was paid: laid out again
        solver.lock("K:", [0.25, 0.75])
        solver.step(5)
    assert same(solvers[1]._engine.arrays(), solvers[0]._engine.arrays())
    assert solvers[1].evaluate() == solvers[0].evaluate()
    assert solvers[1].settings() == solvers[0].settings()


SHAPES = [Shape("cluster", 3, 32), Shape("cluster", 3, 32, sets=True), Shape("one", 1, 32, mixed=True, sets=True)]


@pytest.mark.parametrize("shape", [*SHAPES, Shape("one", 1, 32, mixed=True)], ids=str)
def test_locks_and_masks_have_the_bits_of_the_cpu(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast_cfr.gpu.choose.best_shape", lambda *_: shape)
    dtype = "Mixed" if shape.mixed else "Float64"
    solvers = [Solver(program("liars-dice"), "PCFRPlus", dtype=dtype, device=name) for name in ("cpu", "cuda")]
    for solver in solvers:
        solver.step(5)
        solver.lock(0, [0.25, 0.75, 0, 0, 0, 0])
        solver.mask(3, [0])
        solver.mask(3, [2])
        for many in (2, 3):  # the CPU has loops of their own for so few actions
            solver.mask([len(names) for names in solver.program.game.infoset_actions].index(many), [1])
        solver.step(10)
        assert solver.exploitability() >= 0
        solver.free(0)
        solver.lock(3, [1, 0, 0, 0, 0, 0])
        solver.step(10)
        solver.free(3)
        solver.step(5)
    assert same(solvers[1]._engine.arrays(), solvers[0]._engine.arrays())
    assert solvers[1].evaluate() == solvers[0].evaluate()
    assert solvers[1].settings() == solvers[0].settings()
    assert all(one.tobytes() == two.tobytes() for one, two in zip(*(s.average() for s in solvers), strict=True))


@pytest.mark.parametrize("sets", [False, True])
def test_every_solve_of_a_batch_has_the_bits_of_a_solve_alone(sets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast_cfr.gpu.batch.SHAPE", Shape("one", 1, 64, sets=sets))
    game = builtin("leduc", {"ranks": 2})
    many = CudaBatch(compile_game(game), 4, gpu=1)
    many.set_payoffs(1, game.payoff[:, 0] * 2)
    many.set_root_ranges(1, *(np.linspace(1, 2, len(names)) for names in many.variations.deals.names))
    many.lock(2, 0, 0, np.array([0.25, 0.75]))
    many.mask(3, 1, 1, np.array([True, False, True]))
    many.step(6)
    for index in range(4):
        alone = Solver(compile_game(game))
        if index == 1:
            alone.set_root_ranges(*(np.linspace(1, 2, len(names)) for names in alone.root_types()))
            alone.set_payoffs(game.payoff[:, 0] * 2)
        if index == 2:
            alone._engine.lock(0, 0, np.array([0.25, 0.75]))
        if index == 3:
            alone._engine.mask(1, 1, np.array([True, False, True]))
        alone.step(6)
        assert same(many.engine.arrays(index), alone._engine.arrays()), index
        assert many.evaluations()[index] == alone.evaluate(), index
        assert many.held_digests()[index] == alone.settings()["held"], index
