"""Whether a game can be solved, and what a person would want to know about it first."""

import math
from dataclasses import dataclass

import numpy as np

from ballast_cfr.compile.recall import Memory, remember
from ballast_cfr.errors import BadInputError
from ballast_cfr.game import CHANCE, Game
from ballast_cfr.memory import of_nodes

# Sums and probabilities given as decimals may miss by this much (relative to the span for payoffs).
TOLERANCE = 1e-9

# Payoffs up to here leave room for the sums of any number of iterations.
LARGEST = 1e280

# Of one core of an AMD EPYC of 2018, from the games of docs/performance/cfr.md; good to a factor of two or so.
_SECONDS_PER_NODE = 1e-6
_SECONDS_PER_TERMINAL = 1e-9
_SECONDS_PER_SLOT = 10e-9


@dataclass(frozen=True)
class Report:
    """Facts about a game. `problems` are sentences, each a reason why it cannot be solved; `forgetful` is one that
    can be allowed.

    constant: what the payoffs of two players add up to. span: largest minus smallest payoff of player 0. bytes,
    compile_seconds, iteration_ms: estimates of the peak, of the time to compile it and of one iteration (sequence form,
    one thread).
    """

    name: str
    players: int
    nodes: int
    depth: int
    terminals: int
    infosets: tuple[int, ...]
    slots: int
    constant: float
    span: float
    unreachable: int
    bytes: int
    compile_seconds: float
    iteration_ms: float
    digest: str
    problems: tuple[str, ...]
    forgetful: str | None
    warnings: tuple[str, ...]

    def demand(self, allow_imperfect_recall: bool = False) -> None:
        """Raise BadInputError with the first reason why the game cannot be solved."""
        for problem in self.problems:
            raise BadInputError(problem)
        if self.forgetful and not allow_imperfect_recall:
            raise BadInputError(self.forgetful)


def validate(game: Game) -> Report:
    """Look a game over without solving it; nothing is raised."""
    return inspect(game, remember(game))


def inspect(game: Game, memory: Memory) -> Report:
    """What `validate` says, for a game whose sequences are known already."""
    players = len(game.players)
    two = players == 2
    constant, sum_problem, sum_warning = _sum(game) if two else (0.0, None, None)
    problems = [_players(game), _finite(game), _chance(game), sum_problem, _absent_minded(memory)]
    unreachable = int((game.chance_reach == 0).sum())
    warnings = [
        *game.warnings,
        sum_warning,
        f"game {game.name}: {unreachable} nodes lie behind chance of probability zero and are left out"
        if unreachable
        else None,
        f"{_forgetful(memory)}" if memory.forgets else None,
    ]
    return Report(
        name=game.name,
        players=players,
        nodes=game.nodes,
        depth=sum(1 for _ in game.levels()) - 1,
        terminals=len(game.terminals),
        infosets=tuple(int((game.infoset_player == player).sum()) for player in range(players)),
        slots=sum(map(len, game.infoset_actions)),
        constant=constant,
        span=game.span,
        unreachable=unreachable,
        bytes=of_nodes(game.nodes),
        compile_seconds=_SECONDS_PER_NODE * game.nodes,
        iteration_ms=1000
        * (_SECONDS_PER_TERMINAL * len(game.terminals) + _SECONDS_PER_SLOT * sum(map(len, game.infoset_actions))),
        digest=game.digest,
        problems=tuple(filter(None, problems)),
        forgetful=_forgetful(memory),
        warnings=tuple(filter(None, warnings)),
    )


def _players(game: Game) -> str | None:
    players = len(game.players)
    if players == 2:
        return None
    return f"game {game.name} has {players} player{'s' * (players != 1)}, but only two-player games can be solved"


def _finite(game: Game) -> str | None:
    bad = np.argwhere(~(np.abs(game.payoff) <= LARGEST))
    if not len(bad):
        return None
    terminal, player = bad[0]
    here, value = game.where(int(game.terminals[terminal])), float(game.payoff[terminal, player])
    if not math.isfinite(value):
        return f"{here}: a payoff is not a finite number; give every terminal finite payoffs"
    return f"{here}: a payoff is {value:g}, but must be from {-LARGEST:g} to {LARGEST:g}; give it in larger units"


def _chance(game: Game) -> str | None:
    drawn = np.flatnonzero(game.player[np.maximum(game.parent, 0)] == CHANCE)
    drawn = drawn[drawn > 0]
    wrong = drawn[~(game.chance[drawn] >= 0)]
    if len(wrong):
        at = int(wrong[0])
        return f"{game.where(at)}: a chance outcome has probability {game.chance[at]}, which must not be negative"
    totals = np.bincount(game.parent[drawn], weights=game.chance[drawn], minlength=game.nodes)
    off = np.flatnonzero((game.player == CHANCE) & (np.abs(totals - 1) > TOLERANCE))
    if not len(off):
        return None
    return f"{game.where(int(off[0]))}: the chance probabilities add up to {totals[off[0]]:.10g}, not 1"


def _sum(game: Game) -> tuple[float, str | None, str | None]:
    """The constant that payoffs add up to; a problem if there is none; a warning if it is only nearly so."""
    if not (np.abs(game.payoff) <= LARGEST).all():
        return 0.0, None, None
    sums = game.payoff.sum(axis=1)
    constant = float(sums[0])
    miss = np.abs(sums - constant)
    worst = int(miss.argmax())
    scale = max(game.span, float(np.abs(game.payoff).max()) * np.finfo(np.float64).eps)
    if not miss[worst] > 4 * np.finfo(np.float64).eps * float(np.abs(game.payoff).max()):
        return constant, None, None
    here = game.where(int(game.terminals[worst]))
    if miss[worst] <= TOLERANCE * scale:
        nearly = f"{here}: payoffs add up to {sums[worst]:.17g} instead of {constant:.17g}; taken as equal"
        return constant, None, nearly
    first = game.where(int(game.terminals[0]))
    general = (
        f"{here}: payoffs add up to {sums[worst]:.10g} here, but to {constant:.10g} at {first}; "
        "only zero-sum and constant-sum games can be solved"
    )
    return constant, general, None


def _absent_minded(memory: Memory) -> str | None:
    if not memory.forgets or (twice := memory.absent_minded) is None:
        return None
    game = memory.game
    name = game.infoset_name(int(game.infoset[twice[0]]))
    return (
        f"{game.where(twice[1])}: information set {name} comes twice in one play ({game.history(twice[1])}); "
        "games with absent-minded players cannot be solved"
    )


def _forgetful(memory: Memory) -> str | None:
    if not memory.forgets:
        return None
    game = memory.game
    one, other = memory.forgets[0]
    name = game.infoset_name(int(game.infoset[other]))
    return (
        f"{game.where(other)}: information set {name} breaks perfect recall, since its player comes to it both by "
        f"[{game.history(one)}] and by [{game.history(other)}]; give these histories different information sets, "
        "or allow imperfect recall (no guarantee then)"
    )
