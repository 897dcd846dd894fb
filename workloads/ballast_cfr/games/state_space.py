"""Games given by their rules on states, where players see different parts of each step.

A state is a row of integers. A whole level of the tree is one array of them, and the rules answer for all rows at
once: who moves, what is legal, what follows, who sees what. What a player knows is then the history of what it has
seen, numbered as it grows, so that nobody forgets, whatever the rules. The same rules count the nodes before any is
built, by merging equal states of a level.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.game import CHANCE, TERMINAL, Floats, Game, Ints, number_by_appearance

Bools = NDArray[np.bool_]
States = NDArray[np.int32]

_CODES = 1 << 20  # what is seen in one step is less than this


class Rules(Protocol):
    """A game of two players. States are (n, k); action a is `actions[a]`."""

    name: str
    start: tuple[int, ...]
    actions: Sequence[str]

    def turn(self, states: States) -> Ints:
        """(n,) who moves: 0, 1, CHANCE (each legal outcome equally likely) or TERMINAL."""
        ...

    def legal(self, states: States) -> Bools:
        """(n, actions) what can be done; nothing in a terminal state."""
        ...

    def step(self, states: States, action: Ints) -> States:
        """(n, k) the states that the actions (n,) lead to."""
        ...

    def seen(self, player: int, states: States, action: Ints) -> Ints:
        """(n,) what a player sees of an action, as a number less than 2^20; 0 is nothing. Everybody must see enough to
        know how many steps were made whenever it moves, and its own actions."""
        ...

    def word(self, seen: int) -> str:
        """What was seen, for the name of an information set."""
        ...

    def payoff(self, states: States) -> Floats:
        """(n,) what player 0 wins in terminal states."""
        ...


def count(rules: Rules) -> int:
    """Nodes of the tree. Multiplicities are floats: past 2^53 they are estimates, and the game is out of reach."""
    states, total = np.array([rules.start], dtype=np.int32), 0.0
    many: Floats = np.ones(1)
    while len(states):
        total += float(many.sum())
        above, action = np.nonzero(rules.legal(states))
        below = rules.step(states[above], action)
        first, inverse = _equal(below)
        states = below[first]
        many = np.asarray(np.bincount(inverse, weights=many[above], minlength=len(first)), dtype=np.float64)
    return int(total)


def _equal(states: States) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of each set of equal rows, and which set each row is in."""
    key = np.zeros(len(states), dtype=np.int64)
    for column in states.T.astype(np.int64):
        key = np.unique(key, return_inverse=True)[1]
        low = column.min(initial=0)
        key = key * (column.max(initial=0) - low + 1) + column - low
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


@dataclass
class _Known:
    """What one player can know: each piece of knowledge is an earlier one and what was seen since."""

    parent: list[Ints] = field(default_factory=lambda: [np.array([-1])])
    seen: list[Ints] = field(default_factory=lambda: [np.array([0])])
    size: int = 1

    def learn(self, known: Ints, seen: Ints) -> Ints:
        """(n,) the knowledge after seeing something more (n,) on top of what was known (n,)."""
        key = np.where(seen > 0, known.astype(np.int64) * _CODES + seen, -1 - known.astype(np.int64))
        new, inverse = np.unique(key, return_inverse=True)
        fresh = new[new >= 0]
        number = np.where(new >= 0, self.size + np.arange(len(new)) - (len(new) - len(fresh)), -1 - new)
        self.parent.append(fresh // _CODES)
        self.seen.append(fresh % _CODES)
        self.size += len(fresh)
        return np.asarray(number[inverse])


@dataclass
class _Levels:
    player: list[NDArray[np.int8]] = field(default_factory=list)
    n_children: list[NDArray[np.int32]] = field(default_factory=list)
    chance: list[Floats] = field(default_factory=list)
    key: list[Ints] = field(default_factory=list)
    payoff: list[Floats] = field(default_factory=list)
    legal: dict[int, bytes] = field(default_factory=dict)  # of each information set's first node


def expand(rules: Rules) -> Game:
    """The game tree, level by level."""
    levels, knows = _Levels(), (_Known(), _Known())
    states, edge = np.array([rules.start], dtype=np.int32), np.ones(1)
    known = [np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)]
    while len(states):
        turn, legal = rules.turn(states), rules.legal(states)
        many = legal.sum(axis=1)
        key = np.where(turn >= 0, np.where(turn == 0, known[0] * 2, known[1] * 2 + 1), -1)
        _note(levels, turn, many, edge, key)
        levels.payoff.append(rules.payoff(states[turn == TERMINAL]))
        first = np.unique(key, return_index=True)[1]
        levels.legal.update((int(key[at]), legal[at].tobytes()) for at in first if key[at] >= 0)
        above, action = np.nonzero(legal)
        below = rules.step(states[above], action)
        edge = np.where(turn[above] == CHANCE, 1.0 / many[above], 1.0)
        live = rules.turn(below) != TERMINAL
        before, moved = states[above[live]], action[live]
        for player in (0, 1):
            learnt = np.zeros(len(below), dtype=np.int64)
            seen = rules.seen(player, before, moved)
            learnt[live] = knows[player].learn(known[player][above[live]], seen)
            known[player] = learnt
        states = below
    return _assemble(rules, levels, knows)


def _note(levels: _Levels, turn: Ints, many: Ints, edge: Floats, key: Ints) -> None:
    levels.player.append(turn.astype(np.int8))
    levels.n_children.append(many.astype(np.int32))
    levels.chance.append(edge)
    levels.key.append(key)


def _assemble(rules: Rules, levels: _Levels, knows: tuple[_Known, _Known]) -> Game:
    player = np.concatenate(levels.player)
    key = np.concatenate(levels.key)
    infoset, first = number_by_appearance(key)
    names = tuple(_names(rules, side, knows[side], key[first]) for side in (0, 1))
    named: dict[bytes, tuple[str, ...]] = {}
    actions = []
    for of in key[first].tolist():
        legal = levels.legal[of]
        if legal not in named:
            named[legal] = tuple(rules.actions[a] for a, may in enumerate(legal) if may)
        actions.append(named[legal])
    won = np.concatenate(levels.payoff)
    return Game(
        name=rules.name,
        players=("0", "1"),
        player=player,
        n_children=np.concatenate(levels.n_children),
        infoset=infoset,
        chance=np.concatenate(levels.chance),
        payoff=np.stack([won, -won], axis=1),
        infoset_player=player[first],
        infoset_label=[names[of % 2][of // 2] for of in key[first].tolist()],
        infoset_actions=actions,
    )


def _names(rules: Rules, player: int, known: _Known, keys: Ints) -> dict[int, str]:
    """The names of the information sets of one player, by what is known in each."""
    parent, seen = np.concatenate(known.parent).tolist(), np.concatenate(known.seen).tolist()
    names = {0: ""}
    words: dict[int, str] = {}
    for want in (keys[keys % 2 == player] // 2).tolist():
        path = []
        while want not in names:
            path.append(want)
            want = parent[want]
        for step in reversed(path):
            code = seen[step]
            if code not in words:
                words[code] = rules.word(code)
            names[step] = f"{names[parent[step]]} {words[code]}".strip()
    return names
