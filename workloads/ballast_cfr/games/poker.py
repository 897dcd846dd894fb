"""The end of a hand of no-limit Texas hold'em: the river, or the turn and the river, with ranges of hands.

Each player holds one of K hands, drawn with seeded weights from those that the board allows; hands that share a card
do not meet (card removal). The pot is 100 chips, half from each player. A bet or raise is a percentage of the pot
(after calling), cut to what is behind. Payoffs are chips won, half the pot included. The river card of the turn game
is any card that nobody holds. The strength of each hand on each board is one vector of ranks; a showdown compares two
of its entries.
"""

from dataclasses import dataclass, field
from functools import cached_property
from random import Random

import numpy as np

from ballast_cfr.game import CHANCE, TERMINAL, Floats, Game, Ints
from ballast_cfr.games.hand_rank import name, strength
from ballast_cfr.games.public_tree import Deals, PublicTree, Rules, expand

_HALF_POT = 50.0


@dataclass(frozen=True)
class _Bets:
    """What may be bet. sizes: percent of the pot; raises: bets and raises in one round; stack: chips behind at the
    start."""

    sizes: tuple[int, ...]
    raises: int
    stack: float

    def next(self, puts: tuple[float, float]) -> list[float]:
        """What a bet or raise can bring a player's chips in the pot to."""
        most, level = _HALF_POT + self.stack, max(puts)
        return sorted({min(most, level + 2 * level * size / 100) for size in self.sizes}) if level < most else []


@dataclass
class _Street:
    """The public tree, with what each of its ends needs for a payoff. river: which river card, -1 for none."""

    bets: _Bets
    rivers: list[str]
    tree: PublicTree = field(default_factory=PublicTree)
    river: list[int] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    folded: list[int] = field(default_factory=list)

    def add(self, player: int, label: str, actions: list[str], river: int, lost: float = 0.0, folded: int = -1) -> int:
        self.river.append(river)
        self.lost.append(lost)
        self.folded.append(folded)
        return self.tree.add(player, label, actions)

    def act(self, label: str, player: int, puts: tuple[float, float], raised: int, opened: bool, river: int) -> int:
        """A player's move. opened: the other has moved in this round."""
        behind = puts[player] < puts[1 - player]
        levels = self.bets.next(puts) if raised < self.bets.raises else []
        names = (["fold"] if behind else []) + ["call" if behind else "check"]
        node = self.add(player, label, names + [f"{'raise' if behind else 'bet'} {to:g}" for to in levels], river)
        children = self.tree.children[node]
        if behind:
            children.append(self.add(TERMINAL, f"{label}f", [], river, puts[player], player))
        level = max(puts)
        even, seen = (level, level), label + ("c" if behind else "k")
        children.append(
            self.close(seen, level, river) if opened else self.act(seen, 1 - player, even, raised, True, river)
        )
        for to in levels:
            above = (to, puts[1]) if player == 0 else (puts[0], to)
            seen = f"{label}{'r' if behind else 'b'}{to:g}."
            children.append(self.act(seen, 1 - player, above, raised + 1, True, river))
        return node

    def close(self, label: str, level: float, river: int) -> int:
        """The end of a round: a showdown on the river, the river card on the turn."""
        if river >= 0 or not self.rivers:
            return self.add(TERMINAL, label, [], river, level)
        node = self.add(CHANCE, label, self.rivers, river)
        all_in = not self.bets.next((level, level))
        for at, card in enumerate(self.rivers):
            seen = f"{label}/{card}:"
            below = (
                self.add(TERMINAL, seen, [], at, level) if all_in else self.act(seen, 0, (level, level), 0, False, at)
            )
            self.tree.children[node].append(below)
        return node


