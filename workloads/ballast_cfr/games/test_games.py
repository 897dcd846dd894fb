import numpy as np
import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.compile.validate import validate
from ballast_cfr.errors import BadInputError, OutOfMemoryError
from ballast_cfr.games import BUILTINS, builtin
from ballast_cfr.solve.solver import Solver

# name, parameters, nodes, infosets, slots, payoff entries, exploitability of playing uniformly (OpenSpiel 2.0.2)
SIZES = [
    ("kuhn", {}, 58, 12, 24, 30, 0.4583),
    ("leduc", {}, 9457, 936, 2184, 4920, 2.374),
    ("liars-dice", {"faces": 4}, 8181, 1024, 2040, 4080, 0.6551),
    ("liars-dice", {}, 294_883, 24_576, 49_140, 147_420, 0.7807),
]


@pytest.mark.parametrize(("name", "parameters", "nodes", "infosets", "slots", "entries", "uniform"), SIZES)
def test_generated_games_are_those_of_the_literature(
    name: str, parameters: dict[str, int], nodes: int, infosets: int, slots: int, entries: int, uniform: float
) -> None:
    game = builtin(name, parameters)
    program = compile_game(game)
    assert program.matrix is not None
    assert (game.nodes, game.infosets) == (nodes, infosets)
    assert sum(plex.slots for plex in program.plex) == slots
    assert len(program.matrix[0].value) == len(program.matrix[1].value) == entries
    assert Solver(program).exploitability() == pytest.approx(uniform, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("kuhn", {"cards": 5}),
        ("leduc", {"ranks": 2}),
        ("leduc", {"ranks": 4}),
        ("liars-dice", {"dice": 2, "faces": 2}),
        ("liars-dice", {"dice": 1, "faces": 3}),
    ],
)
def test_size_is_known_before_a_game_is_built(name: str, parameters: dict[str, int]) -> None:
    game = builtin(name, parameters)
    defaults = {key: parameter.default for key, parameter in BUILTINS[name].parameters.items()}
    assert BUILTINS[name].nodes(**{**defaults, **parameters}) == game.nodes
    assert not validate(game).problems


def test_kuhn_with_more_cards_goes_on_being_dealt_fairly() -> None:
    game = builtin("kuhn", {"cards": 4})
    reach = game.chance_reach[game.terminals]
    assert reach.min() == reach.max() == pytest.approx(1 / 12)


def test_too_large_a_game_is_refused_before_it_is_built() -> None:
    with pytest.raises(OutOfMemoryError, match=r"game liars-dice has [0-9,]+ nodes and needs about .* GiB"):
        builtin("liars-dice", {"dice": 2, "faces": 8})


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("chess", {}, "not built in; choose one of kuhn, leduc, liars-dice"),
        ("leduc", {"cards": "3"}, "has no parameter cards; it takes ranks"),
        ("leduc", {"ranks": "many"}, "ranks is many, but must be a whole number from 2 to 100"),
        ("leduc", {"ranks": "1"}, "ranks is 1, but must be a whole number from 2 to 100"),
    ],
)
def test_wrong_names_and_parameters_say_what_is_right(name: str, parameters: dict[str, str], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        builtin(name, parameters)


def test_infosets_are_numbered_by_appearance() -> None:
    for name in ("kuhn", "leduc", "random-game"):
        infoset = builtin(name).infoset
        seen = infoset[infoset >= 0]
        assert (np.unique(seen, return_index=True)[1].argsort() == np.arange(seen.max() + 1)).all()
