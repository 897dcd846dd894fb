"""What the GPU is given, run through in plain Python: the bits must be the CPU engine's."""

import numpy as np
import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.games import builtin
from ballast_cfr.gpu.emulate import Player, iterate
from ballast_cfr.gpu.engine import lay_out
from ballast_cfr.gpu.shape import SHARED_BYTES, Shape, macros, place
from ballast_cfr.solve.solver import Solver

GAMES = [
    ("kuhn", {}),
    ("leduc", {"ranks": 2}),
    ("goofspiel", {"cards": 5}),
    ("battleship", {}),
    ("liars-dice", {"faces": 3}),
]
SHAPES = [
    Shape("one", 1, 64),
    Shape("cluster", 8, 64),
    Shape("grid", 7, 64, cut=(1, 1)),
    Shape("grid", 5, 64, cut=(2, 0)),
    Shape("grid", 40, 64, cut=(1, 2)),
]


@pytest.mark.parametrize("alternating", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("name", "parameters"), GAMES, ids=[name for name, _ in GAMES])
def test_every_division_gives_the_bits_of_the_cpu(
    name: str, parameters: dict[str, int], shape: Shape, alternating: bool
) -> None:
    program = compile_game(builtin(name, parameters))
    cpu = Solver(program, "PCFRPlus", updates="Alternating" if alternating else "Simultaneous")
    sides = lay_out(program, shape)
    assert program.matrix is not None
    made = [
        Player(
            sides[player],
            program.matrix[player].value,
            1.0 / np.diff(program.plex[player].first)[program.plex[player].of_slot],
            64 * np.finfo(float).eps * program.plex[player].magnitude,
        )
        for player in (0, 1)
    ]
    players = made[0], made[1]
    for done in (0, 2):
        iterate(players, cpu.variant.tables(done, 2), 1.0, alternating)
        cpu.step(2)
        ours = cpu._engine.arrays()
        for player in (0, 1):
            state = players[player].state()
            for here, there in (("regret", "regret"), ("sigma", "strategy"), ("average", "average")):
                assert state[here].tobytes() == ours[f"{there}{player}"].tobytes(), (here, player)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_slot_and_payoff_has_one_place(shape: Shape) -> None:
    program = compile_game(builtin("goofspiel", {"cards": 5}))
    assert program.matrix is not None
    for player, side in enumerate(lay_out(program, shape)):
        assert sorted(side.slot) == list(range(program.plex[player].slots))
        assert sorted(side.infoset) == list(range(program.plex[player].infosets))
        entries = np.concatenate([side.entry[side.entry >= 0], side.row0_entry])
        assert sorted(entries) == list(range(len(program.matrix[player].value)))


def test_shared_memory_is_never_overbooked_and_never_overlaps() -> None:
    program = compile_game(builtin("goofspiel", {"cards": 5}))
    for shared in (20_000, 100_000, SHARED_BYTES):
        shape = Shape("one", 1, 1024, shared=shared)
        sides = lay_out(program, shape)
        offsets, used = place(sides, shape)
        taken = sorted(offset for offset in offsets.values() if offset >= 0)
        assert used <= shared
        assert len(taken) == len(set(taken))


def test_what_every_stage_waits_for_comes_into_shared_memory_first() -> None:
    program = compile_game(builtin("leduc"))
    shape = Shape("one", 1, 1024)
    defined, used = macros(lay_out(program, shape), shape, True)
    assert used <= SHARED_BYTES
    assert all(defined[f"AT_{name}_{player}"] >= 0 for name in ("x", "v", "g", "sigma", "regret") for player in (0, 1))
