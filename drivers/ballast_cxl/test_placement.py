"""Placement: what fits is found, what is free stays whole, and what is placed can always be composed."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_cxl import placement
from ballast_cxl.emulator.appliance import contiguous as appliance_takes
from ballast_cxl.emulator.layout import BladeLayout
from ballast_cxl.grid import Grid

GIB = 1 << 30
GRID = Grid(4, 16, 8 * GIB)
LAYOUT = BladeLayout("b0", 4, 16, 8192, 1)
NAMES = {row * 4 + channel: name for name, (channel, row) in LAYOUT.block_names().items()}


def test_the_tree_of_sixteen_rows_has_thirty_one_extents() -> None:
    found = placement.tree(16)
    assert len(found) == 31
    assert [extent.rows for extent in found] == sorted(extent.rows for extent in found)


@pytest.mark.parametrize(("size", "rows"), [(1, 1), (32 * GIB, 1), (33 * GIB, 2), (96 * GIB, 4), (512 * GIB, 16)])
def test_a_size_needs_so_many_rows(size: int, rows: int) -> None:
    assert placement.rows_needed(GRID, size) == rows


def test_a_small_region_leaves_the_largest_extent_whole() -> None:
    held = set(placement.contiguous(GRID, 32 * GIB, ()) or ())
    second = placement.contiguous(GRID, 32 * GIB, held)
    assert second is not None
    assert placement.largest(GRID, held | set(second), contiguity=True) == 256 * GIB


@given(st.sets(st.integers(0, 63)), st.integers(1, 512 * GIB))
def test_an_extent_is_found_exactly_if_one_is_free(held: set[int], size: int) -> None:
    found = placement.contiguous(GRID, size, held)
    assert (found is not None) == (
        placement.largest(GRID, held, contiguity=True) >= placement.rows_needed(GRID, size) * 32 * GIB
    )
    if found is not None:
        assert held.isdisjoint(found)
        assert len(found) * 8 * GIB >= size
        assert appliance_takes(LAYOUT, [NAMES[block] for block in found])


@given(st.sets(st.integers(0, 63)), st.integers(1, 512 * GIB))
def test_scattered_blocks_are_found_exactly_if_enough_are_free(held: set[int], size: int) -> None:
    found, wanted = placement.scattered(GRID, size, held), -(-size // (8 * GIB))
    assert (found is not None) == (64 - len(held) >= wanted)
    if found is not None:
        assert held.isdisjoint(found)
        assert len(found) == wanted


def traffic(seed: int, steps: int, place: bool) -> tuple[int, int]:
    """Regions of mixed sizes come and go at random; composes that were tried, and of those the ones that failed.

    place: by extents, so that what is free is known before it is asked for. Otherwise as a driver does that counts
    bytes alone: it tries whenever the sum is enough, and the appliance looks for consecutive rows.
    """
    rng = random.Random(seed)
    regions: list[list[int]] = []
    held: set[int] = set()
    tried = failed = 0
    for _ in range(steps):
        if regions and rng.random() < 0.48:
            held -= set(regions.pop(rng.randrange(len(regions))))
            continue
        rows = rng.choice([1, 1, 2, 2, 3, 4, 5, 8])
        if place:
            blocks = placement.contiguous(GRID, rows * GRID.row_bytes, held)
            if blocks is None:
                continue
        elif len(held) + rows * 4 > 64:
            continue
        else:
            used = GRID.rows_of(held)
            run = next((f for f in range(17 - rows) if used.isdisjoint(range(f, f + rows))), None)
            blocks = None if run is None else GRID.blocks_of(range(run, run + rows))
        tried += 1
        if blocks is None or not appliance_takes(LAYOUT, [NAMES[block] for block in blocks]):
            failed += 1
            continue
        held |= set(blocks)
        regions.append(blocks)
    return tried, failed


def test_no_compose_fails_for_fragmentation_where_counting_bytes_does() -> None:
    ours = [traffic(seed, 4000, place=True) for seed in range(5)]
    counted = [traffic(seed, 4000, place=False) for seed in range(5)]
    tried, failed = (sum(part) for part in zip(*ours, strict=True))
    baseline_tried, baseline_failed = (sum(part) for part in zip(*counted, strict=True))
    rate = baseline_failed / baseline_tried
    print(
        f"composes that failed: {failed} of {tried} by extents; {baseline_failed} of {baseline_tried} ({rate:.1%}) by sums"
    )
    assert tried > 5_000
    assert failed == 0
    assert rate > 0.02
