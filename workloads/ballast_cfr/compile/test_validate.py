"""Games that cannot be solved, and games that nearly cannot."""

import dataclasses
import time

import numpy as np
import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.compile.recall import remember
from ballast_cfr.compile.validate import validate
from ballast_cfr.errors import BadInputError
from ballast_cfr.export.strategy import rows
from ballast_cfr.formats import efg
from ballast_cfr.game import Game
from ballast_cfr.games import builtin
from ballast_cfr.solve.solver import Solver


def parse(nodes: str, players: str = '"A" "B"') -> Game:
    return efg.parse("game.efg", f'EFG 2 R "t" {{ {players} }}\n{nodes}\n'.encode())


PENNIES = """p "" 1 1 "a" { "H" "T" } 0
p "" 2 1 "b" { "H" "T" } 0
t "" 1 "" { 1 -1 }
t "" 2 "" { -1 1 }
p "" 2 1 0
t "" 2
t "" 1"""

FORGETFUL = """p "" 1 1 "first" { "L" "R" } 0
p "" 2 1 "b" { "l" "r" } 0
p "" 1 2 "later" { "x" "y" } 0
t "" 1 "" { 1 -1 }
t "" 2 "" { -1 1 }
t "" 3 "" { 0 0 }
p "" 2 1 0
p "" 1 2 0
t "" 2
t "" 1
t "" 3"""

ABSENT = """p "" 1 1 "exit" { "stay" "go" } 0
t "" 1 "" { 0 0 }
p "" 1 1 0
t "" 2 "" { 4 -4 }
t "" 3 "" { 1 -1 }"""


def refusal(game: Game) -> str:
    with pytest.raises(BadInputError) as raised:
        compile_game(game)
    return str(raised.value)


def test_a_good_game_has_no_problems() -> None:
    report = validate(builtin("leduc"))
    assert (report.problems, report.warnings, report.forgetful) == ((), (), None)
    assert (report.infosets, report.slots, report.span, report.depth) == ((468, 468), 2184, 26.0, 11 - 0)


@pytest.mark.parametrize(("players", "payoffs"), [('"A"', "1"), ('"A" "B" "C"', "1 1 -2")])
def test_only_two_players(players: str, payoffs: str) -> None:
    game = parse(f't "" 1 "" {{ {payoffs} }}', players)
    assert "but only two-player games can be solved" in refusal(game)
    assert f"has {players.count(' ') + 1} player" in refusal(game)


def test_general_sum_is_refused_with_an_example() -> None:
    said = refusal(parse(PENNIES.replace("{ -1 1 }", "{ -1 2 }")))
    assert said == (
        "game game.efg, line 5, column 1: payoffs add up to 1 here, but to 0 at game game.efg, line 4, column 1; "
        "only zero-sum and constant-sum games can be solved"
    )


def test_a_mismatch_within_rounding_is_taken_as_zero_sum_with_a_warning() -> None:
    game = parse(PENNIES.replace("{ -1 1 }", "{ -1 1.0000000001 }"))
    assert "taken as equal" in compile_game(game).warnings[0]


def test_constant_sum_gives_the_same_strategy_and_a_shifted_value() -> None:
    plain, shifted = (Solver(compile_game(parse(text))) for text in (KUHN, KUHN_PLUS_THREE))
    for solver in (plain, shifted):
        solver.step(500)
    assert validate(shifted.program.game).constant == 3
    assert all(np.array_equal(a, b) for a, b in zip(plain.average(), shifted.average(), strict=True))
    assert shifted.value() == pytest.approx(plain.value() + 1.5, abs=1e-12)
    assert shifted.exploitability() == pytest.approx(plain.exploitability(), abs=1e-12)


KUHN = PENNIES.replace("{ 1 -1 }", "{ 2 -2 }")
KUHN_PLUS_THREE = KUHN.replace("{ 2 -2 }", "{ 3.5 -0.5 }").replace("{ -1 1 }", "{ 0.5 2.5 }")


