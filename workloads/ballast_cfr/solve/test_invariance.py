"""What must not change when a game is written another way, or solved in another form."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_cfr.compile.program import compile_game
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.game import Game
from ballast_cfr.games import builtin
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import UPDATES, VARIANTS

each_variant = pytest.mark.parametrize("variant", VARIANTS)
each_update = pytest.mark.parametrize("updates", UPDATES)


def scaled(game: Game, factor: float, shift: float = 0.0) -> Game:
    payoff = game.payoff * factor + np.array([shift, -shift])
    return dataclasses.replace(game, payoff=payoff)


def swapped(game: Game) -> Game:
    """The same game with the seats exchanged."""
    player = np.where(game.player >= 0, 1 - game.player, game.player).astype(np.int8)
    return dataclasses.replace(
        game,
        player=player,
        payoff=game.payoff[:, ::-1].copy(),
        infoset_player=(1 - game.infoset_player).astype(np.int8),
    )


def run(game: Game, iterations: int, variant: str = "CFRPlus", **options: Any) -> Solver:
    form = options.pop("form", "auto")
    solver = Solver(compile_game(game, form), variant, **options)
    solver.step(iterations)
    return solver


def same(one: Solver, other: Solver) -> bool:
    return all(
        a.tobytes() == b.tobytes()
        for left, right in ((one.average(), other.average()), (one.current(), other.current()))
        for a, b in zip(left, right, strict=True)
    )


@each_variant
@each_update
@pytest.mark.parametrize("exponent", [-40, 3, 60])
@pytest.mark.parametrize("name", ["leduc", "random-game"])
def test_payoffs_times_a_power_of_two_give_the_same_bits(name: str, variant: str, updates: str, exponent: int) -> None:
    game = builtin(name)
    plain = run(game, 300, variant, updates=updates)
    assert same(plain, run(scaled(game, 2.0**exponent), 300, variant, updates=updates))


@each_variant
@pytest.mark.parametrize("form", ["sequence", "tree"])
def test_exchanging_the_seats_mirrors_every_bit(variant: str, form: str) -> None:
    game = builtin("leduc")
    one = run(game, 200, variant, updates="Simultaneous", form=form)
    other = run(swapped(game), 200, variant, updates="Simultaneous", form=form)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.average(), other.average()[::-1], strict=True))
    assert one.value() == pytest.approx(-other.value(), abs=1e-12)


@each_variant
def test_a_constant_added_to_the_payoffs_only_moves_the_value(variant: str) -> None:
    game = builtin("kuhn")
    one, other = run(game, 100, variant), run(scaled(game, 1.0, 10.0), 100, variant)
    for a, b in zip(one.average(), other.average(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    assert other.value() - one.value() == pytest.approx(10, abs=1e-12)


@each_variant
@each_update
@pytest.mark.parametrize("name", ["kuhn", "leduc"])
def test_sequence_form_and_tree_form_agree(name: str, variant: str, updates: str) -> None:
    game = builtin(name)
    sequence, tree = (run(game, 50, variant, updates=updates, form=form) for form in ("sequence", "tree"))
    for a, b in zip(sequence.average(), tree.average(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 if variant == "DCFR" else 1e-9)
    assert sequence.exploitability() == pytest.approx(tree.exploitability(), rel=1e-4)


def test_the_same_run_twice_is_the_same_to_the_bit_however_it_is_cut() -> None:
    game = builtin("leduc")
    whole, pieces = run(game, 500), run(game, 1)
    for step in (1, 2, 3, 93, 400):
        pieces.step(step)
    assert same(whole, pieces)


def test_reset_starts_over() -> None:
    game = builtin("leduc")
    solver, fresh = run(game, 77), run(game, 50)
    solver.reset()
    solver.step(50)
    assert same(solver, fresh)


random_games = st.builds(
    lambda **parameters: builtin("random-game", parameters),
    seed=st.integers(0, 10**6),
    depth=st.integers(1, 6),
    branching=st.integers(1, 3),
)


@settings(max_examples=40, deadline=None)
@given(random_games, st.sampled_from(VARIANTS), st.sampled_from(UPDATES))
def test_random_games_are_solved_alike_in_both_forms(game: Game, variant: str, updates: str) -> None:
    sequence, tree = (run(game, 10, variant, updates=updates, form=form) for form in ("sequence", "tree"))
    for a, b in zip(sequence.average(), tree.average(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(random_games, st.sampled_from(VARIANTS))
def test_exploitability_is_never_negative_and_bounds_hold(game: Game, variant: str) -> None:
    solver = run(game, 20, variant)
    seen, independent = solver.evaluate(), evaluate(solver.program, solver.average())
    slack = 1e-12 * max(game.span, 1.0)
    assert seen.exploitability >= -slack
    assert seen.lower - slack <= seen.value <= seen.upper + slack
    for a, b in ((seen.value, independent.value), (seen.lower, independent.lower), (seen.upper, independent.upper)):
        assert a == pytest.approx(b, abs=slack)


@settings(max_examples=15, deadline=None)
@given(random_games)
def test_random_games_converge(game: Game) -> None:
    solver = run(game, 1000)
    assert solver.exploitability() <= 0.02 * max(game.span, 1e-9)
    for strategy, plex in zip(solver.average(), solver.program.plex, strict=True):
        if plex.infosets:
            np.testing.assert_allclose(np.add.reduceat(strategy, plex.first[:-1]), 1, atol=1e-12)
