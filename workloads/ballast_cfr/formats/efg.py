"""Reading Gambit's extensive form files (.efg, version 2), exactly and without recursion.

    EFG 2 R "title" { "player" ... } "comment"
    c "node" infoset "label" { "action" probability ... } outcome "label" { payoffs }
    p "node" player infoset "label" { "action" ... } outcome "label" { payoffs }
    t "node" outcome "label" { payoffs }

Nodes come in prefix order. What was said of an information set or an outcome need not be said again; if it is, it must agree. Outcome 0
is none; an outcome at an inner node pays whoever passes through it, and is summed along the path. Numbers are exact rationals until
the end. Source of the format: Gambit's documentation, "The extensive game (.efg) file format".
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.formats import number
from ballast_cfr.formats.tokens import BRACE, END, STRING, WORD, Token, Tokens
from ballast_cfr.game import CHANCE, TERMINAL, Game, number_by_appearance

Payoffs = tuple[Fraction, ...]
_TOLERANCE = Fraction(1, 10**9)


@dataclass
class _Infoset:
    """What is known of an information set, of a player or of chance."""

    number: int
    label: str
    actions: tuple[str, ...]
    chances: tuple[Fraction, ...] = ()


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

    Raises BadInput with file, line and column for anything that is not one whole, consistent game.
    """
    return _Reader(Tokens(name, content)).game()


