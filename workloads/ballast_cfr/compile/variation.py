"""Other payoffs and other ranges over one game tree, without compiling it again.

What is compiled (who knows what, which sequences meet at which terminals) does not depend on numbers. So only the
numbers are made anew, by the same sums in the same order: the result equals, bit for bit, what compiling the changed
game would give.

Ranges: before the first move, chance deals each player something to know. Deals that a player cannot tell apart are
one of its types, such as a hand; a range gives each type a factor. Together with the other player's it scales the
probability of every deal.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.compile.validate import LARGEST
from ballast_cfr.errors import BadInputError
from ballast_cfr.game import CHANCE, Floats

if TYPE_CHECKING:
    from ballast_cfr.solve.revalue import Drawn, Paid, Revaluation

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

    @cached_property
    def paid(self) -> "Paid":
        """The payoffs as compiled."""
        return self._numbers.as_compiled()

    @cached_property
    def drawn(self) -> "Drawn":
        """The chances as compiled."""
        return self._numbers.drawn(self.game.chance)

    def make(self, base: Program, paid: "Paid", drawn: "Drawn") -> Program:
        """The program with these numbers. base: one of this tree, whose matrices keep their shape if they can."""
        return self._numbers.make(base, paid, drawn)

    def payoffs(self, payoff: Floats) -> "Paid":
        """Other payoffs of player 0, (T,) in the order of `game.terminals`; the sum of both players' stays."""
        given = np.ascontiguousarray(payoff, dtype=np.float64)
        self.demand_payoffs(given)
        return self._numbers.paid(given)

    def demand_payoffs(self, given: Floats) -> None:
        """Raise BadInputError if these cannot be player 0's payoffs."""
        terminals = len(self.game.terminals)
        if given.shape != (terminals,) or not (np.abs(given) <= LARGEST).all():
            raise BadInputError(
                f"game {self.game.name}: payoffs have shape {given.shape}, but must be {terminals} finite numbers, "
                f"one for each terminal, from {-LARGEST:g} to {LARGEST:g}"
            )

    def ranges(self, first: Floats, second: Floats) -> "Drawn":
        """The deals' probabilities scaled by a factor for each type of player 0 and of player 1."""
        return self._numbers.dealt(self.deals.node, self._draws, self.demand_ranges(first, second))

    def demand_ranges(self, first: Floats, second: Floats) -> Floats:
        """(D,) the proportions in which the deals come with these factors. Raises BadInputError if they cannot be
        ranges."""
        factors = []
        for player, given in enumerate((first, second)):
            many = len(self.deals.names[player])
            factor = np.asarray(given, dtype=np.float64)
            if factor.shape != (many,) or not 0 <= factor.min(initial=0.0) <= factor.max(initial=0.0) < np.inf:
                raise BadInputError(
                    f"game {self.game.name}: the range of player {player} must be {many} numbers, none negative, one "
                    f"for each of its types; its shape is {factor.shape}"
                )
            factors.append(_moderate(factor))
        types = self.deals.types
        mass = self._dealt_reach * factors[0][types[0]] * factors[1][types[1]]
        if not mass.any():
            raise BadInputError(f"game {self.game.name}: these ranges leave no deal that can come")
        return np.asarray(mass)

    @cached_property
    def _dealt_reach(self) -> Floats:
        """(D,) how probable each deal is, as compiled."""
        return self.game.chance_reach[self.deals.node]

    @cached_property
    def _draws(self) -> Longs:
        """The edges of the deals, level by level, from the last."""
        levels = [level for level in self.game.levels() if level.start and self._dealt[level].any()]
        draws = [np.flatnonzero(self._dealt[level]) + level.start for level in reversed(levels)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *draws])

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

    @cached_property
    def _numbers(self) -> "Revaluation":
        from ballast_cfr.solve.revalue import Revaluation  # imports numba, which nothing else here needs to wait for

        return Revaluation(self.program)


def _moderate(factor: Floats) -> Floats:
    """The same proportions, to the bit, with the largest between 1/2 and 1, so that products of them overflow
    nowhere."""
    return np.asarray(np.ldexp(factor, -np.frexp(factor.max(initial=0.0))[1]))
