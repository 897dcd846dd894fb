"""Every feature of the format, by small games of our own."""

import tracemalloc
from fractions import Fraction

import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.compile.validate import validate
from ballast_cfr.errors import BadInputError
from ballast_cfr.formats import efg, number
from ballast_cfr.game import Game
from ballast_cfr.solve.solver import Solver

HEADER = 'EFG 2 R "title" { "Ann" "Bob" } "a comment"\n'
PENNIES = (
    HEADER
    + """
p "" 1 1 "ann" { "H" "T" } 0
p "" 2 1 "bob" { "H" "T" } 0
t "" 1 "same" { 1, -1 }
t "" 2 "other" { -1, 1 }
p "" 2 1 0
t "" 2
t "" 1
"""
)


def parse(text: str) -> Game:
    return efg.parse("game.efg", text.encode())


def solved(game: Game) -> float:
    solver = Solver(compile_game(game))
    solver.step(2000)
    assert solver.exploitability() < 1e-2 * game.span
    return solver.value()


@pytest.mark.parametrize("endless", ['"' + "x" * 500_000, '"' + '\\"' * 250_000, " " * 500_000, '"a" { "b\\' * 50_000])
def test_a_text_that_never_ends_takes_no_more_memory_than_it_has_characters(endless: str) -> None:
    content = f"EFG 2 R {endless}".encode()
    tracemalloc.start()
    with pytest.raises(BadInputError, match=r"game game\.efg, line 1, column"):
        efg.parse("game.efg", content)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * len(content)


def test_repeated_descriptions_may_be_left_out() -> None:
    game = parse(PENNIES)
    assert (game.nodes, game.infosets) == (7, 2)
    assert game.payoff[:, 0].tolist() == [1, -1, -1, 1]
    assert game.infoset_label == ["ann", "bob"]
    assert solved(game) == pytest.approx(0, abs=1e-2)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace(",", " "),
        lambda text: text.replace(" R ", " D "),
        lambda text: text.replace('"a comment"', ""),
        lambda text: text.replace("{ 1, -1 }", "{ 2/2 -1.0e0 }").replace("-1, 1", "-.1e1, +1."),
        lambda text: text.replace("\n", " "),
    ],
    ids=["crlf", "cr", "bom", "no-commas", "header-d", "no-comment", "rationals", "one-line"],
)
def test_ways_to_write_the_same_game(change: object) -> None:
    assert callable(change)
    assert efg.parse("game.efg", change(PENNIES).encode()).digest == parse(PENNIES).digest


def test_outcomes_on_the_way_are_summed() -> None:
    game = parse(
        HEADER
        + """c "" 1 "" { "l" 1/2 "r" 1/2 } 1 "ante" { 1/3 -1/3 }
        p "" 1 1 "x" { "go" "stay" } 2 "fee" { -1/3, 1/3 }
        t "" 3 "" { 1/3 -1/3 }
        t "" 0
        t "" 2
        """
    )
    assert sorted(game.payoff[:, 0].tolist()) == [0.0, 0.0, float(Fraction(1, 3))]


def test_sums_of_rationals_are_exact() -> None:
    tenths = " ".join(f'"{i}" 0.1' for i in range(10))
    game = parse(HEADER + f'c "" 1 "" {{ {tenths} }} 0\n' + 't "" 1 "" { 0.1 -0.1 }\n' * 10)
    assert game.warnings == ()
    assert not validate(game).problems


def test_decimals_that_miss_one_by_rounding_are_scaled_with_a_warning() -> None:
    text = 'c "" 1 "" { "a" 0.3333333333 "b" 0.3333333333 "c" 0.3333333333 } 0\n' + 't "" 1 "" { 1 -1 }\n' * 3
    game = parse(HEADER + text)
    assert game.chance[1:].tolist() == [1 / 3] * 3
    assert "line 2: probabilities of chance node 1 add up to 0.9999999999; scaled to 1" in game.warnings[0]


def test_duplicate_labels_go_by_position() -> None:
    game = parse(
        HEADER
        + """p "" 1 1 "same" { "x" "x" } 0
        p "" 1 2 "same" { "" "" } 0
        t "" 1 "" { 1 -1 }
        t "" 2 "" { 2 -2 }
        t "" 3 "" { 3 -3 }
        """
    )
    assert game.infoset_label == ["same#1", "same#2"]
    assert solved(game) == pytest.approx(3, abs=1e-2)


