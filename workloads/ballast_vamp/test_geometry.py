from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_vamp.geometry import Layer, Part, lay_out, smallest_unit, units
from ballast_vamp.reasons import Disabled

PAGE = 2 << 20
MIB = 1 << 20


@pytest.mark.parametrize(
    ("experts", "rows", "count"),
    [
        (512, (2 * MIB, MIB), 2),  # Qwen3-Next-80B, two ranks
        (512, (4 * MIB, 2 * MIB), 1),  # the same on one
        (128, (6 * MIB, 3 * MIB), 2),  # Qwen3-30B-A3B
        (128, (3 * MIB, 3 * MIB // 2), 4),  # Qwen3-235B, eight ranks
    ],
)
def test_the_smallest_units_of_known_models(experts: int, rows: tuple[int, int], count: int) -> None:
    assert smallest_unit(Layer(experts, rows), PAGE) == count


def test_weights_that_do_not_divide_are_refused_in_words() -> None:
    with pytest.raises(Disabled, match="fill whole pages of 2097152 bytes only 2097152 at a time"):
        smallest_unit(Layer(128, (1_234_567, 999)), PAGE)


def test_units_known_to_be_cold_are_larger() -> None:
    made = units([Layer(512, (4 * MIB, 2 * MIB))], PAGE, tail=128, large=48 * MIB)
    assert [unit.count for unit in made] == [1] * 383 + [8] * 16
    assert made[-1].sizes == (32 * MIB, 16 * MIB)


@given(
    experts=st.integers(8, 200),
    rows=st.lists(st.sampled_from([8, 16, 24, 32, 40, 48]), min_size=1, max_size=2),
    tail=st.integers(0, 200),
    large=st.integers(0, 2000),
)
def test_units_tile_the_end_of_a_layer_in_whole_pages(experts: int, rows: list[int], tail: int, large: int) -> None:
    layer = Layer(experts, tuple(rows))
    try:
        made = units([layer], 16, min(tail, experts), large)
    except Disabled:
        return
    assert all(size % 16 == 0 for unit in made for size in unit.sizes)
    ends = [unit.first + unit.count for unit in made]
    assert ends[:-1] == [unit.first for unit in made[1:]]
    assert ends[-1] == experts
    assert 0 < made[0].first <= smallest_unit(layer, 16), "the tensor's first byte stays where it is"


@given(
    blocks=st.lists(st.integers(1, 100), min_size=1, max_size=5),
    physical=st.integers(1, 40),
    more=st.integers(0, 60),
)
def test_what_is_backed_at_once_and_what_may_be_never_overlap(blocks: list[int], physical: int, more: int) -> None:
    virtual, parts, start = physical + more, [], 0
    for size in blocks:
        parts.append(Part(start, size))
        start += virtual * size
    extents, regions = lay_out(parts, physical, virtual, 16)
    taken = [range(offset, offset + size) for offset, size in extents]
    taken += [range(p.start + r.backed, p.start + r.limit) for p, r in zip(parts, regions, strict=True)]
    ordered = sorted((r for r in taken if len(r)), key=lambda r: r.start)
    assert all(a.stop <= b.start for a, b in itertools.pairwise(ordered))
    assert all(r.start % 16 == 0 and r.stop % 16 == 0 for r in ordered)
    for part, region in zip(parts, regions, strict=True):
        assert region.blocks(10**9) >= virtual - 16 // part.block_bytes - 1
