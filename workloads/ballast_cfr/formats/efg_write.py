"""Writing a game as a Gambit .efg file that reads back as the same game."""

from collections.abc import Iterator

import numpy as np

from ballast_cfr.formats.number import shortest
from ballast_cfr.game import CHANCE, TERMINAL, Game


def write(game: Game) -> Iterator[str]:
    """The lines of the file, in prefix order, one at a time."""
    yield f"EFG 2 R {_quote(game.name)} {{ {' '.join(map(_quote, game.players))} }}\n"
    number = np.zeros(game.infosets, dtype=np.int64)
    for player in range(len(game.players)):
        own = np.flatnonzero(game.infoset_player == player)
        number[own] = np.arange(1, len(own) + 1)
    terminal = np.cumsum(game.player == TERMINAL)
    todo = [0]
    chances = 0
    while todo:
        node = todo.pop()
        kind = int(game.player[node])
        first, count = int(game.first_child[node]), int(game.n_children[node])
        if kind == TERMINAL:
            payoffs = " ".join(shortest(float(value)) for value in game.payoff[terminal[node] - 1])
            yield f't "" {terminal[node]} "" {{ {payoffs} }}\n'
        elif kind == CHANCE:
            chances += 1
            listed = " ".join(f'"{k + 1}" {shortest(float(game.chance[first + k]))}' for k in range(count))
            yield f'c "" {chances} "" {{ {listed} }} 0\n'
        else:
            infoset = int(game.infoset[node])
            names = " ".join(map(_quote, game.infoset_actions[infoset]))
            yield f'p "" {kind + 1} {number[infoset]} {_quote(game.infoset_label[infoset])} {{ {names} }} 0\n'
        todo.extend(range(first + count - 1, first - 1, -1))


def _quote(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
