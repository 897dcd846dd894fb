"""What a pair of strategies is worth against the best replies, exactly.

The opponent's reach fixes the value of every sequence at the terminals; a bottom-up pass that takes the best action
in each information set, instead of the strategy's, then gives the best response. For a player who forgets, the pass
may use what that player would have forgotten: its result bounds the best response from above, and so the
exploitability.

This walks the terminals with array operations, and shares no code with the solver's own evaluation, which tests
compare it with.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.compile.treeplex import Treeplex
from ballast_cfr.game import Floats

Held = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True)
class Evaluation:
    """Of a pair of strategies, in the game's payoff units. value: player 0's when both play on. lower, upper: bounds
    of the game's value for player 0. exploitability: half of what the two could win together by best replies
    (NashConv / 2)."""

    value: float
    lower: float
    upper: float

    @property
    def exploitability(self) -> float:
        return (self.upper - self.lower) / 2


def evaluate(program: Program, strategies: tuple[Floats, Floats], held: tuple[Held, Held] | None = None) -> Evaluation:
    """Judge two behaviour strategies, each (S,) in the order of `program.plex`.

    held: for each player, what best replies must keep to: which information sets (I,) are held to the strategy, and
    which slots (S,) are forbidden.
    """
    judge = program.judge
    first, second = judge.sequence
    if program.exact_recall:
        reach0 = plan(program.plex[0], strategies[0])[first]
        reach1 = plan(program.plex[1], strategies[1])[second]
    else:
        reach0, reach1 = (_terminal_reach(program, player, strategies[player]) for player in (0, 1))
    value = float(np.sum(judge.weight * reach0 * reach1))
    g0 = _by_sequence(first, judge.weight * reach1, judge.plex[0])
    g1 = _by_sequence(second, -judge.weight * reach0, judge.plex[1])
    limits = (None, None) if held is None else held
    best0 = best_response(judge.plex[0], g0, strategies[0], limits[0])
    best1 = best_response(judge.plex[1], g1, strategies[1], limits[1])
    return Evaluation(value + program.shift, program.shift - best1, program.shift + best0)


def _by_sequence(sequence: NDArray[np.int64], value: Floats, plex: Treeplex) -> Floats:
    """Sum what the terminals are worth (T,) over those with the same sequence, (S + 1,)."""
    return np.bincount(sequence, weights=value, minlength=plex.slots + 1).astype(np.float64)


def plan(plex: Treeplex, strategy: Floats) -> Floats:
    """The realisation plan (S + 1,) of a behaviour strategy (S,): the player's own reach of each of its sequences."""
    x = np.ones(plex.slots + 1)
    for start, stop in plex.levels():
        a, b = plex.first[start], plex.first[stop]
        x[a + 1 : b + 1] = np.repeat(x[plex.parent[start:stop]], np.diff(plex.first[start : stop + 1])) * strategy[a:b]
    return x


def best_response(plex: Treeplex, g: Floats, strategy: Floats | None = None, held: Held | None = None) -> float:
    """Value of the best strategy. g: (S + 1,) what the terminals give each sequence, counterfactually. held, strategy:
    what it must keep to, if anything."""
    g = g.copy()
    for start, stop in reversed(plex.levels()):
        a, b = plex.first[start], plex.first[stop]
        first = plex.first[start:stop] - a
        if held is None or strategy is None:
            best = np.maximum.reduceat(g[a + 1 : b + 1], first)
        else:
            locked, forbidden = held
            best = np.maximum.reduceat(np.where(forbidden[a:b], -np.inf, g[a + 1 : b + 1]), first)
            kept = np.add.reduceat(strategy[a:b] * g[a + 1 : b + 1], first)
            best = np.where(locked[start:stop], kept, best)
        np.add.at(g, plex.parent[start:stop], best)
    return float(g[0])


def _terminal_reach(program: Program, player: int, strategy: Floats) -> Floats:
    """(T,) a player's own reach of each terminal, by walking the tree."""
    tree, game = program.tree, program.game
    assert tree is not None
    own = tree.actor == player
    step = np.ones(game.nodes)
    step[own] = strategy[tree.slot[own]]
    reach = np.ones(game.nodes)
    for level in game.levels():
        if level.start:
            reach[level] = reach[game.parent[level]] * step[level]
    return reach[game.terminals]
