"""Games of OpenSpiel, walked once and then forgotten: what is solved is our own tree.

Needs the package `open_spiel` (extra `openspiel`). Simultaneous moves are made in turn, unseen.
"""

from typing import Any

import numpy as np

from ballast_cfr.errors import BadInputError
from ballast_cfr.game import CHANCE, TERMINAL, Game, number_by_appearance

PREFIX = "openspiel:"


def load(text: str) -> Game:
    """A game by OpenSpiel's own string, such as leduc_poker or goofspiel(num_cards=4). Raises BadInputError."""
    try:
        import pyspiel
    except ImportError as error:
        raise BadInputError(
            f"game {PREFIX}{text} needs OpenSpiel, which is not installed; pip install 'ballast[openspiel]'"
        ) from error
    try:
        game = pyspiel.load_game(text)
    except pyspiel.SpielError as error:
        raise BadInputError(f"game {PREFIX}{text}: OpenSpiel refuses it: {str(error).strip().lower()}") from error
    return convert(game)


def convert(source: Any) -> Game:
    """A pyspiel.Game as a game of ours, level by level. Labels are OpenSpiel's information state strings."""
    import pyspiel

    if source.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        source = pyspiel.convert_to_turn_based(source)
    player: list[int] = []
    children: list[int] = []
    infoset: list[int] = []
    chance: list[float] = []
    payoff: list[list[float]] = []
    known: dict[tuple[int, str], int] = {}
    actions: list[tuple[str, ...]] = []
    level = [(source.new_initial_state(), 1.0)]
    while level:
        below = []
        for state, probability in level:
            chance.append(probability)
            number, after, who = -1, [], TERMINAL
            if state.is_terminal():
                payoff.append(list(state.returns()))
            elif state.is_chance_node():
                who = CHANCE
                after = [(state.child(action), share) for action, share in state.chance_outcomes()]
            else:
                who = state.current_player()
                key = (who, state.information_state_string(who))
                number = known.setdefault(key, len(known))
                if number == len(actions):
                    actions.append(tuple(state.action_to_string(who, action) for action in state.legal_actions()))
                after = [(state.child(action), 1.0) for action in state.legal_actions()]
            player.append(who)
            infoset.append(number)
            children.append(len(after))
            below.extend(after)
        level = below
    numbers, _ = number_by_appearance(np.array(infoset))
    owners = [who for who, _ in known]
    return Game(
        name=str(source),
        players=tuple(str(who) for who in range(source.num_players())),
        player=np.array(player, dtype=np.int8),
        n_children=np.array(children, dtype=np.int32),
        infoset=numbers,
        chance=np.array(chance),
        payoff=np.array(payoff, dtype=np.float64),
        infoset_player=np.array(owners, dtype=np.int8),
        infoset_label=[text for _, text in known],
        infoset_actions=actions,
    )
