"""Other payoffs and other ranges over one game tree, without compiling it again.

What is compiled (who knows what, which sequences meet at which terminals) does not depend on numbers. So only the
numbers are made anew, by the same sums in the same order: the result equals, bit for bit, what compiling the changed
game would give.

Ranges: before the first move, chance deals each player something to know. Deals that a player cannot tell apart are
one of its types, such as a hand; a range gives each type a factor. Together with the other player's it scales the
probability of every deal.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Judge, Program, compile_game, matrices
from ballast_cfr.compile.treeplex import Treeplex
from ballast_cfr.compile.validate import LARGEST
from ballast_cfr.errors import BadInputError
from ballast_cfr.game import CHANCE, Floats, Game

Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Deals:
    """What chance deals before the first move. node: (D,) where play begins after each deal. types: (D,) by player,
    what it then knows, numbered by first appearance; names: for each of them, the information set it first acts in."""

    node: Longs
    types: tuple[Longs, Longs]
    names: tuple[tuple[str, ...], tuple[str, ...]]


class Variations:
    """Programs that differ from one in payoffs and in the probabilities of deals."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.game = program.game

    def payoffs(self, base: Program, payoff: Floats) -> Program:
        """With other payoffs of player 0, (T,) in the order of `game.terminals`; the sum of both players' stays."""
        given = np.asarray(payoff, dtype=np.float64)
        self.demand_payoffs(given)
        both = np.stack([given, 2 * base.shift - given], axis=1)
        return self._make(base, replace(base.game, payoff=both))

    def demand_payoffs(self, given: Floats) -> None:
        """Raise BadInputError if these cannot be player 0's payoffs."""
        terminals = len(self.game.terminals)
        if given.shape != (terminals,) or not (np.abs(given) <= LARGEST).all():
            raise BadInputError(
                f"game {self.game.name}: payoffs have shape {given.shape}, but must be {terminals} finite numbers, "
                f"one for each terminal, from {-LARGEST:g} to {LARGEST:g}"
            )

    def ranges(self, base: Program, first: Floats, second: Floats) -> Program:
        """With the deals' probabilities scaled by a factor for each type of player 0 and of player 1."""
        mass = np.zeros(self.game.nodes)
        mass[self.deals.node] = self.demand_ranges(first, second)
        return self._make(base, replace(base.game, chance=self._chances(mass)))

    def demand_ranges(self, first: Floats, second: Floats) -> Floats:
        """(D,) the proportions in which the deals come with these factors. Raises BadInputError if they cannot be
        ranges."""
        factors = []
        for player, given in enumerate((first, second)):
            many = len(self.deals.names[player])
            factor = np.asarray(given, dtype=np.float64)
            if factor.shape != (many,) or not np.isfinite(factor).all() or (factor < 0).any():
                raise BadInputError(
                    f"game {self.game.name}: the range of player {player} must be {many} numbers, none negative, one "
                    f"for each of its types; its shape is {factor.shape}"
                )
            factors.append(_moderate(factor))
        types = self.deals.types
        mass = self.game.chance_reach[self.deals.node] * factors[0][types[0]] * factors[1][types[1]]
        if not mass.any():
            raise BadInputError(f"game {self.game.name}: these ranges leave no deal that can come")
        return np.asarray(mass)

    def _chances(self, mass: Floats) -> Floats:
        """(N,) the edges' probabilities if the deals come in these proportions (at their nodes)."""
        game = self.game
        for level in reversed([level for level in game.levels() if level.start and self._dealt[level].any()]):
            below = np.arange(level.start, level.stop)[self._dealt[level]]
            np.add.at(mass, game.parent[below], mass[below])
        edges = np.flatnonzero(self._dealt)[1:]
        above = mass[game.parent[edges]]
        chance = game.chance.copy()
        chance[edges] = np.where(above > 0, mass[edges] / np.where(above > 0, above, 1), game.chance[edges])
        return chance

    @cached_property
    def _dealt(self) -> NDArray[np.bool_]:
        """(N,) whether only chance has moved before a node."""
        game = self.game
        dealt = np.zeros(game.nodes, dtype=bool)
        dealt[0] = True
        for level in game.levels():
            if level.start:
                above = game.parent[level]
                dealt[level] = dealt[above] & (game.player[above] == CHANCE)
        return dealt

    @cached_property
    def deals(self) -> Deals:
        """The deals and what each player then knows."""
        game = self.game
        node = np.flatnonzero(self._dealt & (game.player != CHANCE))
        deal = np.full(game.nodes, -1, dtype=np.int64)
        deal[node] = np.arange(len(node))
        for level in game.levels():
            if level.start:
                above = deal[game.parent[level]]
                deal[level] = np.where(above >= 0, above, deal[level])
        found = [self._types(player, deal, len(node)) for player in (0, 1)]
        return Deals(node, (found[0][0], found[1][0]), (found[0][1], found[1][1]))

    def _types(self, player: int, deal: Longs, deals: int) -> tuple[Longs, tuple[str, ...]]:
        """The type of each deal, and the types' names: deals are of one type if they share an information set before
        the player's first move, directly or through others."""
        plex = self.program.judge.plex[player]
        top = np.zeros(self.game.infosets + 1, dtype=bool)
        top[plex.infoset[plex.parent == 0]] = True
        at = np.flatnonzero(top[self.game.infoset])
        infoset, dealt = self.game.infoset[at], deal[at]
        label = np.arange(deals)
        while True:
            lowest = np.full(self.game.infosets, deals)
            np.minimum.at(lowest, infoset, label[dealt])
            joined = label.copy()
            np.minimum.at(joined, dealt, lowest[infoset])
            if (joined == label).all():
                break
            label = joined
        first, types = np.unique(label, return_inverse=True)
        named = dict(zip(label[dealt][::-1].tolist(), infoset[::-1].tolist(), strict=True))
        names = tuple(self.game.infoset_label[named[one]] if one in named else "" for one in first.tolist())
        return types, names

    def _make(self, base: Program, game: Game) -> Program:
        if not base.exact_recall:
            return compile_game(game, base.form, allow_imperfect_recall=True)
        same = game.chance is base.game.chance
        if same:
            game.__dict__["chance_reach"] = base.game.chance_reach
        gain = np.asarray((game.payoff[:, 0] - game.payoff[:, 1]) / 2)
        reach = [self._reach_of(base, player) if same else self._reach(game, player) for player in (0, 1)]
        plex0, plex1 = (self._plex(base, player, gain, reach[player]) for player in (0, 1))
        judge = Judge((plex0, plex1), base.judge.sequence, game.chance_reach[game.terminals] * gain)
        tree = base.tree
        if tree is not None:
            pays = np.zeros(game.nodes)
            pays[game.terminals] = gain
            tree = replace(tree, chance=game.chance, gain=pays)
        matrix = None if base.matrix is None else matrices(judge, base)
        made = replace(base, game=game, plex=judge.plex, matrix=matrix, tree=tree, judge=judge)
        if matrix is not None and base.matrix is not None and matrix[0].start is not base.matrix[0].start:
            made = replace(made, paying=np.flatnonzero(judge.weight))
        made.__dict__["reach_of_infosets"] = reach
        return made

    def _reach_of(self, base: Program, player: int) -> Floats:
        kept: list[Floats] | None = base.__dict__.get("reach_of_infosets")
        return self._reach(base.game, player) if kept is None else kept[player]

    @cached_property
    def _nodes(self) -> tuple[tuple[Longs, Longs], tuple[Longs, Longs]]:
        """For each player, its decision nodes and the information set of its treeplex at each."""

        def of(player: int) -> tuple[Longs, Longs]:
            plex = self.program.judge.plex[player]
            number = np.full(self.game.infosets, -1, dtype=np.int64)
            number[plex.infoset] = np.arange(plex.infosets)
            at = np.flatnonzero(self.game.player == player)
            return at, number[self.game.infoset[at]]

        return of(0), of(1)

    def _reach(self, game: Game, player: int) -> Floats:
        at, infoset = self._nodes[player]
        many = self.program.judge.plex[player].infosets
        return np.bincount(infoset, weights=game.chance_reach[at], minlength=many).astype(np.float64)

    def _plex(self, base: Program, player: int, gain: Floats, reach: Floats) -> Treeplex:
        """The treeplex with its magnitudes: the largest payoff below each information set, found from the sequences
        that the terminals end, and so without walking the tree."""
        plex = base.judge.plex[player]
        largest = np.zeros(plex.slots + 1)
        np.maximum.at(largest, base.judge.sequence[player], np.abs(gain))
        below = np.zeros(plex.infosets)
        for start, stop in reversed(plex.levels()):
            a, b = plex.first[start], plex.first[stop]
            below[start:stop] = np.maximum.reduceat(largest[a + 1 : b + 1], plex.first[start:stop] - a)
            np.maximum.at(largest, plex.parent[start:stop], below[start:stop])
        return replace(plex, magnitude=reach * below)


def _moderate(factor: Floats) -> Floats:
    """The same proportions, to the bit, with the largest between 1/2 and 1, so that products of them overflow
    nowhere."""
    return np.asarray(np.ldexp(factor, -np.frexp(factor.max(initial=0.0))[1]))