class _Poker:
    """A board, the hands of both players, and the betting."""

    def __init__(self, board: int, hands: int, seed: int, bets: str, raises: int, stack: int) -> None:
        random = Random(seed)
        deck = list(range(52))
        random.shuffle(deck)
        self.board, left = sorted(deck[:board]), sorted(deck[board:])
        pairs = [(high, low) for high in left for low in left if high > low]
        self.hands = [sorted(random.sample(pairs, min(hands, len(pairs)))) for _ in (0, 1)]
        weights = [[random.randint(1, 100) for _ in held] for held in self.hands]
        self.rivers = left if board == 4 else []
        meet = [
            (i, j)
            for i, mine in enumerate(self.hands[0])
            for j, theirs in enumerate(self.hands[1])
            if not set(mine) & set(theirs)
        ]
        self.meet = np.array(meet, dtype=np.int64).reshape(-1, 2)
        self.weight = np.array([weights[0][i] * weights[1][j] for i, j in meet], dtype=np.float64)
        self.bets = _Bets(tuple(int(size) for size in bets.split("-")), raises, float(stack))

    @cached_property
    def street(self) -> _Street:
        street = _Street(self.bets, [name(card) for card in self.rivers])
        street.act("", 0, (_HALF_POT, _HALF_POT), 0, False, -1)
        return street

    def strengths(self, player: int) -> Ints:
        """(river cards, hands) strength of each hand on each board; nothing sensible where they share a card."""
        hands = np.array(self.hands[player])
        rivers = np.array([[card] for card in self.rivers]) if self.rivers else np.zeros((1, 0), dtype=np.int64)
        boards = np.concatenate([np.tile(self.board, (len(rivers), 1)), rivers], axis=1)
        both = np.concatenate([np.repeat(boards, len(hands), axis=0), np.tile(hands, (len(boards), 1))], axis=1)
        return strength(both).reshape(len(boards), len(hands))

    def nodes(self) -> int:
        """Nodes of the tree; each river card meets all deals but those that hold it."""
        tree = self.street.tree
        river, public = np.array(self.street.river), len(tree.player)
        firsts = len(set(self.meet[:, 0].tolist()))
        total = 1 + firsts + len(self.meet) * int((river < 0).sum() if self.rivers else public)
        for at, card in enumerate(self.rivers):
            free = [card not in self.hands[0][i] and card not in self.hands[1][j] for i, j in self.meet.tolist()]
            total += sum(free) * int((river == at).sum())
        return total

    def game(self, title: str) -> Game:
        """The game tree."""
        street, meet = self.street, self.meet
        labels = ["".join(map(name, hand)) for held in self.hands for hand in held]
        private = np.stack([meet[:, 0], len(self.hands[0]) + meet[:, 1]])
        deals = Deals(meet, self.weight, private, labels)
        river, lost, folded = np.array(street.river), np.array(street.lost), np.array(street.folded)
        rank = self.strengths(0), self.strengths(1)
        cards = np.array(self.rivers, dtype=np.int64)
        held = np.array(self.hands[0])[meet[:, 0]], np.array(self.hands[1])[meet[:, 1]]

        def payoff(ends: Ints, deal: Ints) -> Floats:
            shown = np.maximum(river[ends], 0)
            better = np.sign(rank[0][shown, meet[deal, 0]] - rank[1][shown, meet[deal, 1]])
            won = np.where(folded[ends] < 0, better, 2 * folded[ends] - 1)
            return np.asarray(lost[ends] * won, dtype=np.float64)

        def possible(below: Ints, deal: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
            card = cards[river[below], None]
            return np.asarray(((held[0][deal] != card) & (held[1][deal] != card)).all(axis=1))

        return expand(title, ("0", "1"), street.tree, deals, Rules(payoff, possible if self.rivers else None))


def river_nodes(hands: int, seed: int, bets: str, raises: int, stack: int) -> int:
    """Nodes of the tree, before it is built."""
    return _Poker(5, hands, seed, bets, raises, stack).nodes()


def poker_river(hands: int = 20, seed: int = 0, bets: str = "50-100", raises: int = 2, stack: int = 400) -> Game:
    """The river with `hands` hands for each player."""
    return _Poker(5, hands, seed, bets, raises, stack).game("poker-river")


def turn_nodes(hands: int, seed: int, bets: str, raises: int, stack: int) -> int:
    """Nodes of the tree, before it is built."""
    return _Poker(4, hands, seed, bets, raises, stack).nodes()


def poker_turn(hands: int = 6, seed: int = 0, bets: str = "100", raises: int = 1, stack: int = 400) -> Game:
    """The turn and the river with `hands` hands for each player."""
    return _Poker(4, hands, seed, bets, raises, stack).game("poker-turn")
