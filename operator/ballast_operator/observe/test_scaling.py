"""The autoscaler's algorithm: what it proposes, what holds it back, and that it never leaves its limits."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_operator.observe.scaling import Direction, History, Limits, Policy, Reading, decide, proposal

FREE = (Policy(1000, 1),)


def limits(up: float = 0, down: float = 0, ups: tuple[Policy, ...] = FREE, downs: tuple[Policy, ...] = FREE) -> Limits:
    return Limits(1, 10, 0.1, Direction(up, ups), Direction(down, downs))


@pytest.mark.parametrize(
    ("values", "missing", "current", "wanted"),
    [
        ([12.0], 0, 1, 3),
        ([4.3], 0, 1, 1),  # within a tenth of the target
        ([4.5], 0, 1, 2),
        ([0.0, 0.0], 0, 2, 0),
        ([12.0], 2, 3, 3),  # pods that start count as idle: what is on its way is not asked for again
        ([24.0], 2, 3, 6),
        ([0.0], 1, 2, 1),  # a pod that does not answer counts as on target
        ([4.8], 1, 2, 2),  # it would turn the decision: nothing changes
        ([], 2, 2, None),
    ],
)
def test_a_metric_proposes(values: list[float], missing: int, current: int, wanted: int | None) -> None:
    assert proposal(Reading(values, missing, 4.0), current, 0.1) == wanted


def test_a_peak_in_the_window_keeps_replicas_from_going() -> None:
    history, replicas = History(), 5
    for second, proposed in ((0, 5), (10, 1), (20, 1), (29, 1)):
        replicas, history = decide(proposed, replicas, limits(down=30), history, second)
        assert replicas == 5
    replicas, history = decide(1, replicas, limits(down=30), history, 31)
    assert replicas == 1


def test_a_new_start_takes_nothing_away_before_the_window_has_passed() -> None:
    replicas, history = decide(1, 5, limits(down=30), History(), 100)
    assert replicas == 5
    assert decide(1, 5, limits(down=30), history, 131)[0] == 1


def test_a_dip_in_the_window_keeps_replicas_from_coming() -> None:
    replicas, history = decide(1, 1, limits(up=30), History(), 0)
    replicas, history = decide(5, replicas, limits(up=30), history, 10)
    assert replicas == 1
    assert decide(5, replicas, limits(up=30), history, 41)[0] == 5


def test_policies_limit_the_speed_and_the_most_generous_counts() -> None:
    slow = limits(ups=(Policy(1, 60), Policy(100, 60, percent=True)))
    replicas, history = decide(10, 2, slow, History(), 0)
    assert replicas == 4
    replicas, history = decide(10, replicas, slow, history, 30)
    assert replicas == 4
    assert decide(10, replicas, slow, history, 61)[0] == 8


def test_policies_limit_the_way_down_too() -> None:
    slow = limits(downs=(Policy(1, 60),))
    replicas, history = decide(1, 5, slow, History(), 0)
    assert replicas == 4
    replicas, history = decide(1, replicas, slow, history, 30)
    assert replicas == 4
    assert decide(1, replicas, slow, history, 61)[0] == 3


STEPS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 20)), min_size=1, max_size=60)


@settings(deadline=None)
@given(STEPS, st.integers(0, 60), st.integers(0, 60))
def test_replicas_stay_within_their_limits(steps: list[tuple[int, int]], up: int, down: int) -> None:
    history, now, replicas = History(), 0.0, 3
    for pause, proposed in steps:
        now += pause
        replicas, history = decide(proposed, replicas, limits(up, down), history, now)
        assert 1 <= replicas <= 10


@settings(deadline=None)
@given(STEPS, st.integers(1, 20), st.integers(0, 60), st.integers(0, 60))
def test_a_steady_load_is_reached_and_never_left_again(
    before: list[tuple[int, int]], steady: int, up: int, down: int
) -> None:
    history, now, replicas = History(), 0.0, 3
    for pause, proposed in before:
        now += pause
        replicas, history = decide(proposed, replicas, limits(up, down), history, now)
    seen = []
    for _ in range(40):
        now += 5
        replicas, history = decide(steady, replicas, limits(up, down), history, now)
        seen.append(replicas)
    assert seen[-1] == min(steady, 10)
    turns = [later - earlier for earlier, later in pairwise(seen) if later != earlier]
    assert all(turn > 0 for turn in turns) or all(turn < 0 for turn in turns)
