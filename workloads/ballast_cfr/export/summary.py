"""The facts of a solve, as every output gives them."""

from typing import Any

from ballast_cfr.solve.solver import Outcome, Solver


def summary(solver: Solver, outcome: Outcome) -> dict[str, Any]:
    """Facts about a finished or interrupted solve, ready for JSON. Everything that decides the result is in it."""
    game, found = solver.program.game, solver.evaluate()
    return {
        "reason": outcome.reason,
        "game": game.name,
        "gameHash": game.digest,
        "nodes": game.nodes,
        "infosets": game.infosets,
        "slots": sum(plex.slots for plex in solver.program.plex),
        "span": game.span,
        "form": solver.program.form,
        "variant": solver.variant.name,
        "parameters": dict(solver.variant.parameters),
        "updates": solver.updates,
        "tieTolerance": solver.tie_tol,
        "dtype": solver.dtype,
        "held": solver.settings()["held"],
        "iteration": outcome.iteration,
        "exploitability": found.exploitability,
        "exploitabilityPerSpan": found.exploitability / game.span if game.span else 0.0,
        "value": found.value,
        "valueBounds": [found.lower, found.upper],
        "exploitabilityIsBound": not solver.program.exact_recall,
        "seconds": outcome.seconds,
        "iterationsPerSecond": outcome.iteration / outcome.seconds if outcome.seconds else None,
        "device": solver.device,
        "warnings": list(solver.program.warnings),
    }
