"""The engine on a real GPU: the CPU's bits in every regime, variant and update order; skipped where there is none."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast_cfr.cli.main import main
from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.errors import DeviceError
from ballast_cfr.games import builtin
from ballast_cfr.gpu import device as gpu
from ballast_cfr.gpu.batch import CudaBatch
from ballast_cfr.gpu.engine import CudaEngine
from ballast_cfr.gpu.shape import Shape
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import VARIANTS, variant


@pytest.fixture(scope="session", autouse=True)
def device() -> gpu.Device:
    """The GPU, or the reason why there is none."""
    try:
        return gpu.device()
    except DeviceError as error:
        pytest.skip(str(error))


GAMES: dict[str, dict[str, int]] = {
    "kuhn": {}, "leduc": {}, "liars-dice": {"faces": 4}, "goofspiel": {"cards": 5}, "battleship": {},
}  # fmt: skip
SHAPES = [
    Shape("one", 1, 64),
    Shape("one", 1, 512, sets=True, shared=40_000),
    Shape("cluster", 8, 128, push=True),
    Shape("cluster", 8, 128, sets=True),
    Shape("grid", 40, 128, cut=(1, 1), sets=True),
    Shape("grid", 9, 64, cut=(2, 0)),
]


def program(name: str) -> Program:
    return compile_game(builtin(name, GAMES[name]))


def same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return all(one[name].tobytes() == two[name].tobytes() for name in two)


@pytest.mark.parametrize("updates", ["Alternating", "Simultaneous"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", GAMES)
def test_every_regime_has_the_bits_of_the_cpu(name: str, shape: Shape, updates: str) -> None:
    game = program(name)
    for chosen in VARIANTS:
        kind = variant(chosen)
        cpu = Solver(game, chosen, updates=updates)
        engine = CudaEngine(game, kind.predict, updates == "Alternating", 64, shape, poison=True)
        for start in (0, 40):
            engine.run(kind.tables(start, 40))
            cpu.step(40)
        assert same(engine.arrays(), cpu._engine.arrays()), chosen
        assert engine.evaluations()[0] == cpu.evaluate(), chosen
        assert same(engine.arrays(), cpu._engine.arrays()), "evaluating must leave the state alone"


def test_a_solve_stops_on_the_gpu_where_it_stops_on_the_cpu() -> None:
    game = program("leduc")
    ends = []
    for name in ("cpu", "cuda"):
        solver = Solver(game, "DCFR", device=name)
        outcome = solver.solve(Stop(exploitability=0.01))
        ends.append((outcome.reason, outcome.iteration, outcome.look and outcome.look.evaluation, solver.average()))
    assert ends[0][:3] == ends[1][:3]
    assert all(one.tobytes() == two.tobytes() for one, two in zip(ends[0][3], ends[1][3], strict=True))


def test_a_checkpoint_goes_from_one_device_to_the_other(tmp_path: object) -> None:
    game = program("goofspiel")
    path = f"{tmp_path}/checkpoint"
    whole, first, second = Solver(game), Solver(game, device="cuda"), Solver(game)
    whole.step(100)
    first.step(50)
    first.save(path)
    second.load(path)
    second.step(50)
    assert same(second._engine.arrays(), whole._engine.arrays())


def test_a_batch_has_the_bits_of_each_solve_alone() -> None:
    game = builtin("leduc")
    many = CudaBatch(compile_game(game), 5)
    for index in range(5):
        many.set_payoffs(index, game.payoff[:, 0] * (1 + index))
    many.step(60)
    for index in (0, 4):
        alone = Solver(compile_game(game))
        alone.set_payoffs(game.payoff[:, 0] * (1 + index))
        alone.step(60)
        assert same(many.engine.arrays(index), alone._engine.arrays())
        assert many.evaluations()[index] == alone.evaluate()


def test_two_gpus_share_a_batch() -> None:
    if gpu.count() < 2:
        pytest.skip("this machine has one GPU")
    game = builtin("leduc")
    halves = [CudaBatch(compile_game(game), 3, gpu=number) for number in (0, 1)]
    for number, half in enumerate(halves):
        for index in range(3):
            half.set_payoffs(index, game.payoff[:, 0] * (1 + 3 * number + index))
    for half in halves:
        half.start(60)
    for half in halves:
        half.finish()
    for number, half in enumerate(halves):
        alone = Solver(compile_game(game))
        alone.set_payoffs(game.payoff[:, 0] * (3 + 3 * number))
        alone.step(60)
        assert same(half.engine.arrays(2), alone._engine.arrays())
        assert half.evaluations()[2] == alone.evaluate()


def test_payoffs_and_ranges_change_in_place() -> None:
    game = builtin("kuhn")
    solvers = [Solver(compile_game(game), device=name) for name in ("cpu", "cuda")]
    for solver in solvers:
        solver.step(10)
        solver.set_payoffs(game.payoff[:, 0] * 3)
        solver.set_root_ranges(np.array([1.0, 2.0, 0.5]), np.array([1.0, 1.0, 4.0]))
        solver.step(30)
    assert same(solvers[1]._engine.arrays(), solvers[0]._engine.arrays())
    assert solvers[1].evaluate() == solvers[0].evaluate()


def test_locks_masks_and_their_end_have_the_bits_of_the_cpu() -> None:
    solvers = [Solver(program("leduc"), "PCFRPlus", device=name) for name in ("cpu", "cuda")]
    for solver in solvers:
        solver.step(10)
        solver.lock(0, [0.25, 0.75])
        solver.mask(3, [0])
        solver.step(30)
        assert solver.exploitability() >= 0
        solver.free(0)
        solver.step(30)
    assert same(solvers[1]._engine.arrays(), solvers[0]._engine.arrays())
    assert solvers[1].evaluate() == solvers[0].evaluate()
    assert solvers[1].settings() == solvers[0].settings()
    assert all(one.tobytes() == two.tobytes() for one, two in zip(*(s.average() for s in solvers), strict=True))


def test_solves_of_a_batch_are_held_apart() -> None:
    many = CudaBatch(program("kuhn"), 3)
    many.lock(1, 0, 0, np.array([0.25, 0.75]))
    many.mask(2, 0, 0, np.array([True, False]))
    many.step(50)
    free, locked, masked = (many.average(index)[0][:2].tolist() for index in range(3))
    assert locked == [0.25, 0.75]
    assert masked == [1.0, 0.0]
    assert free not in (locked, masked)
    assert all(one.exploitability >= 0 for one in many.evaluations())


def test_payoffs_where_none_were_are_laid_out_again() -> None:
    game = builtin("leduc")
    payoff = np.where(game.payoff[:, 0] == 0, 0.5, game.payoff[:, 0])
    solvers = [Solver(compile_game(game), device=name) for name in ("cpu", "cuda")]
    for solver in solvers:
        solver.step(10)
        solver.lock(0, [0.25, 0.75])
        solver.set_payoffs(payoff)
        solver.step(20)
    assert same(solvers[1]._engine.arrays(), solvers[0]._engine.arrays())


def test_mixed_precision_has_the_bits_of_the_cpu() -> None:
    solvers = [Solver(program("leduc"), dtype="Mixed", device=name) for name in ("cpu", "cuda")]
    for solver in solvers:
        solver.step(100)
        solver.mask(3, [0])
        solver.step(100)
    assert same(solvers[1]._engine.arrays(), solvers[0]._engine.arrays())
    assert solvers[1].exploitability() == solvers[0].exploitability()


def test_a_batch_job_on_a_gpu_ends_as_on_a_cpu(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [{"name": f"b{number}", "ranges": [{"Ja:": number / 40}, {}]} for number in range(40)]
    lines[1]["locks"] = [{"infoset": "Qa:", "strategy": [0.25, 0.75]}]
    lines[2]["masks"] = [{"infoset": "Qa:", "actions": ["raise"]}]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for device in ("cpu", "cuda"):
        asked = ["job", "--game-builtin", "leduc", "--batch-file", str(tmp_path / "b.jsonl"), "--device", device]
        assert main([*asked, "--exploitability", "1e-3", "--checkpoint-dir", str(tmp_path / device)]) == 0
    for line in lines:
        gpu_file, cpu_file = (tmp_path / d / "results" / f"{line['name']}.csv" for d in ("cuda", "cpu"))
        assert gpu_file.read_bytes() == cpu_file.read_bytes(), line["name"]
