"""What is copied to the GPU when payoffs or ranges change, without one: the numbers of the changed game, compiled anew."""

from typing import Any

import numpy as np
import pytest

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.compile.variation import Variations
from ballast_cfr.games import builtin
from ballast_cfr.gpu import payoffs
from ballast_cfr.gpu.engine import lay_out
from ballast_cfr.gpu.shape import Shape

ULPS = 64 * float(np.finfo(np.float64).eps)
SHAPES = [Shape("one", 1, 64), Shape("cluster", 6, 64, mixed=True), Shape("grid", 7, 64, cut=(1, 2))]


class Memory:
    """Stands in for a GPU's memory, and for what is copied from."""

    def __init__(self, size: int) -> None:
        self.pointer, self.bytes = 1 << 40, np.full(size, 0xFF, dtype=np.uint8)

    def write(self, array: Any, offset: int) -> None:
        self.bytes[offset : offset + array.nbytes] = array


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Buffer", "Pinned"):
        monkeypatch.setattr(payoffs, name, Memory)


def held(made: payoffs.Payoffs, player: int, name: str, many: int, instance: int) -> Any:
    """An array as the kernel of an instance finds it, by the pointer and the stride it is told."""
    dtype = made.dtypes[name]
    at = made.pointer(player, name) - made.buffer.pointer + instance * made.stride(name) * dtype.itemsize
    memory: Any = made.buffer
    return memory.bytes[at : at + many * dtype.itemsize].view(dtype)


def put(made: payoffs.Payoffs, program: Program, instance: int) -> None:
    assert program.matrix is not None
    values = program.matrix[0].value, program.matrix[1].value
    made.put(values, (program.plex[0].magnitude, program.plex[1].magnitude), instance)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["kuhn", "leduc", "goofspiel"])
def test_every_array_holds_the_changed_games_numbers(name: str, shape: Shape) -> None:
    game = builtin(name)
    program = compile_game(game)
    real: Any = np.float32 if shape.mixed else np.float64
    sides = lay_out(program, shape)
    made = payoffs.Payoffs(sides, real, ULPS, 3)
    variations = Variations(program)
    types = variations.deals.names
    paid = variations.payoffs(game.payoff[:, 0] * np.linspace(1, 2, len(game.payoff)))
    drawn = variations.ranges(*(np.linspace(1, 2, len(names)) for names in types))
    for instance in (0, 1, 2):
        put(made, program, instance)
    put(made, variations.make(program, paid, drawn), 1)
    changed = compile_game(variations.make(program, paid, drawn).game)
    for instance, one in enumerate((program, changed, program)):
        assert one.matrix is not None
        for player, side in enumerate(sides):
            value = one.matrix[player].value
            want = np.where(side.entry < 0, 0.0, value[side.entry]).astype(real)
            assert held(made, player, "value", len(want), instance).tobytes() == want.tobytes()
            want = value[side.row0_entry].astype(real)
            assert held(made, player, "row0_value", len(want), instance).tobytes() == want.tobytes()
            want = (ULPS * one.plex[player].magnitude)[side.infoset]
            assert held(made, player, "tie", len(want), instance).tobytes() == want.tobytes()


def test_one_solve_needs_no_strides() -> None:
    made = payoffs.Payoffs(lay_out(compile_game(builtin("kuhn")), SHAPES[0]), np.float64, ULPS, 1)
    assert [made.stride(name) for name in payoffs.NAMES] == [0, 0, 0]
