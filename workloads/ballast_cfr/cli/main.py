"""`python -m ballast_cfr`: parse, call, print."""

import argparse
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ballast_cfr import errors
from ballast_cfr.cli.arguments import parser
from ballast_cfr.cli.bench import bench, named
from ballast_cfr.cli.output import STANDARD, demand_places, emit, say
from ballast_cfr.cli.progress import Bar
from ballast_cfr.compile.program import compile_game
from ballast_cfr.compile.validate import validate
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.export.files import format_of, write_strategy
from ballast_cfr.export.plot import curve, demand_suffix, draw
from ballast_cfr.export.strategy import EVERYTHING, Only, read_csv, write, write_bytes
from ballast_cfr.export.summary import summary
from ballast_cfr.formats import cfrg, checkpoint, efg_write
from ballast_cfr.job.request import Request
from ballast_cfr.job.run import run
from ballast_cfr.load import load
from ballast_cfr.solve import variants
from ballast_cfr.solve.goal import stop
from ballast_cfr.solve.solver import Outcome, Solver
from ballast_cfr.solve.warm import warm

# What a checkpoint says of the solve it is of, and of where its game came from.
_SETTINGS = {"form": str, "variant": str, "updates": str, "tieTolerance": float | int, "parameters": dict, "dtype": str}
_SOURCE = {"game", "parameters", "allowImperfectRecall"}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    asked = parser().parse_args(arguments)
    try:
        return COMMANDS[asked.command](asked)
    except errors.SolverError as error:
        print(f"{asked.command}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read the output, such as head, has seen enough
        return 128 + signal.SIGPIPE


def _validate(asked: argparse.Namespace) -> int:
    report = validate(load(asked.game, **dict(asked.game_parameter)))
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    facts = asdict(report)
    if asked.json:
        emit(asked.json, facts)
    else:
        shown = {key: value for key, value in facts.items() if key not in ("warnings", "problems", "forgetful")}
        for key, value in shown.items():
            say(f"{key:12} {value:,}" if isinstance(value, int) else f"{key:12} {value}")
    report.demand(asked.allow_imperfect_recall)
    return errors.EXIT_DONE


def _solve(asked: argparse.Namespace) -> int:
    parameters = dict(asked.game_parameter)
    program = compile_game(load(asked.game, **parameters), asked.form, asked.allow_imperfect_recall)
    solver = Solver(
        program,
        asked.variant,
        updates=asked.updates,
        tie_tol=asked.tie_tolerance,
        parameters=dict(asked.parameter),
        dtype=asked.dtype,
        device=asked.device,
    )
    solver.source = {"game": asked.game, "parameters": parameters, "allowImperfectRecall": asked.allow_imperfect_recall}
    return _drive(solver, asked)


def _resume(asked: argparse.Namespace) -> int:
    return _drive(_from_checkpoint(asked.checkpoint, asked.game), asked)


def _from_checkpoint(path: Path, game: str | None) -> Solver:
    """The solver that a checkpoint describes, where it was."""
    if not path.exists():
        raise errors.BadInputError(f"checkpoint {path} does not exist")
    header, _ = checkpoint.read(path)
    settings: dict[str, Any] = header["settings"]
    source: Any = header.get("source")
    whole = source is None or (isinstance(source, dict) and source.keys() >= _SOURCE)
    if not whole or not all(isinstance(settings.get(key), kind) for key, kind in _SETTINGS.items()):
        raise errors.CheckpointMismatchError(
            f"checkpoint {path} is not of one solve, but perhaps of a group of a batch; only a job goes on from that"
        )
    if game is None and source is None:
        raise errors.BadInputError(f"checkpoint {path} does not say where its game is; give it with --game")
    parameters = source["parameters"] if source and game in (None, source["game"]) else {}
    program = compile_game(
        load(game or source["game"], **parameters), settings["form"], bool(source and source["allowImperfectRecall"])
    )
    solver = Solver(
        program,
        settings["variant"],
        updates=settings["updates"],
        tie_tol=settings["tieTolerance"],
        parameters=settings["parameters"],
        dtype=settings["dtype"],
    )
    solver.source = source
    solver.load(path)
    return solver


def _drive(solver: Solver, asked: argparse.Namespace) -> int:
    """Solve with a progress bar; write whatever was asked for."""
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.append(number))
    for warning in solver.program.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if asked.output:
        format_of(asked.output)
    demand_places(output=asked.output, checkpoint=asked.save_to, json=asked.json)
    rule = stop(solver.program.game, asked.exploitability, asked.unit, asked.max_iterations, asked.max_seconds)
    bar = Bar(rule, quiet=asked.quiet)
    outcome = solver.solve(rule, interrupted=lambda: bool(told), progress=bar.show)
    bar.close()
    if asked.save_to:
        solver.save(asked.save_to)
    facts = summary(solver, outcome)
    if asked.output:
        _write_strategy(asked.output, solver, facts)
    if asked.json:
        emit(asked.json, facts)
    elif not asked.quiet:
        _print(facts)
    return 128 + told[0] if outcome.reason == "Interrupted" else errors.EXIT_DONE