def test_names_made_for_equal_labels_are_nobody_elses() -> None:
    text = 'p "" 1 1 "x" { "a" } 0 p "" 1 2 "x#1" { "a" } 0 p "" 1 3 "x" { "a" } 0 t "" 1 "" { 1 -1 }'
    assert parse(HEADER + text).infoset_label == ["x#1#1", "x#1", "x#3"]


def test_a_long_word_is_cut_short_in_a_message_and_stays_on_one_line() -> None:
    with pytest.raises(BadInputError, match=r'expected a node \(c, p or t\), found "one two [x ]{50,60}\.\.\."$'):
        parse(HEADER + '"one\ntwo ' + "x " * 10_000 + '"')


def test_infoset_numbers_are_per_player() -> None:
    assert parse(PENNIES).infoset_player.tolist() == [0, 1]


def test_unary_nodes_are_played_for_certain() -> None:
    game = parse(HEADER + 'p "" 1 1 "" { "only" } 0\np "" 2 1 "" { "only" } 0\nt "" 1 "" { 5 -5 }\n')
    solver = Solver(compile_game(game), "PCFRPlus")
    solver.step(10)
    assert solver.average()[0].tolist() == [1.0]
    assert solver.regrets()[1].tolist() == [0.0]
    assert (solver.value(), solver.exploitability()) == (5.0, 0.0)


def test_a_deep_chain_needs_no_recursion() -> None:
    depth = 3000
    lines = [f'p "" {1 + i % 2} {i} "" {{ "on" }} 0' for i in range(depth)]
    game = parse(HEADER + "\n".join(lines) + '\nt "" 1 "" { 1 -1 }\n')
    assert validate(game).depth == depth
    assert Solver(compile_game(game)).value() == 1.0


def test_a_game_that_is_one_terminal_is_over_at_once() -> None:
    solver = Solver(compile_game(parse(HEADER + 't "" 1 "" { 1/2 -1/2 }\n')))
    solver.step(3)
    assert (solver.value(), solver.exploitability()) == (0.5, 0.0)


ERRORS = [
    ("", r'line 1, column 1: expected the header "EFG 2 R", found the end of the file'),
    ("NFG 1 R", r'line 1, column 1: expected the header "EFG 2 R", found NFG'),
    ("EFG 3 R", r'line 1, column 5: expected version 2 in the header "EFG 2 R", found 3'),
    ('EFG 2 R "t" { }', r"line 1, column 13: the game has no players"),
    (HEADER, r"line 2, column 1: the file ends here, but the tree is not complete"),
    (PENNIES + "t", r"line 10, column 1: the game is complete here, but t follows"),
    (PENNIES.rstrip()[:-2], r"line 9, column 5: expected the number of the outcome \(0 for none\), found the end"),
    (PENNIES.replace("-1, 1", "-1, nan"), r"line 6, column 22: payoff 'nan' is not a finite number"),
    (PENNIES.replace("-1, 1", "-inf, 1"), r"line 6, column 18: payoff '-inf' is not a finite number"),
    (PENNIES.replace("-1, 1", "1e400, 1"), r"line 6, column 18: payoff 1e400 is out of the range of 64-bit floats"),
    (PENNIES.replace("-1, 1", "1e999999999, 1"), r"line 6, column 18: payoff 1e999999999 is out of the range"),
    (PENNIES.replace("-1, 1", "1/0, 1"), r"line 6, column 18: payoff 1/0 divides by zero"),
    (PENNIES.replace("-1, 1", "-1"), r"line 6, column 16: outcome 2 has 1 payoffs for 2 players"),
    (
        PENNIES.replace('p "" 2 1 0\n', 'p "" 2 1 "bob" { "H" } 0\n'),
        r'line 7, column 16: information set 1 of player 2 has actions {"H"} here, but {"H", "T"} before',
    ),
    (
        PENNIES.replace('p "" 2 1 0\n', 'p "" 2 1 "bab" 0\n'),
        r'line 7, column 10: information set 1 of player 2 is called "bab" here, but "bob" before',
    ),
    (
        PENNIES.replace('p "" 2 1 0\n', 'p "" 2 7 0\n'),
        r"line 7, column 10: information set 7 of player 2 is not described here, nor was it before",
    ),
    (
        PENNIES.replace('p "" 2 1 0\n', 'p "" 3 1 0\n'),
        r"line 7, column 6: player 3 moves here, but the game has players 1 to 2",
    ),
    (PENNIES.replace('t "" 2\n', 't "" 9\n'), r"line 8, column 6: outcome 9 has no payoffs here, nor had it before"),
    (PENNIES.replace('t "" 2\n', 't "" 2 "" { 1 1 }\n'), r"line 8, column 11: outcome 2 has other payoffs here"),
    (
        PENNIES.replace('t "" 2\n', 't "" 0 "" { 1 1 }\n'),
        r"line 8, column 6: outcome 0 means none, so it cannot have payoffs",
    ),
    (PENNIES.replace('"H" "T"', ""), r"line 3, column 16: this node has no actions"),
    (PENNIES.replace('t "" 2\n', 'x "" 2\n'), r"line 8, column 1: expected a node \(c, p or t\), found x"),
    (PENNIES.replace('"other"', '"other'), r"line 6, column 6: outcome 2 has no payoffs here"),
    (PENNIES.rstrip() + ' "open', r"line 9, column 8: this quotation mark is never closed; the file seems cut off"),
]


