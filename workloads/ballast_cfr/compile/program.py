"""A compiled game: the flat arrays that the solver's inner loops run over.

The sequence form is the one to use: it holds each player's decisions once instead of once per node, and is three to
four times faster. The tree form walks every node; it is the fallback where a player forgets, and the oracle that
tests compare with.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.payoff import Csr, matrix
from ballast_cfr.compile.recall import Memory, remember
from ballast_cfr.compile.treeplex import Treeplex, build, magnitudes
from ballast_cfr.compile.validate import inspect
from ballast_cfr.errors import BadInputError
from ballast_cfr.game import CHANCE, Floats, Game

FORMS = ("auto", "sequence", "tree")


@dataclass(frozen=True, eq=False)
class Judge:
    """What an exact best response needs: for each player, the decisions as it remembers them and its sequence at each
    terminal.

    plex, sequence: by player; sequence (T,). weight: (T,) chance reach times player 0's gain.
    """

    plex: tuple[Treeplex, Treeplex]
    sequence: tuple[NDArray[np.int64], NDArray[np.int64]]
    weight: Floats


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes for the tree form, in level order. actor: (N,) who moved into a node, CHANCE for chance. slot: (N,)
    the actor's slot for that move. gain: (N,) player 0's at terminals, else 0."""

    parent: NDArray[np.int32]
    actor: NDArray[np.int8]
    slot: NDArray[np.int32]
    chance: Floats
    gain: Floats


@dataclass(frozen=True, eq=False)
class Program:
    """A game made ready to be solved.

    plex: each player's information sets, which also order every strategy. matrix: payoffs by player, for the sequence
    form only; paying: the terminals it is made of, those with a payoff that chance can reach. shift: half the constant
    that the two payoffs add up to; values of player 0 are `shift` above what the arrays say.
    """

    game: Game
    form: str
    plex: tuple[Treeplex, Treeplex]
    matrix: tuple[Csr, Csr] | None
    paying: NDArray[np.int64] | None
    tree: Tree | None
    judge: Judge
    shift: float
    exact_recall: bool
    warnings: tuple[str, ...]


def compile_game(game: Game, form: str = "auto", allow_imperfect_recall: bool = False) -> Program:
    """Check a game and turn it into arrays.

    form: `auto` takes the sequence form where recall is perfect. Raises BadInputError for a game that is not a
    two-player constant-sum one, or in which a player forgets (unless allowed; absent-mindedness never is).
    """
    memory = remember(game)
    report = inspect(game, memory)
    report.demand(allow_imperfect_recall)
    exact = not memory.forgets
    if form not in FORMS or (form == "sequence" and not exact):
        known = ", ".join(FORMS if exact else ("auto", "tree"))
        raise BadInputError(f"form {form} cannot be had for game {game.name}; choose one of {known}")
    if form == "auto":
        form = "sequence" if exact else "tree"
    gain = np.asarray((game.payoff[:, 0] - game.payoff[:, 1]) / 2)
    judge = _judge(memory, gain)
    plex = judge.plex if exact else _flat(game, gain)
    return Program(
        game=game,
        form=form,
        plex=plex,
        matrix=matrices(judge) if form == "sequence" else None,
        paying=_paying(judge) if form == "sequence" else None,
        tree=_tree(game, plex, gain) if form == "tree" else None,
        judge=judge,
        shift=report.constant / 2,
        exact_recall=exact,
        warnings=report.warnings,
    )


def _judge(memory: Memory, gain: Floats) -> Judge:
    terminals = memory.game.terminals
    plex0, number0 = build(memory, 0, gain)
    plex1, number1 = build(memory, 1, gain)
    sequence = number0[memory.sequence[0, terminals]], number1[memory.sequence[1, terminals]]
    return Judge((plex0, plex1), sequence, memory.game.chance_reach[terminals] * gain)


def matrices(judge: Judge) -> tuple[Csr, Csr]:
    """The payoff matrices of both players."""
    row, column = judge.sequence
    paying = _paying(judge)
    row, column, weight = row[paying], column[paying], judge.weight[paying]
    rows, columns = judge.plex[0].slots + 1, judge.plex[1].slots + 1
    return matrix(row, column, weight, (rows, columns)), matrix(column, row, -weight, (columns, rows))


def _paying(judge: Judge) -> NDArray[np.int64]:
    return np.flatnonzero(judge.weight)


def _flat(game: Game, gain: Floats) -> tuple[Treeplex, Treeplex]:
    """Information sets of players who forget: in order of appearance, with nothing above them."""
    counts = np.array([len(names) for names in game.infoset_actions], dtype=np.int64)

    def one(player: int) -> Treeplex:
        own = np.flatnonzero(game.infoset_player == player)
        number = np.full(game.infosets + 1, -1, dtype=np.int64)
        number[own] = np.arange(len(own))
        return Treeplex(
            first=np.concatenate([[0], np.cumsum(counts[own])]).astype(np.int32),
            parent=np.zeros(len(own), dtype=np.int32),
            infoset=own,
            magnitude=magnitudes(game, gain, number[game.infoset], len(own)),
        )

    return one(0), one(1)


def _tree(game: Game, plex: tuple[Treeplex, Treeplex], gain: Floats) -> Tree:
    local = np.zeros(game.infosets + 1, dtype=np.int64)
    for player in (0, 1):
        local[plex[player].infoset] = plex[player].first[:-1]
    above = np.maximum(game.parent, 0)
    actor = game.player[above].copy()
    actor[0] = CHANCE
    slot = np.where(actor >= 0, local[game.infoset[above]] + game.action, -1)
    pays = np.zeros(game.nodes)
    pays[game.terminals] = gain
    return Tree(game.parent, actor, slot.astype(np.int32), game.chance, pays)
