"""Games in which hidden cards or dice are dealt first and everything after that is seen by both players.

Such a game is a small public tree times a list of deals. Expanding the product one level at a time with array
operations builds 295,000 nodes of liar's dice in a fraction of the time that walking states would take.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.game import CHANCE, TERMINAL, Floats, Game, Ints, number_by_appearance


@dataclass
class PublicTree:
    """What both players see: who moves where, and what that leads to. Node 0 is the first move after the deal."""

    player: list[int] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    actions: list[tuple[str, ...]] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)

    def add(self, player: int, label: str, actions: Sequence[str] = ()) -> int:
        """Append a node; its children are appended to `children[node]` in the order of the actions."""
        self.player.append(player)
        self.label.append(label)
        self.actions.append(tuple(actions))
        self.children.append([])
        return len(self.player) - 1


@dataclass(frozen=True)
class Deals:
    """All ways to deal. outcomes: (D, k) chance outcomes in order, rows sorted and distinct; weight: (D,)
    proportional to the probability; private: (2, D) what each player then holds, as an index into `private_label`."""

    outcomes: Ints
    weight: Floats
    private: Ints
    private_label: Sequence[str]


@dataclass(frozen=True)
class Rules:
    """What depends on the deal. payoff: (terminals (n,), deals (n,)) -> payoff of player 0 (n,). possible: (chance
    children (n,), deals (n,)) -> whether that outcome can come (n,); those that can are equally likely."""

    payoff: Callable[[Ints, Ints], Floats]
    possible: Callable[[Ints, Ints], NDArray[np.bool_]] | None = None
    big_blind: float | None = None


@dataclass
class _Levels:
    """Node arrays, collected level by level."""

    player: list[Ints] = field(default_factory=list)
    n_children: list[Ints] = field(default_factory=list)
    chance: list[Floats] = field(default_factory=list)
    public: list[Ints] = field(default_factory=list)
    deal: list[Ints] = field(default_factory=list)


def expand(name: str, players: tuple[str, str], tree: PublicTree, deals: Deals, rules: Rules) -> Game:
    """The game tree of a public tree and its deals."""
    levels = _Levels()
    edge = _deal(deals, levels)
    player = np.array(tree.player, dtype=np.int8)
    counts = np.array([len(children) for children in tree.children])
    first = np.cumsum(counts) - counts
    child = np.array([node for children in tree.children for node in children], dtype=np.int64)
    public = np.zeros(len(deals.weight), dtype=np.int64)
    deal = np.arange(len(deals.weight))
    while len(public):
        n = counts[public]
        above = np.repeat(np.arange(len(public)), n)
        below = child[np.repeat(first[public] - (np.cumsum(n) - n), n) + np.arange(n.sum())]
        by_chance = player[public] == CHANCE
        if rules.possible is not None and by_chance.any():
            keep = ~by_chance[above] | rules.possible(below, deal[above])
            above, below = above[keep], below[keep]
            n = np.bincount(above, minlength=len(public))
        levels.player.append(player[public])
        levels.n_children.append(n)
        levels.chance.append(edge)
        levels.public.append(public)
        levels.deal.append(deal)
        edge = np.where(by_chance[above], 1.0 / n[above], 1.0)
        public, deal = below, deal[above]
    return _assemble(name, players, tree, deals, rules, levels)


def _deal(deals: Deals, levels: _Levels) -> Floats:
    """The chance nodes before the first move: one level for each card or die. Returns the chances of the edges into
    the first moves."""
    outcomes = deals.outcomes
    many = len(outcomes)
    starts = np.array([0])
    edge = np.ones(1)
    for step in range(outcomes.shape[1]):
        changed = (outcomes[1:, : step + 1] != outcomes[:-1, : step + 1]).any(axis=1)
        below = np.concatenate([[0], np.flatnonzero(changed) + 1])
        above = np.searchsorted(starts, below, side="right") - 1
        levels.player.append(np.full(len(starts), CHANCE, dtype=np.int8))
        levels.n_children.append(np.bincount(above, minlength=len(starts)))
        levels.chance.append(edge)
        levels.public.append(np.full(len(starts), -1))
        levels.deal.append(np.full(len(starts), -1))
        edge = np.add.reduceat(deals.weight, below) / np.add.reduceat(deals.weight, starts)[above]
        starts = below
    if len(starts) != many:
        raise ValueError("deals must be distinct")
    return edge


def _assemble(
    name: str, players: tuple[str, str], tree: PublicTree, deals: Deals, rules: Rules, levels: _Levels
) -> Game:
    player = np.concatenate(levels.player).astype(np.int8)
    public = np.concatenate(levels.public)
    deal = np.concatenate(levels.deal)
    decision = player >= 0
    held = np.where(decision, deals.private[np.maximum(player, 0), deal], 0)
    key = np.where(decision, public * len(deals.private_label) + held, -1)
    infoset, first = number_by_appearance(key)
    ends = player == TERMINAL
    won = rules.payoff(public[ends], deal[ends])
    return Game(
        name=name,
        players=players,
        player=player,
        n_children=np.concatenate(levels.n_children).astype(np.int32),
        infoset=infoset,
        chance=np.concatenate(levels.chance),
        payoff=np.stack([won, -won], axis=1),
        infoset_player=player[first],
        infoset_label=[
            f"{deals.private_label[h]}:{tree.label[p]}" for h, p in zip(held[first], public[first], strict=True)
        ],
        infoset_actions=[tree.actions[p] for p in public[first]],
        big_blind=rules.big_blind,
    )
