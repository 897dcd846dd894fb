from itertools import pairwise

import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.games import builtin
from ballast_cfr.solve.goal import stop
from ballast_cfr.solve.monitor import Monitor
from ballast_cfr.solve.schedule import Stop, is_look, next_look
from ballast_cfr.solve.solver import Solver


def test_looks_depend_on_the_iteration_alone() -> None:
    points = [point for point in range(5000) if is_look(point)]
    assert points[:3] == [32, 64, 96]
    assert all(next_look(before) == after for before, after in pairwise(points))
    gaps = [after - before for before, after in pairwise(points)]
    assert min(gaps) == 32
    assert all(gap <= max(32, before / 20) for before, gap in zip(points, gaps, strict=False))


def test_an_iteration_limit_is_met_exactly() -> None:
    for limit in (1, 31, 32, 33, 1000):
        outcome = Solver(compile_game(builtin("kuhn"))).solve(Stop(iterations=limit))
        assert (outcome.reason, outcome.iteration) == ("IterationLimit", limit)
        assert outcome.look is not None
        assert outcome.look.iteration == limit


def test_a_target_stops_at_the_same_iteration_whatever_the_pace() -> None:
    rule = stop(builtin("kuhn"), exploitability="1e-3")
    swift = Solver(compile_game(builtin("kuhn")))
    slow = Solver(compile_game(builtin("kuhn")))
    expected = swift.solve(rule)
    while slow.solve(rule, interrupted=iter([False, True]).__next__).reason == "Interrupted":
        pass
    assert (expected.reason, slow.iteration) == ("TargetReached", expected.iteration)
    assert is_look(expected.iteration)
    assert swift.exploitability() <= 1e-3


def test_a_time_limit_ends_a_solve() -> None:
    outcome = Solver(compile_game(builtin("leduc"))).solve(Stop(seconds=0.2))
    assert outcome.reason == "TimeLimit"
    assert 0.2 <= outcome.seconds < 5


def test_units_of_exploitability() -> None:
    game = builtin("leduc")
    assert stop(game, "2", "Absolute").exploitability == 2
    assert stop(game, "1e-3", "Span").exploitability == pytest.approx(0.026)
    assert stop(game, 5, "mbb").exploitability == 0.005


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no end is given; set a target exploitability, an iteration limit or a time limit"),
        ({"exploitability": "small"}, "target exploitability is small, but must be a number greater than 0"),
        ({"exploitability": "-1"}, "target exploitability is -1, but"),
        ({"exploitability": "nan"}, "target exploitability is nan, but"),
        ({"exploitability": 1, "unit": "Chips"}, "unit Chips is unknown; choose one of Absolute, Span, MilliBigBlind"),
        ({"max_iterations": 0}, "the limit of iterations is 0, but must be greater than 0"),
    ],
)
def test_impossible_ends_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        stop(builtin("kuhn"), **options)  # type: ignore[arg-type]


def test_a_game_without_blinds_has_no_milli_big_blinds() -> None:
    with pytest.raises(BadInputError, match="game liars-dice has no big blind; use Absolute or Span"):
        stop(builtin("liars-dice", {"faces": 2}), 1, "MilliBigBlind")


def test_monitor_expects_the_end_where_the_trend_leads() -> None:
    rule = Stop(exploitability=1e-3)
    solver = Solver(compile_game(builtin("leduc")), "CFRPlus")
    monitor = Monitor(rule)
    etas = []
    solver.solve(rule, progress=lambda solver: etas.append(monitor.see(solver).eta))
    assert etas[0] is None
    assert etas[-1] is not None
    assert etas[-1] <= 1
