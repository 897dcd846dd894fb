"""The solver against a linear program, which shares nothing with it but the payoff matrix' definition."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, vstack

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.compile.treeplex import Treeplex
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.game import Floats
from ballast_cfr.games import builtin
from ballast_cfr.solve.solver import Solver


def constraints(plex: Treeplex) -> tuple[Any, Floats]:
    """E and e of the sequence form: x(empty) = 1, and in each information set the plan splits what comes to it."""
    matrix = np.zeros((plex.infosets + 1, plex.slots + 1))
    matrix[0, 0] = 1
    for i in range(plex.infosets):
        matrix[i + 1, plex.parent[i]] = -1
        matrix[i + 1, plex.first[i] + 1 : plex.first[i + 1] + 1] = 1
    start = np.zeros(plex.infosets + 1)
    start[0] = 1
    return csr_matrix(matrix), start


def payoffs(program: Program) -> Any:
    first, second = program.judge.sequence
    shape = (program.judge.plex[0].slots + 1, program.judge.plex[1].slots + 1)
    return csr_matrix((program.judge.weight, (first, second)), shape=shape)


def optimal(program: Program, player: int) -> tuple[float, Floats]:
    """The game's value and a maximin strategy (S,) of one player: maximise f'q so that F'q <= A'x, Ex = e, x >= 0
    (von Stengel)."""
    a = payoffs(program) if player == 0 else -payoffs(program).T
    e, e0 = constraints(program.judge.plex[player])
    f, f0 = constraints(program.judge.plex[1 - player])
    n, m = e.shape[1], f.shape[0]
    found = linprog(
        np.concatenate([np.zeros(n), -f0]),
        A_ub=hstack([-a.T, f.T]).tocsr(),
        b_ub=np.zeros(f.shape[1]),
        A_eq=hstack([e, csr_matrix((e.shape[0], m))]).tocsr(),
        b_eq=e0,
        bounds=[(0, None)] * n + [(None, None)] * m,
        method="highs",
    )
    assert found.status == 0, found.message
    return -found.fun, behaviour(program.judge.plex[player], found.x[:n])


def behaviour(plex: Treeplex, x: Floats) -> Floats:
    x = np.maximum(x, 0)
    total = np.add.reduceat(x[1:], plex.first[:-1])[plex.of_slot] if plex.infosets else x[1:]
    uniform = 1 / np.diff(plex.first)[plex.of_slot]
    return np.where(total > 1e-12, x[1:] / np.where(total > 1e-12, total, 1), uniform)


def test_constraints_are_those_of_kuhn() -> None:
    e, _ = constraints(compile_game(builtin("kuhn")).plex[0])
    assert e.shape == (7, 13)
    assert vstack([e]).sum() == 1 + 12 - 6


@pytest.mark.parametrize(
    ("name", "parameters", "value"),
    [
        ("kuhn", {}, -1 / 18),
        ("leduc", {}, -0.0856064241),
        ("liars-dice", {"faces": 4}, 1 / 16),
        ("battleship", {}, 1 / 8),
        ("battleship", {"ships": "1-2"}, 0),
        ("goofspiel", {}, 0),
        ("dark-hex", {}, 1),
        ("poker-river", {"hands": 6}, None),
    ],
)
def test_linear_program_and_solver_agree_on_the_known_value(
    name: str, parameters: dict[str, Any], value: float | None
) -> None:
    program = compile_game(builtin(name, parameters))
    found = [optimal(program, player)[0] for player in (0, 1)]
    value = found[0] if value is None else value
    assert found == pytest.approx([value, -value], abs=1e-7)
    solver = Solver(program, "CFRPlus")
    solver.step(1000)
    seen = solver.evaluate()
    slack = 1e-9 * program.game.span
    assert seen.lower - slack <= value <= seen.upper + slack
    assert seen.value == pytest.approx(value, abs=1e-3 * max(1, program.game.span / 26))


def test_liars_dice_with_six_faces_is_bounded_around_its_value() -> None:
    solver = Solver(compile_game(builtin("liars-dice")), "CFRPlus")
    solver.step(100)
    seen = solver.evaluate()
    assert seen.lower <= -0.0271317829 <= seen.upper
    assert seen.exploitability == pytest.approx(0.0049, rel=0.1)


@pytest.mark.parametrize("name", ["kuhn", "leduc"])
def test_best_response_equals_a_linear_program(name: str) -> None:
    program = compile_game(builtin(name))
    solver = Solver(program, "PCFRPlus")
    solver.step(7)
    seen, strategies = solver.evaluate(), solver.average()
    from ballast_cfr.evaluate.best_response import plan

    a, y, x = payoffs(program), plan(program.plex[1], strategies[1]), plan(program.plex[0], strategies[0])
    for plex, gain, bound in ((program.plex[0], a @ y, seen.upper), (program.plex[1], -(a.T @ x), -seen.lower)):
        matrix, start = constraints(plex)
        best = linprog(-gain, A_eq=matrix, b_eq=start, bounds=(0, None), method="highs")
        assert -best.fun == pytest.approx(bound, abs=1e-9)


def test_kuhn_ends_in_the_known_family_of_equilibria() -> None:
    program = compile_game(builtin("kuhn"))
    solver = Solver(program, "PCFRPlus")
    solver.step(5000)
    strategies = solver.average()
    bet = {
        program.game.infoset_label[infoset]: strategies[player][program.plex[player].first[i] + 1]
        for player in (0, 1)
        for i, infoset in enumerate(program.plex[player].infoset)
    }
    alpha = bet["J:"]
    assert 0 <= alpha <= 1 / 3 + 1e-4
    assert bet["K:"] == pytest.approx(3 * alpha, abs=1e-3)
    assert bet["Q:"] == pytest.approx(0, abs=1e-4)
    assert bet["Q:pb"] == pytest.approx(alpha + 1 / 3, abs=1e-3)
    assert bet["J:p"] == pytest.approx(1 / 3, abs=1e-3)
    assert bet["Q:b"] == pytest.approx(1 / 3, abs=1e-3)


random_games = st.builds(
    lambda **parameters: builtin("random-game", parameters),
    seed=st.integers(0, 10**6),
    depth=st.integers(1, 5),
    branching=st.integers(1, 3),
)


@settings(max_examples=40, deadline=None)
@given(random_games)
def test_equilibria_of_random_games_cannot_be_exploited(game: Any) -> None:
    program = compile_game(game)
    (value, x), (other, y) = optimal(program, 0), optimal(program, 1)
    assert value == pytest.approx(-other, abs=1e-7)
    seen = evaluate(program, (x, y))
    assert seen.exploitability == pytest.approx(0, abs=1e-6)
    assert seen.value == pytest.approx(value, abs=1e-6)
