"""What the GPU is given: everything has one place, and shared memory is not overbooked."""

from dataclasses import replace

import numpy as np
import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.games import builtin
from ballast_cfr.gpu.engine import lay_out
from ballast_cfr.gpu.layout import BUSY, COUNT_SHIFT, FIXED, HAS_ROW
from ballast_cfr.gpu.shape import SHARED_BYTES, Shape, macros, place

SHAPES = [
    Shape("one", 1, 64),
    Shape("cluster", 8, 64),
    Shape("grid", 7, 64, cut=(1, 1)),
    Shape("grid", 5, 64, cut=(2, 0)),
    Shape("grid", 40, 64, cut=(1, 2)),
    Shape("grid", 40, 64, cut=(1, 2), sets=True),
]


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


@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
def test_both_ways_of_working_are_told_the_same(shape: Shape) -> None:
    program = compile_game(builtin("goofspiel", {"cards": 4}))
    by_slot, by_set = lay_out(program, shape), lay_out(program, replace(shape, sets=True))
    for one, two in zip(by_slot, by_set, strict=True):
        items = one.arrays["item"][one.arrays["item"]["flags"] & BUSY > 0]
        sets, below, above = (two.arrays[name] for name in ("set", "below", "above"))
        for share, (mine, here) in enumerate(zip(one.arrays["descriptor"], two.arrays["descriptor"], strict=True)):
            assert mine[:5].tolist() == here[:5].tolist()
            infosets, slots, levels, infoset0, slot0 = mine[:5].tolist()
            ladder = here[FIXED:].reshape(2, -1)[:, : levels + 1]
            assert (ladder[0, -1], ladder[1, -1]) == (infosets, slots)
            mine, items = items[:slots], items[slots:]
            mine = mine[np.argsort(mine["slot"])]
            assert mine["slot"].tolist() == list(range(slots))
            assert above[slot0 : slot0 + slots].tolist() == mine["above"].tolist()
            of = sets[infoset0 : infoset0 + infosets]
            counts = of >> COUNT_SHIFT & 0xFF
            assert np.repeat(np.arange(infosets), counts).tolist() == mine["infoset"].tolist()
            assert (of & 0xFFFF).tolist() == (np.cumsum(counts) - counts).tolist()
            kids = below[slot0 + share : slot0 + share + slots + 1] & 0xFFFF
            assert np.diff(kids).tolist() == mine["kids"].tolist()
            assert kids[:-1].tolist() == mine["kid"].tolist()
            assert (below[slot0 + share :][:slots] >> 16).tolist() == (mine["flags"] & HAS_ROW).tolist()
