"""What an .efg file says once and may refer to later: information sets, chance nodes and outcomes.

Each may be described in full again; then it must agree with what was said first.
"""

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.formats import number
from ballast_cfr.formats.tokens import BRACE, STRING, WORD, Token, Tokens, clip

Payoffs = tuple[Fraction, ...]
_TOLERANCE = Fraction(1, 10**9)
_SHOWN_ACTIONS = 10


@dataclass
class Infoset:
    """What is known of an information set, of a player or of chance."""

    number: int
    label: str
    actions: tuple[str, ...]
    chances: tuple[Fraction, ...] = ()


class Described:
    """Everything described so far. infosets, owner: the players', in order of appearance; owner counts from 0."""

    def __init__(self, tokens: Tokens, players: int) -> None:
        self.tokens = tokens
        self.players = players
        self.infosets: list[Infoset] = []
        self.owner: list[int] = []
        self.warnings: list[str] = []
        self.by_number: dict[tuple[int, int], int] = {}
        self.chances: dict[int, Infoset] = {}
        self.outcomes: dict[int, Payoffs] = {}
        self.numbers: dict[str, Fraction] = {}

    def chance_move(self) -> tuple[float, ...]:
        """Infoset, label and outcomes of a chance node; the probabilities."""
        key = self.integer("the number of this chance node's information set")
        label = self.tokens.skip(STRING)
        at = self.tokens.next.at
        listed = self.actions(with_chances=True)
        known = self.chances.get(key)
        if known is None:
            if listed is None:
                raise self.tokens.error(
                    at, f"chance node {key} is not described here, nor was it before; its outcomes should follow"
                )
            chances = self.normalised(key, at, *listed[1:])
            known = self.chances[key] = Infoset(key, label.text if label else "", listed[0], chances)
        elif listed is not None and (
            listed[0] != known.actions or self.normalised(key, at, *listed[1:]) != known.chances
        ):
            raise self.tokens.error(
                at, f"chance node {key} has other outcomes or probabilities here than where it was first described"
            )
        return tuple(map(float, known.chances))

    def normalised(self, key: int, at: int, chances: tuple[Fraction, ...], decimal: bool) -> tuple[Fraction, ...]:
        """Probabilities that add up to one; decimals may miss it by rounding."""
        total = sum(chances, Fraction(0))
        if total == 1:
            return chances
        if decimal and abs(total - 1) <= _TOLERANCE:
            place = f"game {self.tokens.name}, line {self.tokens.position(at)[0]}"
            self.warnings.append(
                f"{place}: probabilities of chance node {key} add up to {float(total):.12g}; scaled to 1"
            )
            return tuple(chance / total for chance in chances)
        hint = "; the last outcome is probably missing" if total < 1 else ""
        raise self.tokens.error(at, f"chance node {key} has probabilities summing to {_show(total)}, not 1{hint}")

    def player_move(self) -> int:
        """Player, infoset, label and actions of a decision; the number of the information set among all."""
        at = self.tokens.next.at
        player = self.integer("the number of the player who moves")
        if not 1 <= player <= self.players:
            raise self.tokens.error(at, f"player {player} moves here, but the game has players 1 to {self.players}")
        key = self.integer("the number of the information set")
        label = self.tokens.skip(STRING)
        at = self.tokens.next.at
        listed = self.actions(with_chances=False)
        found = self.by_number.get((player, key))
        if found is None:
            if listed is None:
                name = f"information set {key} of player {player}"
                raise self.tokens.error(
                    at, f"{name} is not described here, nor was it before; its actions should follow"
                )
            found = self.by_number[player, key] = len(self.infosets)
            self.infosets.append(Infoset(key, label.text if label else "", listed[0]))
            self.owner.append(player - 1)
        known = self.infosets[found]
        if listed is not None and listed[0] != known.actions:
            here, before = _names(listed[0]), _names(known.actions)
            raise self.tokens.error(
                at, f"information set {key} of player {player} has actions {here} here, but {before} before"
            )
        if label and label.text and known.label and label.text != known.label:
            raise self.tokens.error(
                label.at,
                f'information set {key} of player {player} is called {label} here, but "{clip(known.label)}" before',
            )
        return found

    def actions(self, with_chances: bool) -> tuple[tuple[str, ...], tuple[Fraction, ...], bool] | None:
        """A list in braces of action names, each followed by a probability at chance nodes; None if there is no list.
        Also tells whether any probability was a decimal."""
        start = self.tokens.skip(BRACE, "{")
        if start is None:
            return None
        names: list[str] = []
        chances: list[Fraction] = []
        decimal = False
        while not self.tokens.skip(BRACE, "}"):
            names.append(self.tokens.take(STRING, "an action in quotation marks, or }").text)
            if with_chances:
                token = self.tokens.take(WORD, f'the probability of "{clip(names[-1])}"')
                chances.append(self.value(token, "probability"))
                decimal |= number.is_decimal(token.text)
                if chances[-1] < 0:
                    raise self.tokens.error(token.at, f'probability {token} of "{clip(names[-1])}" is negative')
        if not names:
            raise self.tokens.error(start.at, "this node has no actions; at least one is needed")
        return tuple(names), tuple(chances), decimal

    def outcome(self) -> Payoffs | None:
        """An outcome by number, label and payoffs; what it pays, None for outcome 0."""
        at = self.tokens.next.at
        key = self.integer("the number of the outcome (0 for none)")
        self.tokens.skip(STRING)
        start = self.tokens.skip(BRACE, "{")
        if start is None:
            if key and key not in self.outcomes:
                raise self.tokens.error(
                    at, f"outcome {key} has no payoffs here, nor had it before; they should follow in braces"
                )
            return self.outcomes[key] if key else None
        payoffs = []
        while not self.tokens.skip(BRACE, "}"):
            payoffs.append(self.value(self.tokens.take(WORD, f"a payoff of outcome {key}, or }}"), "payoff"))
        if len(payoffs) != self.players:
            raise self.tokens.error(start.at, f"outcome {key} has {len(payoffs)} payoffs for {self.players} players")
        if key == 0:
            raise self.tokens.error(at, "outcome 0 means none, so it cannot have payoffs; give it another number")
        if self.outcomes.setdefault(key, tuple(payoffs)) != tuple(payoffs):
            raise self.tokens.error(start.at, f"outcome {key} has other payoffs here than where it was first described")
        return self.outcomes[key]

    def integer(self, what: str) -> int:
        token = self.tokens.take(WORD, what)
        if not re.fullmatch(r"-?[0-9]{1,9}", token.text):
            raise self.tokens.error(token.at, f"expected {what}, found {token}")
        return int(token.text)

    def value(self, token: Token, what: str) -> Fraction:
        if token.text not in self.numbers:
            try:
                self.numbers[token.text] = number.parse(token.text)
            except ValueError as error:
                raise self.tokens.error(token.at, f"{what} {error}") from error
        return self.numbers[token.text]

    def labels(self, known: NDArray[np.int64]) -> list[str]:
        """A name for each information set that no other of its player has: the label if it is that, else with its
        number."""
        used = Counter((self.owner[i], self.infosets[i].label) for i in known)

        def name(i: int) -> str:
            infoset = self.infosets[i]
            if infoset.label and used[self.owner[i], infoset.label] == 1:
                return infoset.label
            made = f"{infoset.label}#{infoset.number}"
            while (self.owner[i], made) in used:  # somebody's label looks like a name that is made here
                made += f"#{infoset.number}"
            return made

        return [name(i) for i in known]


def _show(value: Fraction) -> str:
    if not number.fits(value):
        return "more than a 64-bit float holds"
    text = f"{float(value):.10g}"
    if text == "1":
        return f"a little {'more' if value > 1 else 'less'} than 1"
    return text if Fraction(text) == value or value.denominator > 10**6 else f"{value} ({text})"


def _names(actions: tuple[str, ...]) -> str:
    shown = [f'"{clip(name)}"' for name in actions[:_SHOWN_ACTIONS]] + ["..."] * (len(actions) > _SHOWN_ACTIONS)
    return "{" + ", ".join(shown) + "}"
