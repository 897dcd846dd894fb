"""Reading Gambit's extensive form files (.efg, version 2), exactly and without recursion.

    EFG 2 R "title" { "player" ... } "comment"
    c "node" infoset "label" { "action" probability ... } outcome "label" { payoffs }
    p "node" player infoset "label" { "action" ... } outcome "label" { payoffs }
    t "node" outcome "label" { payoffs }

Nodes come in prefix order. What was said of an information set or an outcome need not be said again; if it is, it
must agree. Outcome 0 is none; an outcome at an inner node pays whoever passes through it, and is summed along the
path. Numbers are exact rationals until the end. Source of the format: Gambit's documentation, "The extensive game
(.efg) file format".
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ballast_cfr.formats import number
from ballast_cfr.formats.efg_described import Described, Payoffs
from ballast_cfr.formats.tokens import BRACE, END, STRING, WORD, Tokens
from ballast_cfr.game import CHANCE, TERMINAL, Game, number_by_appearance


@dataclass
class _Nodes:
    """Nodes in the file's order."""

    player: list[int] = field(default_factory=list)
    infoset: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    chance: list[float] = field(default_factory=list)
    payoff: list[Payoffs] = field(default_factory=list)  # of the terminals
    at: list[int] = field(default_factory=list)


def parse(name: str, content: bytes) -> Game:
    """Read the content of an .efg file; `name` is what errors call it.

    Raises BadInputError with file, line and column for anything that is not one whole, consistent game.
    """
    return _Reader(Tokens(name, content)).game()


class _Reader:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.nodes = _Nodes()
        self.players = self.header()
        self.described = Described(tokens, len(self.players))

    def game(self) -> Game:
        """The whole file."""
        # For each open node, from the root to here: the chances of its children still to come, the payoffs up to it.
        path: list[tuple[Iterator[float], Payoffs | None]] = [(iter([1.0]), None)]
        while path:
            chance = next(path[-1][0], None)
            if chance is None:
                path.pop()
                continue
            self.nodes.depth.append(len(path) - 1)
            self.nodes.chance.append(chance)
            below = self.node(path[-1][1])
            if below is not None:
                path.append(below)
        if self.tokens.next.kind != END:
            raise self.tokens.error(self.tokens.next.at, f"the game is complete here, but {self.tokens.next} follows")
        return self.assemble()

    def header(self) -> tuple[str, ...]:
        """First line: version, precision, title, players, comment; the players."""
        tokens = self.tokens
        what = 'the header "EFG 2 R"'
        tokens.take(WORD, what, "EFG")
        tokens.take(WORD, f"version 2 in {what}", "2")
        if not tokens.skip(WORD, "D"):
            tokens.take(WORD, f"R in {what}", "R")
        tokens.take(STRING, "the title in quotation marks")
        at = tokens.take(BRACE, "{ and the players' names", "{").at
        players = []
        while not tokens.skip(BRACE, "}"):
            players.append(tokens.take(STRING, "a player's name in quotation marks, or }").text)
        if not players:
            raise tokens.error(at, "the game has no players")
        tokens.skip(STRING)
        return tuple(players)

    def node(self, so_far: Payoffs | None) -> tuple[Iterator[float], Payoffs | None] | None:
        """One node; for an inner one, the chances of its children and the payoffs up to it."""
        token = self.tokens.next
        if token.kind == END:
            raise self.tokens.error(
                token.at, "the file ends here, but the tree is not complete; a node (c, p or t) should follow"
            )
        if token.kind != WORD or token.text not in ("c", "p", "t"):
            raise self.tokens.error(token.at, f"expected a node (c, p or t), found {token}")
        self.tokens.take(WORD, "a node")
        self.tokens.skip(STRING)
        player, infoset = TERMINAL, -1
        chances: tuple[float, ...] = ()
        if token.text == "c":
            player, chances = CHANCE, self.described.chance_move()
        elif token.text == "p":
            infoset = self.described.player_move()
            player, chances = self.described.owner[infoset], (1.0,) * len(self.described.infosets[infoset].actions)
        paid = self.described.outcome()
        total = tuple(a + b for a, b in zip(so_far, paid, strict=True)) if so_far and paid else so_far or paid
        nodes = self.nodes
        nodes.at.append(token.at)
        nodes.player.append(player)
        nodes.infoset.append(infoset)
        nodes.children.append(len(chances))
        if player != TERMINAL:
            return iter(chances), total
        total = total or (Fraction(0),) * len(self.players)
        if so_far and not all(map(number.fits, total)):
            raise self.tokens.error(
                token.at, "payoffs on the way to this node add up to more than a 64-bit float holds"
            )
        nodes.payoff.append(total)
        return None

    def assemble(self) -> Game:
        """Nodes from the file's order into level order: a stable sort by depth keeps siblings together."""
        nodes = self.nodes
        order = np.argsort(np.array(nodes.depth), kind="stable")
        player = np.array(nodes.player, dtype=np.int8)
        infoset, first = number_by_appearance(np.array(nodes.infoset)[order])
        known = np.array(nodes.infoset)[order][first]
        terminal = np.cumsum(player == TERMINAL) - 1
        paid = {id(row): tuple(map(float, row)) for row in nodes.payoff}
        payoff = np.array([paid[id(row)] for row in nodes.payoff], dtype=np.float64)
        return Game(
            name=self.tokens.name,
            players=self.players,
            player=player[order],
            n_children=np.array(nodes.children, dtype=np.int32)[order],
            infoset=infoset,
            chance=np.array(nodes.chance)[order],
            payoff=payoff[terminal[order][player[order] == TERMINAL]],
            infoset_player=np.array(self.described.owner, dtype=np.int8)[known],
            infoset_label=self.described.labels(known),
            infoset_actions=[self.described.infosets[i].actions for i in known],
            position=self.tokens.positions(np.array(nodes.at)[order]),
            warnings=tuple(self.described.warnings),
        )