@pytest.mark.parametrize(("text", "words"), ERRORS)
def test_errors_name_file_line_and_column(text: str, words: str) -> None:
    with pytest.raises(BadInputError, match="^game game.efg, " + words):
        parse(text)


CHANCE = HEADER + 'c "" 3 "deal" { OUTCOMES } 0\nt "" 1 "" { 1 -1 }\nt "" 1\n'


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ('"a" 1/2 "b" 0.48', r"column 15: chance node 3 has probabilities summing to 0.98, not 1; the last outcome is"),
        ('"a" 2/3 "b" 2/3', r"column 15: chance node 3 has probabilities summing to 4/3 \(1.333333333\), not 1$"),
        ('"a" 1/3 "b" 333333/500000', r"not 1; the last outcome"),
        ('"a" 3/2 "b" -1/2', r'column 29: probability -1/2 of "b" is negative'),
        (
            '"a" 1e308 "b" 1e308',
            r"column 15: chance node 3 has probabilities summing to more than a 64-bit float holds, not 1$",
        ),
        ('"a" 1/99999999999 "b" 1', r"chance node 3 has probabilities summing to a little more than 1, not 1$"),
        ('"a" NaN "b" 1', r"column 21: probability 'NaN' is not a finite number"),
    ],
)
def test_chance_must_add_up(listed: str, words: str) -> None:
    with pytest.raises(BadInputError, match="^game game.efg, line 2, .*" + words):
        parse(CHANCE.replace("OUTCOMES", listed))


def test_a_chance_node_described_twice_must_agree() -> None:
    twice = HEADER + 'c "" 1 "" { "a" 1 } 0\nc "" 1 "" { "a" 1/2 "b" 1/2 } 0\nt "" 0\nt "" 0\n'
    with pytest.raises(
        BadInputError, match="line 3, column 11: chance node 1 has other outcomes or probabilities here"
    ):
        parse(twice)


def test_a_file_that_is_no_text_is_refused_where_it_breaks() -> None:
    with pytest.raises(BadInputError, match=r"line 1, column 11: the file is not UTF-8 text \(byte 0xff\)"):
        efg.parse("game.efg", b'EFG 2 R "x\xff" { "a" "b" }')


def test_payoffs_that_overflow_on_the_way_are_refused() -> None:
    text = HEADER + 'p "" 1 1 "" { "a" } 1 "" { 1e308 -1e308 }\nt "" 2 "" { 1e308 -1e308 }\n'
    with pytest.raises(BadInputError, match="line 3, column 1: payoffs on the way to this node add up to more"):
        parse(text)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1 / 3, 0.1, 2 / 7, 1e-300, 1.2345678901234567e100, 5e-324])
def test_numbers_are_written_so_that_they_read_back(value: float) -> None:
    assert float(number.parse(number.shortest(value))) == value