def test_imperfect_recall_names_the_infoset_and_two_histories() -> None:
    assert refusal(parse(FORGETFUL)) == (
        'game game.efg, line 9, column 1: information set "later" of player A breaks perfect recall, since its player '
        "comes to it both by [L, l] and by [R, l]; give these histories different information sets, or allow imperfect "
        "recall (no guarantee then)"
    )


def test_imperfect_recall_may_be_allowed_and_is_then_bounded() -> None:
    program = compile_game(parse(FORGETFUL), allow_imperfect_recall=True)
    assert (program.form, program.exact_recall) == ("tree", False)
    solver = Solver(program)
    solver.step(200)
    assert solver.exploitability() >= 0
    assert [row.infoset for row in rows(program, solver.average())] == ["first", "later", "b"]


def test_absent_mindedness_is_always_refused() -> None:
    with pytest.raises(
        BadInputError, match='line 4, column 1: information set "exit" of player A comes twice in one play'
    ):
        compile_game(parse(ABSENT), allow_imperfect_recall=True)


def test_unreachable_parts_keep_their_place_and_count_for_nothing() -> None:
    game = parse(
        """c "" 1 "" { "never" 0 "always" 1 } 0
p "" 1 1 "dead" { "x" "y" } 0
t "" 1 "" { 100 -100 }
t "" 2 "" { -100 100 }
p "" 1 2 "live" { "x" "y" } 0
t "" 3 "" { 1 -1 }
t "" 4 "" { 0 0 }"""
    )
    program = compile_game(game)
    assert "3 nodes lie behind chance of probability zero" in program.warnings[0]
    assert game.span == 1.0
    solver = Solver(program)
    solver.step(100)
    dead, live = rows(program, solver.average())
    assert (dead.infoset, dead.reach, dead.probabilities) == ("dead", 0.0, (0.5, 0.5))
    assert (live.reach, live.probabilities[0] > 0.9) == (1.0, True)
    assert solver.value() == pytest.approx(1, abs=0.05)


def test_long_histories_are_cut_short_in_messages() -> None:
    chain = "\n".join(f'p "" 1 {i + 2} "" {{ "act{i}" }} 0' for i in range(300))
    said = refusal(
        parse(chain + "\n" + 'p "" 1 1 "" { "L" "R" } 0\n' + 'p "" 1 999 "z" { "x" } 0\nt "" 1 "" { 1 -1 }\n' * 2)
    )
    assert "[act0, act1, act2, " in said
    assert "act9, ... 281 more ..., act291, " in said
    assert said.count("act299, L]") == said.count("act299, R]") == 1
    assert len(said) < 1000


def test_the_time_for_a_deep_game_grows_with_its_size_only() -> None:
    def seconds(depth: int) -> float:
        chain = "\n".join(f'p "" 1 {i} "" {{ "a" }} 0' for i in range(depth))
        game = parse(chain + '\nt "" 1 "" { 1 -1 }')
        started = time.process_time()
        remember(game)
        return time.process_time() - started

    assert seconds(8000) < 8 * seconds(2000) + 0.05


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.nan, "not a finite number"),
        (np.inf, "not a finite number"),
        (1e308, "a payoff is 1e+308, but must be from -1e+280 to 1e+280; give it in larger units"),
    ],
)
def test_payoffs_made_in_memory_are_checked_too(bad: float, words: str) -> None:
    game = builtin("kuhn")
    payoff = game.payoff.copy()
    payoff[3] = [bad, -bad]
    assert words in refusal(dataclasses.replace(game, payoff=payoff))


@pytest.mark.parametrize(
    ("bad", "words"), [(-0.5, "must not be negative"), (0.9, "add up to 1.56"), (np.nan, "negative")]
)
def test_chances_made_in_memory_are_checked_too(bad: float, words: str) -> None:
    game = builtin("kuhn")
    chance = game.chance.copy()
    chance[1] = bad
    assert words in refusal(dataclasses.replace(game, chance=chance))


def test_a_form_that_cannot_be_had_is_refused() -> None:
    with pytest.raises(
        BadInputError, match=r"form sequence cannot be had for game game\.efg; choose one of auto, tree"
    ):
        compile_game(parse(FORGETFUL), "sequence", allow_imperfect_recall=True)
