"""The solver: state, steps, and the loop that runs them until a stop rule is met."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ballast_cfr.compile.program import Program
from ballast_cfr.compile.variation import Variations
from ballast_cfr.errors import BadInputError
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.formats import checkpoint
from ballast_cfr.game import Floats
from ballast_cfr.solve import device as devices
from ballast_cfr.solve import variants
from ballast_cfr.solve.device import engine_for
from ballast_cfr.solve.held import allowed, find, probabilities
from ballast_cfr.solve.schedule import Stop, is_look, looks_between

if TYPE_CHECKING:
    from ballast_cfr.solve.revalue import Drawn, Paid

# Longest stretch of iterations in one call, so that signals and other threads get their turn.
_SLICE_SECONDS = 0.05


@dataclass(frozen=True)
class Look:
    """The strategy's quality at one iteration."""

    iteration: int
    evaluation: Evaluation


@dataclass(frozen=True)
class Outcome:
    """How a solve ended. reason: TargetReached, IterationLimit, TimeLimit or Interrupted; look: at the last
    iteration, but for Interrupted, where it is the last one taken, if any."""

    reason: str
    iteration: int
    look: Look | None
    seconds: float


class Solver:
    """Counterfactual regret minimisation on a compiled game.

    variant: CFR, CFRPlus, DCFR or PCFRPlus, with `parameters` (variants.py). updates: Alternating or Simultaneous.
    tie_tol: regrets within this many units in the last place of the largest value they could come from count as zero;
    0 takes them literally. dtype: Float64, or Mixed for strategies, plans, values and payoffs in 32 bits with regrets
    and sums in 64 (good to an exploitability of about 1e-6 of the span). device: `cpu`, `cuda`, or `auto` for whichever
    is faster here; in Float64 all come to the same bits. Strategies, averages and regrets are arrays (S,) for each
    player, in the order of `program.plex[player]`.
    """

    def __init__(
        self,
        program: Program,
        variant: str = "CFRPlus",
        *,
        updates: str = "Alternating",
        tie_tol: float = 64,
        parameters: Mapping[str, str | float] | None = None,
        dtype: str = "Float64",
        device: str = "cpu",
    ) -> None:
        if not 0 <= tie_tol <= 2**40:
            raise BadInputError(f"tie tolerance is {tie_tol}, but must be a number from 0 to 2^40")
        self._program = program
        self.variant = variants.variant(variant, parameters)
        self.updates = variants.updates(updates)
        self.tie_tol = float(tie_tol)
        self.source: dict[str, Any] | None = (
            None  # where the game came from, for whoever resumes from a checkpoint alone
        )
        self.dtype = variants.dtype(dtype)
        if self.dtype == "Mixed":
            _demand_mixed(program, program.game.payoff[:, 0])
        alternating, mixed = self.updates == "Alternating", self.dtype == "Mixed"
        self._engine = engine_for(
            program, self.variant.predict, alternating, self.tie_tol, mixed, devices.device(device)
        )
        self._variations = Variations(program)
        self._paid: Paid | None = None
        self._drawn: Drawn | None = None
        self._is_stale = False  # whether payoffs or ranges were set that the engine has not got yet
        self.reset()

    @property
    def program(self) -> Program:
        """The compiled game, with the payoffs and ranges that were set last."""
        self._settle()
        return self._program

    def _settle(self) -> None:
        """Hand the payoffs and ranges over that were set: once, however many calls set them."""
        if not self._is_stale:
            return
        paid, drawn = self._paid or self._variations.paid, self._drawn or self._variations.drawn
        self._program = self._variations.make(self._program, paid, drawn)
        self._engine.take(self._program)
        self._is_stale = False

    def reset(self) -> None:
        """Back to iteration 0, both players uniform; payoffs, ranges, locks and masks stay."""
        self.iteration = 0
        self.seconds = 0.0
        self.last_look: Look | None = None
        self._engine.reset()

    def step(self, iterations: int = 1) -> None:
        """Do exactly this many iterations."""
        self._settle()
        self._engine.run(self.variant.tables(self.iteration, iterations))
        self.iteration += iterations

    def evaluate(self) -> Evaluation:
        """Value, bounds and exploitability of the average strategies, exactly."""
        self._settle()
        if self.last_look is None or self.last_look.iteration != self.iteration:
            self.last_look = Look(self.iteration, self._engine.evaluate(self.average()))
        return self.last_look.evaluation

    def exploitability(self) -> float:
        """Half of what both players together could win against the average strategies by best replies (NashConv /
        2)."""
        return self.evaluate().exploitability

    @property
    def device(self) -> str:
        """Where it solves: cpu, or the GPU's name and how the game is put on it."""
        return self._engine.where

    def value(self) -> float:
        """Payoff of player 0 when both play their average strategies."""
        return self.evaluate().value

    def average(self) -> tuple[Floats, Floats]:
        """The average strategies: what converges to an equilibrium."""
        return self._engine.average()

    def current(self) -> tuple[Floats, Floats]:
        """The strategies of the next iteration."""
        return self._engine.copies(1)

    def regrets(self) -> tuple[Floats, Floats]:
        """Cumulative regrets."""
        return self._engine.copies(0)

    def set_payoffs(self, payoffs: Floats) -> None:
        """Other payoffs of player 0 from now on, (T,) in the order of `program.game.terminals`; player 1's keep the
        sum. What was learnt stays (`reset` forgets it). A solve from the start then equals, to the bit, one of the
        changed game compiled anew. Raises BadInputError for a wrong shape or numbers that are not finite."""
        paid = self._variations.payoffs(payoffs)
        if self.dtype == "Mixed":
            _demand_mixed(self._program, paid.both[:, 0])
        self._paid = paid
        self._is_stale, self.last_look = True, None

    def set_root_ranges(self, first: Floats, second: Floats) -> None:
        """Scale the probability of every deal by a factor for what each player is dealt, in the order of
        `root_types`; relative to the game as compiled, not to earlier ranges. Raises BadInputError for a wrong shape,
        negative factors, or if nothing could be dealt."""
        self._drawn = self._variations.ranges(first, second)
        self._is_stale, self.last_look = True, None

    def root_types(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What each player can be dealt before the first move, by the information set it first acts in."""
        return self._variations.deals.names

    def lock(self, infoset: int | str, strategy: Sequence[float] | Floats, player: int | None = None) -> None:
        """Hold an information set to a strategy (one probability for each action) from now on.

        infoset: the game's number for it, or its label (with the player, if both have one of that name). The average
        strategy is then that strategy, and best replies, so the exploitability, keep to it. Raises BadInputError."""
        place = find(self.program, infoset, player)
        self._engine.lock(place.player, place.infoset, probabilities(self.program, place, strategy))
        self.last_look = None

    def mask(self, infoset: int | str, actions: Sequence[int | str], player: int | None = None) -> None:
        """Forbid some actions of an information set, by position or by name, from now on; those that were forbidden
        before stay so. What the average has learnt of them is forgotten. Raises BadInputError."""
        place = find(self.program, infoset, player)
        before = self._engine.live_actions(place.player, place.infoset)
        self._engine.mask(place.player, place.infoset, allowed(self.program, place, actions, before))
        self.last_look = None

    def free(self, infoset: int | str, player: int | None = None) -> None:
        """Lift the lock or mask of an information set; it starts again from uniform."""
        place = find(self.program, infoset, player)
        self._engine.free(place.player, place.infoset)
        self.last_look = None

    def solve(
        self,
        stop: Stop,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        progress: Callable[["Solver"], None] = lambda _: None,
    ) -> Outcome:
        """Iterate until a stop rule is met. `progress` is called, and `interrupted` asked, about 20 times a second,
        between iterations."""
        begun, before = time.monotonic(), self.seconds
        slice_iterations = 1
        while (reason := self._reason(stop)) is None:
            if interrupted():
                reason = "Interrupted"
                break
            started = time.monotonic()
            count = self._advance(stop, slice_iterations)
            now = time.monotonic()
            self.seconds = before + now - begun
            if now - started < _SLICE_SECONDS / 2 and count == slice_iterations:
                slice_iterations *= 2
            elif now - started > _SLICE_SECONDS and slice_iterations > 1:
                slice_iterations //= 2
            progress(self)
        return Outcome(reason, self.iteration, self.last_look, self.seconds)

    def _advance(self, stop: Stop, most: int) -> int:
        """At most this many iterations towards a stop rule; returns how many it set out to do. A GPU looks, and stops,
        by itself."""
        self._settle()
        look = getattr(self._engine, "look", None)
        if look is None:
            count = min(stop.target(self.iteration) - self.iteration, most)
            self.step(count)
            return count
        count = most if stop.iterations is None else min(most, stop.iterations - self.iteration)
        looks = looks_between(self.iteration, self.iteration + count)
        tables = self.variant.tables(self.iteration, count)
        target = -1.0 if stop.exploitability is None else stop.exploitability
        done, found = look(tables, [at - self.iteration for at in looks], target)
        self.iteration += done
        if found is not None:
            self.last_look = Look(max(at for at in looks if at <= self.iteration), found)
        return count

    def _reason(self, stop: Stop) -> str | None:
        """Why to stop here, if at all. Looks at the exploitability where the schedule says so."""
        limit = stop.iterations is not None and self.iteration >= stop.iterations
        late = stop.seconds is not None and self.seconds >= stop.seconds
        if is_look(self.iteration) or limit or late:
            found = self.evaluate().exploitability
            if stop.exploitability is not None and found <= stop.exploitability and (is_look(self.iteration) or limit):
                return "TargetReached"
        return "IterationLimit" if limit else "TimeLimit" if late else None

    def settings(self) -> dict[str, Any]:
        """What a checkpoint must share with a solver for the one to go on from the other."""
        return {
            "game": self.program.game.digest,
            "form": self.program.form,
            "variant": self.variant.name,
            "parameters": dict(self.variant.parameters),
            "updates": self.updates,
            "tieTolerance": self.tie_tol,
            "dtype": self.dtype.lower(),
            "held": self._engine.held_digest(),
        }

    def save(self, path: str | Path) -> None:
        """Write a checkpoint (format: formats/checkpoint.py), replacing the one there."""
        game = self.program.game
        header = {
            "settings": self.settings(),
            "gameName": game.name,
            "source": self.source,
            "iteration": self.iteration,
            "seconds": self.seconds,
            "lookSchedule": "32/5%",
        }
        checkpoint.write(Path(path), header, self._engine.arrays())

    def load(self, path: str | Path) -> None:
        """Go on from a checkpoint, to the bit. Raises CheckpointMismatchError if it is damaged or not of this game and
        these settings."""
        header, arrays = checkpoint.read(Path(path))
        checkpoint.demand_same(Path(path), header["settings"], self.settings())
        self.iteration = int(header["iteration"])
        self.seconds = float(header["seconds"])
        self.last_look = None
        self._engine.restore(arrays)


def _demand_mixed(program: Program, payoffs: Floats) -> None:
    """Raise BadInputError if a game cannot be solved with these payoffs of player 0 in 32 bits, which hold numbers from
    about 1e-38 to 3e38."""
    name = program.game.name
    if program.form == "tree":
        raise BadInputError(f"game {name} is compiled to the tree form, which has no dtype Mixed")
    largest = float(np.abs(payoffs - program.shift).max())
    if largest > 0 and not 1e-30 <= largest <= 1e30:
        raise BadInputError(
            f"game {name} has payoffs up to {largest:g}, but with dtype Mixed the largest must be from 1e-30 to 1e+30; "
            "give them in other units, or use Float64"
        )
