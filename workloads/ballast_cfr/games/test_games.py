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
    ("dark-hex", {}, 441, 134, 244, 216, 0.625),
    ("goofspiel", {"cards": 4}, 1077, 162, 348, 464, 0.7083),
    ("goofspiel", {"cards": 4, "order": "random"}, 26_773, 3608, 7472, 11_136, None),
    ("goofspiel", {"cards": 5}, 26_931, 2124, 4566, 13_120, 0.775),
    ("goofspiel", {"cards": 6}, 969_523, 34_482, 74_076, 493_608, None),
    ("battleship", {}, 2581, 210, 840, 640, 0.04688),
    ("battleship", {"ships": "1-2"}, 21_877, 1970, 7864, 8064, None),
    ("battleship", {"width": 3, "ships": "2", "shots": 3}, 2_271_795, 160_491, 962_948, 197_960, None),
    ("oshi-zumo", {}, 387_952, 119_652, 255_984, 125_476, None),
    # These two are our own; what is recorded here is what they are.
    ("poker-river", {}, 14_256, 280, 760, 8878, None),
    ("poker-turn", {}, 39_508, 3336, 6672, 21_162, None),
]


@pytest.mark.parametrize(("name", "parameters", "nodes", "infosets", "slots", "entries", "uniform"), SIZES)
def test_generated_games_are_those_of_the_literature(
    name: str,
    parameters: dict[str, int],
    nodes: int,
    infosets: int,
    slots: int,
    entries: int,
    uniform: float | None,
) -> None:
    game = builtin(name, parameters)
    program = compile_game(game)
    assert program.matrix is not None
    assert (game.nodes, game.infosets) == (nodes, infosets)
    assert sum(plex.slots for plex in program.plex) == slots
    assert len(program.matrix[0].value) == len(program.matrix[1].value) == entries
    if uniform is not None:
        assert Solver(program).exploitability() == pytest.approx(uniform, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("kuhn", {"cards": 5}),
        ("leduc", {"ranks": 2}),
        ("leduc", {"ranks": 4}),
        ("liars-dice", {"dice": 2, "faces": 2}),
        ("liars-dice", {"dice": 1, "faces": 3}),
        ("dark-hex", {"rows": 3, "columns": 2}),
        ("goofspiel", {"cards": 3, "order": "random"}),
        ("goofspiel", {"cards": 4, "order": "ascending"}),
        ("battleship", {"width": 2, "height": 1, "ships": "1-1", "shots": 1}),
        ("battleship", {"width": 2, "height": 2, "ships": "2-2", "shots": 1}),
        ("oshi-zumo", {"coins": 3, "size": 1, "horizon": 4}),
        ("poker-river", {"hands": 5, "seed": 3, "bets": "33-100", "raises": 3, "stack": 150}),
        ("poker-turn", {"hands": 3, "seed": 1, "stack": 100}),
    ],
)
def test_size_is_known_before_a_game_is_built(name: str, parameters: dict[str, int | str]) -> None:
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
    with pytest.raises(OutOfMemoryError, match=r"game dark-hex has 19,119,486,979 nodes and needs about .* GiB"):
        builtin("dark-hex", {"rows": 3, "columns": 3})


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("chess", {}, "not built in; choose one of battleship, dark-hex, goofspiel, kuhn, leduc, liars-dice"),
        ("goofspiel", {"order": "up"}, "order is up, but must be one of descending, ascending, random"),
        ("battleship", {"ships": "9"}, "ships is 9, but must be one to three sizes from 1 to 4, such as 2 or 1-2"),
        ("leduc", {"cards": "3"}, "has no parameter cards; it takes ranks"),
        ("leduc", {"ranks": "many"}, "ranks is many, but must be a whole number from 2 to 100"),
        ("leduc", {"ranks": "1"}, "ranks is 1, but must be a whole number from 2 to 100"),
    ],
)
def test_wrong_names_and_parameters_say_what_is_right(name: str, parameters: dict[str, str], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        builtin(name, parameters)


def test_infosets_are_numbered_by_appearance() -> None:
    for name in ("kuhn", "leduc", "battleship", "goofspiel", "random-game"):
        infoset = builtin(name).infoset
        seen = infoset[infoset >= 0]
        assert (np.unique(seen, return_index=True)[1].argsort() == np.arange(seen.max() + 1)).all()


def test_ships_that_do_not_fit_are_no_game() -> None:
    with pytest.raises(BadInputError, match="game battleship: 3 ships of 2, 2, 2 do not fit on a board of 2 x 2"):
        builtin("battleship", {"ships": "2-2-2"})


@pytest.mark.parametrize(("name", "parameters"), [("poker-river", {"hands": 12}), ("poker-turn", {"hands": 4})])
def test_hands_that_share_a_card_never_meet(name: str, parameters: dict[str, int]) -> None:
    game = builtin(name, parameters)
    labels = np.array([label.partition(":")[0] for label in game.infoset_label])
    holds: list[dict[int, str]] = [{}, {}]
    for node in range(game.nodes):
        above = int(game.parent[node])
        for held in holds:
            held[node] = held.get(above, "")
        if game.player[node] >= 0:
            holds[game.player[node]][node] = labels[game.infoset[node]]
    pairs = {(holds[0][node], holds[1][node]) for node in range(game.nodes) if holds[0][node] and holds[1][node]}
    assert pairs
    assert all(len({a[:2], a[2:], b[:2], b[2:]}) == 4 for a, b in pairs)


def test_the_same_seed_deals_the_same_game() -> None:
    assert builtin("poker-river", {"seed": 1}).digest == builtin("poker-river", {"seed": 1}).digest
    assert builtin("poker-river", {"seed": 1}).digest != builtin("poker-river", {"seed": 2}).digest