class _Reader:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.nodes = _Nodes()
        self.infosets: list[_Infoset] = []
        self.owner: list[int] = []
        self.by_number: dict[tuple[int, int], int] = {}
        self.chances: dict[int, _Infoset] = {}
        self.outcomes: dict[int, Payoffs] = {}
        self.numbers: dict[str, Fraction] = {}
        self.warnings: list[str] = []

    def game(self) -> Game:
        """The whole file."""
        self.header()
        # For each open node, from the root to here: the chances of its children still to come, its depth, the payoffs on the path.
        path: list[tuple[Iterator[float], Payoffs]] = [(iter([1.0]), (Fraction(0),) * len(self.players))]
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
            self.tokens.fail(self.tokens.next.at, f"the game is complete here, but {self.tokens.next} follows")
        return self.assemble()

    def header(self) -> None:
        """First line: version, precision, title, players, comment."""
        tokens = self.tokens
        what = 'the header "EFG 2 R"'
        tokens.take(WORD, what, "EFG")
        tokens.take(WORD, f"version 2 in {what}", "2")
        if not tokens.skip(WORD, "D"):
            tokens.take(WORD, f"R in {what}", "R")
        tokens.take(STRING, "the title in quotation marks")
        self.players_at = tokens.take(BRACE, "{ and the players' names", "{").at
        players = []
        while not tokens.skip(BRACE, "}"):
            players.append(tokens.take(STRING, "a player's name in quotation marks, or }").text)
        if not players:
            tokens.fail(self.players_at, "the game has no players")
        self.players = tuple(players)
        tokens.skip(STRING)

    def node(self, so_far: Payoffs) -> tuple[Iterator[float], Payoffs] | None:
        """One node; for an inner one, the chances of its children and the payoffs up to it."""
        token = self.tokens.next
        if token.kind == END:
            self.tokens.fail(
                token.at, "the file ends here, but the tree is not complete; a node (c, p or t) should follow"
            )
        if token.kind != WORD or token.text not in ("c", "p", "t"):
            self.tokens.fail(token.at, f"expected a node (c, p or t), found {token}")
        self.tokens.take(WORD, "a node")
        self.tokens.skip(STRING)
        player, infoset, chances = TERMINAL, -1, ()
        if token.text == "c":
            player, chances = CHANCE, self.chance_move()
        elif token.text == "p":
            infoset = self.player_move()
            player, chances = self.owner[infoset], (1.0,) * len(self.infosets[infoset].actions)
        paid = self.outcome()
        total = tuple(a + b for a, b in zip(so_far, paid, strict=True)) if paid else so_far
        nodes = self.nodes
        nodes.at.append(token.at)
        nodes.player.append(player)
        nodes.infoset.append(infoset)
        nodes.children.append(len(chances))
        if player != TERMINAL:
            return iter(chances), total
        if not all(map(number.fits, total)):
            self.tokens.fail(token.at, "the payoffs on the way to this node add up to more than a 64-bit float holds")
        nodes.payoff.append(total)
        return None

    def chance_move(self) -> tuple[float, ...]:
        """Infoset, label and outcomes of a chance node; the probabilities."""
        key = self.integer("the number of this chance node's information set")
        label = self.tokens.skip(STRING)
        at = self.tokens.next.at
        listed = self.actions(with_chances=True)
        known = self.chances.get(key)
        if known is None:
            if listed is None:
                self.tokens.fail(
                    at, f"chance node {key} is not described here, nor was it before; its outcomes should follow"
                )
            chances = self.normalised(key, at, *listed)
            known = self.chances[key] = _Infoset(key, label.text if label else "", listed[0], chances)
        elif listed is not None and (listed[0] != known.actions or self.normalised(key, at, *listed) != known.chances):
            self.tokens.fail(
                at, f"chance node {key} has other outcomes or probabilities here than where it was first described"
            )
        return tuple(map(float, known.chances))

    def normalised(
        self, key: int, at: int, names: tuple[str, ...], chances: tuple[Fraction, ...], decimal: bool
    ) -> tuple[Fraction, ...]:
        """Probabilities that add up to one; decimals may miss it by rounding."""
        total = sum(chances, Fraction(0))
        if total == 1:
            return chances
        if decimal and abs(total - 1) <= _TOLERANCE:
            line, _ = self.tokens.position(at)
            self.warnings.append(
                f"game {self.tokens.name}, line {line}: probabilities of chance node {key} add up to {float(total):.12g}; scaled to 1"
            )
            return tuple(chance / total for chance in chances)
        hint = "; the last outcome is probably missing" if total < 1 else ""
        self.tokens.fail(at, f"chance node {key} has probabilities summing to {_show(total)}, not 1{hint}")

    def player_move(self) -> int:
        """Player, infoset, label and actions of a decision; the number of the information set among all."""
        at = self.tokens.next.at
        player = self.integer("the number of the player who moves")
        if not 1 <= player <= len(self.players):
            self.tokens.fail(at, f"player {player} moves here, but the game has players 1 to {len(self.players)}")
        key = self.integer("the number of the information set")
        label = self.tokens.skip(STRING)
        at = self.tokens.next.at
        listed = self.actions(with_chances=False)
        found = self.by_number.get((player, key))
        if found is None:
            if listed is None:
                self.tokens.fail(
                    at,
                    f"information set {key} of player {player} is not described here, nor was it before; its actions should follow",
                )
            found = self.by_number[player, key] = len(self.infosets)
            self.infosets.append(_Infoset(key, label.text if label else "", listed[0]))
            self.owner.append(player - 1)
        known = self.infosets[found]
        if listed is not None and listed[0] != known.actions:
            here, before = _names(listed[0]), _names(known.actions)
            self.tokens.fail(
                at, f"information set {key} of player {player} has actions {here} here, but {before} before"
            )
        if label and label.text and known.label and label.text != known.label:
            self.tokens.fail(
                label.at,
                f'information set {key} of player {player} is called "{label.text}" here, but "{known.label}" before',
            )
        return found

    def actions(self, with_chances: bool) -> tuple[tuple[str, ...], tuple[Fraction, ...], bool] | None:
        """A list in braces of action names, each followed by a probability at chance nodes; None if there is no list. Also tells
        whether any probability was a decimal."""
        start = self.tokens.skip(BRACE, "{")
        if start is None:
            return None
        names: list[str] = []
        chances: list[Fraction] = []
        decimal = False
        while not self.tokens.skip(BRACE, "}"):
            names.append(self.tokens.take(STRING, "an action in quotation marks, or }").text)
            if with_chances:
                token = self.tokens.take(WORD, f'the probability of "{names[-1]}"')
                chances.append(self.value(token, "probability"))
                decimal |= number.is_decimal(token.text)
                if chances[-1] < 0:
                    self.tokens.fail(token.at, f'probability {token.text} of "{names[-1]}" is negative')
        if not names:
            self.tokens.fail(start.at, "this node has no actions; at least one is needed")
        return tuple(names), tuple(chances), decimal

    def outcome(self) -> Payoffs | None:
        """An outcome by number, label and payoffs; what it pays, None for outcome 0."""
        at = self.tokens.next.at
        key = self.integer("the number of the outcome (0 for none)")
        self.tokens.skip(STRING)
        start = self.tokens.skip(BRACE, "{")
        if start is None:
            if key and key not in self.outcomes:
                self.tokens.fail(
                    at, f"outcome {key} has no payoffs here, nor had it before; they should follow in braces"
                )
            return self.outcomes[key] if key else None
        payoffs = []
        while not self.tokens.skip(BRACE, "}"):
            payoffs.append(self.value(self.tokens.take(WORD, f"a payoff of outcome {key}, or }}"), "payoff"))
        if len(payoffs) != len(self.players):
            self.tokens.fail(start.at, f"outcome {key} has {len(payoffs)} payoffs for {len(self.players)} players")
        if key == 0:
            self.tokens.fail(at, "outcome 0 means none, so it cannot have payoffs; give it another number")
        if self.outcomes.setdefault(key, tuple(payoffs)) != tuple(payoffs):
            self.tokens.fail(start.at, f"outcome {key} has other payoffs here than where it was first described")
        return self.outcomes[key]

    def integer(self, what: str) -> int:
        token = self.tokens.take(WORD, what)
        if not re.fullmatch(r"-?[0-9]{1,9}", token.text):
            self.tokens.fail(token.at, f"expected {what}, found {token}")
        return int(token.text)

    def value(self, token: Token, what: str) -> Fraction:
        if token.text not in self.numbers:
            try:
                self.numbers[token.text] = number.parse(token.text)
            except ValueError as error:
                self.tokens.fail(token.at, f"{what} {error}")
        return self.numbers[token.text]

    def assemble(self) -> Game:
        """Nodes from the file's order into level order: a stable sort by depth keeps siblings together."""
        nodes = self.nodes
        order = np.argsort(np.array(nodes.depth), kind="stable")
        player = np.array(nodes.player, dtype=np.int8)
        infoset, first = number_by_appearance(np.array(nodes.infoset)[order])
        known = np.array(nodes.infoset)[order][first]
        terminal = np.cumsum(player == TERMINAL) - 1
        payoff = np.array([[float(value) for value in row] for row in nodes.payoff], dtype=np.float64)
        return Game(
            name=self.tokens.name,
            players=self.players,
            player=player[order],
            n_children=np.array(nodes.children, dtype=np.int32)[order],
            infoset=infoset,
            chance=np.array(nodes.chance)[order],
            payoff=payoff[terminal[order][player[order] == TERMINAL]],
            infoset_player=np.array(self.owner, dtype=np.int8)[known],
            infoset_label=self.labels(known),
            infoset_actions=[self.infosets[i].actions for i in known],
            position=self.tokens.positions(np.array(nodes.at)[order]),
            warnings=tuple(self.warnings),
        )

    def labels(self, known: NDArray[np.int64]) -> list[str]:
        """A name for each information set that no other of its player has: the label if it is that, else with its number."""
        used = Counter((self.owner[i], self.infosets[i].label) for i in known)

        def name(i: int) -> str:
            infoset = self.infosets[i]
            alone = infoset.label and used[self.owner[i], infoset.label] == 1
            return infoset.label if alone else f"{infoset.label}#{infoset.number}"

        return [name(i) for i in known]


def _show(value: Fraction) -> str:
    text = f"{float(value):.10g}"
    return text if Fraction(text) == value or value.denominator > 10**6 else f"{value} ({text})"


def _names(actions: tuple[str, ...]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in actions) + "}"