def _write_strategy(path: Path, solver: Solver, facts: Mapping[str, Any], only: Only = EVERYTHING) -> None:
    write_strategy(path, format_of(path), solver.program, solver.average(), facts, only)


def _evaluate(asked: argparse.Namespace) -> int:
    form = "tree" if asked.allow_imperfect_recall else "auto"
    program = compile_game(load(asked.game, **dict(asked.game_parameter)), form, asked.allow_imperfect_recall)
    found = evaluate(program, read_csv(program, asked.strategy))
    span = program.game.span
    facts = {
        "game": program.game.name,
        "exploitability": found.exploitability,
        "exploitabilityPerSpan": found.exploitability / span if span else 0.0,
        "exploitabilityIsBound": not program.exact_recall,
        "value": found.value,
        "valueBounds": [found.lower, found.upper],
    }
    if asked.json:
        emit(asked.json, facts)
    else:
        _print(facts)
    return errors.EXIT_DONE


def _export(asked: argparse.Namespace) -> int:
    if asked.output.suffix in (".efg", ".cfrg"):
        game = load(asked.source, **dict(asked.game_parameter))
        if asked.output.suffix == ".efg":
            write(asked.output, efg_write.write(game))
        else:
            write_bytes(asked.output, cfrg.write(game))
        return errors.EXIT_DONE

    format_of(asked.output)
    if not 0 <= asked.min_reach <= 1:
        raise errors.BadInputError(f"the least reach is {asked.min_reach}, but must be a probability from 0 to 1")
    solver = _from_checkpoint(Path(asked.source), asked.game)
    facts = summary(solver, Outcome("Checkpoint", solver.iteration, None, solver.seconds))
    _write_strategy(asked.output, solver, facts, Only(asked.player, asked.prefix, asked.min_reach))
    return errors.EXIT_DONE


def _plot(asked: argparse.Namespace) -> int:
    program = compile_game(load(asked.game, **dict(asked.game_parameter)), "auto", asked.allow_imperfect_recall)
    _demand_positive(iterations=asked.iterations)
    demand_suffix(asked.output)
    demand_places(plot=asked.output)
    names = asked.variants.split(",")
    draw(asked.output, program.game.name, [curve(program, name, asked.iterations, asked.updates) for name in names])
    return errors.EXIT_DONE


def _job(asked: argparse.Namespace) -> int:
    return run(
        Request(
            game=asked.game_builtin or asked.game_file,
            game_parameters=dict(asked.game_parameter),
            batch=asked.batch_file,
            sha256=asked.game_sha256,
            variant=asked.variant,
            updates=asked.updates,
            tie_tolerance=asked.tie_tolerance,
            parameters=dict(asked.parameter),
            dtype=asked.dtype,
            device=asked.device,
            exploitability=asked.exploitability,
            unit=asked.unit,
            max_iterations=asked.max_iterations,
            max_seconds=asked.max_seconds,
            checkpoint_directory=asked.checkpoint_dir,
            checkpoint_interval=asked.checkpoint_interval,
            output_file=asked.output_file,
            output_format=asked.output_format,
            result=asked.result_configmap,
            status_port=asked.status_port,
            termination_log=asked.termination_log,
        )
    )


def _warm(asked: argparse.Namespace) -> int:
    mixed = variants.dtype(asked.dtype) == "Mixed"
    games = [name for name in asked.games.split(",") if name]
    if not games:
        say(warm())
    for game in games:
        from ballast_cfr.gpu.choose import compile_all  # imports what only a machine with a GPU has

        name, parameters = named(game)
        say(f"{game}: {compile_all(compile_game(load(name, **parameters)), mixed)} kernels are in the cache")
    return errors.EXIT_DONE


def _bench(asked: argparse.Namespace) -> int:
    _demand_positive(blocks=asked.blocks, iterations=asked.iterations)
    demand_places(json=asked.json)
    games = [name for name in asked.games.split(",") if name]
    if asked.device != "cpu":
        if asked.json == STANDARD:
            raise errors.BadInputError("bench with a GPU prints lines of JSON anyway; give --json a file")
        from ballast_cfr.gpu.bench import bench as on_gpu  # imports what only a machine with a GPU has

        checks = [name for name in asked.checks.split(",") if name]
        noregret = "noregret" in asked.peers
        return on_gpu(games, checks, asked.device, noregret, asked.blocks, asked.iterations, asked.json)
    return bench(games or ["leduc"], asked.peers.split(","), asked.blocks, asked.iterations, asked.json)


def _demand_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise errors.BadInputError(f"the number of {name} is {number}, but must be at least 1")


def _print(facts: Mapping[str, Any]) -> None:
    for key, value in facts.items():
        if key not in ("warnings", "gameHash"):
            say(f"{key:22} {value:.10g}" if isinstance(value, float) else f"{key:22} {value}")


COMMANDS = {
    "validate": _validate,
    "solve": _solve,
    "resume": _resume,
    "eval": _evaluate,
    "export": _export,
    "job": _job,
    "warm": _warm,
    "bench": _bench,
    "plot": _plot,
}
