"""Our games are OpenSpiel's, node by node: who moves, how many actions, what chance does, who knows what, what is paid."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast_cfr.cli.peers import OPENSPIEL, environment
from ballast_cfr.game import number_by_appearance
from ballast_cfr.games import builtin

# Level by level; an information set is named by player and OpenSpiel's text for it.
PROGRAM = """
import json, sys, pyspiel
game = pyspiel.load_game(sys.argv[1])
if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
    game = pyspiel.convert_to_turn_based(game)
level, known = [(game.new_initial_state(), 1.0)], {}
player, children, infoset, chance, payoff = [], [], [], [], []
while level:
    below = []
    for state, probability in level:
        chance.append(probability)
        text, after = None, []
        if state.is_terminal():
            player.append(-2)
            payoff.append(state.returns()[0])
        elif state.is_chance_node():
            player.append(-1)
            after = [(state.child(action), share) for action, share in state.chance_outcomes()]
        else:
            who = state.current_player()
            player.append(who)
            text = (who, state.information_state_string(who))
            after = [(state.child(action), 1.0) for action in state.legal_actions()]
        children.append(len(after))
        infoset.append(-1 if text is None else known.setdefault(text, len(known)))
        below.extend(after)
    level = below
print(json.dumps([player, children, infoset, chance, payoff]))
"""

SHIPS = "board_height=2,num_shots=2,allow_repeated_shots=True,loss_multiplier=1.0"
GAMES: list[tuple[str, dict[str, Any], str]] = [
    ("kuhn", {}, "kuhn_poker"),
    ("leduc", {}, "leduc_poker"),
    ("liars-dice", {"faces": 4}, "liars_dice(dice_sides=4)"),
    ("dark-hex", {}, "dark_hex(num_rows=2,num_cols=2,gameversion=cdh)"),
    ("goofspiel", {"cards": 4}, "goofspiel(imp_info=True,num_cards=4,points_order=descending)"),
    ("goofspiel", {"cards": 4, "order": "ascending"}, "goofspiel(imp_info=True,num_cards=4,points_order=ascending)"),
    ("goofspiel", {"cards": 4, "order": "random"}, "goofspiel(imp_info=True,num_cards=4,points_order=random)"),
    ("goofspiel", {"cards": 5}, "goofspiel(imp_info=True,num_cards=5,points_order=descending)"),
    ("battleship", {}, f"battleship(board_width=2,ship_sizes=[1],ship_values=[1],{SHIPS})"),
    ("battleship", {"ships": "1-2"}, f"battleship(board_width=2,ship_sizes=[1;2],ship_values=[1;1],{SHIPS})"),
    ("battleship", {"width": 3, "ships": "2"}, f"battleship(board_width=3,ship_sizes=[2],ship_values=[1],{SHIPS})"),
    ("oshi-zumo", {"coins": 4, "size": 1}, "oshi_zumo(coins=4,size=1,horizon=6)"),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "parameters", "theirs"), GAMES)
def test_our_game_is_openspiels(name: str, parameters: dict[str, Any], theirs: str) -> None:
    command = [str(environment(OPENSPIEL)), "-c", PROGRAM, theirs]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    player, children, infoset, chance, payoff = json.loads(done.stdout)
    game = builtin(name, parameters)
    assert game.player.tolist() == player
    assert game.n_children.tolist() == children
    assert game.infoset.tolist() == number_by_appearance(np.array(infoset))[0].tolist()
    assert game.chance == pytest.approx(np.array(chance), rel=1e-12)
    assert game.payoff[:, 0].tolist() == payoff


LOADED = """
import sys, pyspiel
sys.path.insert(0, sys.argv[2])
from ballast_cfr import compile, load, validate
from ballast_cfr.formats.openspiel import convert
from ballast_cfr.errors import BadInputError
game = load("openspiel:" + sys.argv[1])
assert game.digest == convert(pyspiel.load_game(sys.argv[1])).digest
program = compile(game)
print(game.nodes, game.infosets, sum(plex.slots for plex in program.plex), validate(game).problems)
try:
    load("openspiel:no_such_game")
except BadInputError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.parametrize(("name", "parameters", "theirs"), GAMES[1:5])
def test_openspiels_games_are_loaded_by_their_strings(name: str, parameters: dict[str, Any], theirs: str) -> None:
    root = str(Path(__file__).parents[2])
    command = [str(environment(OPENSPIEL)), "-c", LOADED, theirs, root]
    facts, refusal = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[:2]
    game = builtin(name, parameters)
    assert facts == f"{game.nodes} {game.infosets} {sum(map(len, game.infoset_actions))} ()"
    assert refusal.startswith("game openspiel:no_such_game: OpenSpiel refuses it: ")
