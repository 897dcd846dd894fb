"""`trace`, `replay` and `plot`: parse, call, print."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast_vamp.replay import arms, plot, presets, report, trace
from ballast_vamp.replay.errors import BadInputError, ReplayError
from ballast_vamp.replay.profiles import Profile
from ballast_vamp.replay.series import Series

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parsers(commands: Commands) -> None:
    """The three commands' parsers."""
    made = commands.add_parser("trace", help="write the conversations of a preset", allow_abbrev=False)
    _conversations(made, required=True)
    made.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl")
    made.set_defaults(run=_telling(_trace))
    drawn = commands.add_parser("plot", help="draw a result: TTFT, TPOT, memory over time", allow_abbrev=False)
    drawn.add_argument("result", type=Path, metavar="RESULT.json")
    drawn.add_argument("--out", type=Path, required=True, metavar="DIR")
    drawn.set_defaults(run=_telling(_plot))
    _replay_options(commands.add_parser("replay", help="the same conversations in every arm", allow_abbrev=False))


def _telling(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The command, with what ends it told in a sentence and an exit code."""

    def run(options: argparse.Namespace) -> int:
        try:
            return command(options)
        except ReplayError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code

    return run


def _conversations(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument("--preset", choices=list(presets.PRESETS), required=required)
    parser.add_argument("--seed", type=int, default=0, help="of the conversations (default: %(default)s)")
    parser.add_argument("--sessions", type=int, help="instead of the preset's")
    parser.add_argument("--scale", type=float, default=1, help="times every length in tokens (default: %(default)s)")
    parser.add_argument("--speed", type=float, default=1, help="divides every time (default: %(default)s)")


def _replay_options(parser: argparse.ArgumentParser) -> None:
    _conversations(parser, required=False)
    parser.add_argument("--trace", type=Path, metavar="FILE.jsonl", help="instead of a preset")
    parser.add_argument("--arms", default="plain,vamp", help=f"of {', '.join(arms.ARMS)} (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each arm, in turn (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes")
    parser.add_argument("--sample-seconds", type=float, default=0.5, metavar="S", help="between looks at the metrics")
    parser.add_argument("--profile", help="NAME or NAME,NAME: which experts are hot, and from half of the turns on")
    live = parser.add_argument_group("engines that serve already")
    each = "for each arm; a URL alone is the first arm's"
    live.add_argument("--url", action="append", default=[], metavar="ARM=URL", help=each)
    live.add_argument("--vocabulary", type=int, default=30000, help="token ids stay below it (default: %(default)s)")
    local = parser.add_argument_group("engines of this machine", "each default in brackets")
    local.add_argument("--model", default="tiny", help="folder, id, or a shape of random weights (%(default)s)")
    local.add_argument("--layers", type=int, help="of a shape")
    local.add_argument("--gpus", metavar="N,N", help="so many arms at a time, one on each, taking turns on them")
    local.add_argument(
        "--one-start",
        action="store_true",
        help="start each arm's engine once for all its runs, which then differ in which experts are hot",
    )
    local.add_argument("--pressure", type=float, default=3, help="KV asked for / physical KV (%(default)s)")
    local.add_argument("--block-size", type=int, default=32, help="tokens of a block of KV (%(default)s)")
    local.add_argument("--max-num-seqs", type=int, default=64, help="requests in one step (%(default)s)")
    local.add_argument(
        "--host-gib", type=float, default=1, help="host memory of each rank of arms that use it (%(default)s)"
    )
    local.add_argument(
        "--max-offload-gib", type=float, default=0, help="of experts; 0: as much as there is host memory"
    )
    local.add_argument("--engine", action="append", default=[], metavar="NAME=JSON", help="arguments of vLLM's LLM")
    parser.set_defaults(run=_telling(_replay))


def _trace(options: argparse.Namespace) -> int:
    turns = _turns(options)
    trace.write(options.out, turns)
    print(_words(turns))
    return 0


def _plot(options: argparse.Namespace) -> int:
    try:
        result = json.loads(options.result.read_text())
    except (OSError, ValueError) as error:
        raise BadInputError(f"result {options.result}: {error}; it is what `replay --json` writes") from error
    for path in plot.draw(result, options.out):
        print(path)
    return 0


def _replay(options: argparse.Namespace) -> int:
    """0 if the arms may be compared; 1, with the reason, if a turn failed or tokens were not the same."""
    names = options.arms.split(",")
    arms.check(names)
    if options.runs < 1:
        raise BadInputError(f"--runs is {options.runs}; at least 1 is needed, and 3 for a median that says something")
    turns = _turns(options)
    print(_words(turns), file=sys.stderr)
    series = Series(options, turns, {name: [] for name in names})
    if options.url:
        urls = _urls(options.url, names)
        result = series.play(
            lambda name, number, _: _one_live(options, urls[name], turns, f"run {number}"), options.runs
        )
    else:
        result = _local(series, options)
    print(report.table(result))
    for fault in result["faults"]:
        print(f"not comparable: {fault}", file=sys.stderr)
    return 1 if result["faults"] else 0


def _turns(options: argparse.Namespace) -> list[trace.Turn]:
    given = getattr(options, "trace", None)
    if (given is None) == (options.preset is None):
        raise BadInputError("a replay takes either --preset or --trace; give one of them")
    if given is not None:
        return trace.read(given)
    return presets.generate(options.preset, options.seed, options.sessions, options.scale, options.speed)


def _words(turns: Sequence[trace.Turn]) -> str:
    return (
        f"{len(trace.sessions(turns))} sessions, {len(turns)} turns, {sum(t.append_tokens for t in turns):,} tokens "
        f"asked, {sum(t.output_tokens for t in turns):,} answered, largest context {trace.largest_context(turns):,}, "
        f"KV asked for at most {trace.demand(turns):,} tokens"
    )


def _local(series: Series, options: argparse.Namespace) -> dict[str, Any]:
    """Engines of this machine, each run in a process of its own."""
    setup = _setup(options, series.turns)
    series.gpus = options.gpus.split(",") if options.gpus else [None]
    series.pressure = trace.demand(series.turns) / setup.physical
    with tempfile.TemporaryDirectory(prefix="replay-trace-") as folder:
        path = Path(folder) / "trace.jsonl"
        trace.write(path, series.turns)
        every = options.sample_seconds
        once = options.runs if options.one_start else 1
        task = functools.partial(arms.Task, setup=setup, trace=str(path), every=every, runs=once)
        return series.play(lambda name, _, gpu: arms.run(task(name), gpu), options.runs // once)


def _setup(options: argparse.Namespace, turns: Sequence[trace.Turn]) -> arms.Setup:
    demand, longest = trace.demand(turns), trace.largest_context(turns)
    physical = int(demand / options.pressure)
    # The engine refuses to start if one request cannot run alone.
    least = longest + 2 * options.block_size
    if physical < least:
        raise BadInputError(
            f"--pressure {options.pressure:g} leaves {physical:,} tokens of KV, and the trace's largest context takes "
            f"{least:,}; lower it to {demand / least:.2f}, or ask for more sessions"
        )
    profile, _, shift = (options.profile or "").partition(",")
    for name in filter(None, (profile, shift)):
        Profile.parse(name)
    return arms.Setup(
        model=options.model,
        layers=options.layers,
        physical=physical,
        ideal=demand + longest,
        longest=longest,
        block=options.block_size,
        seqs=options.max_num_seqs,
        host=int(options.host_gib * arms.GIB),
        offload=int(options.max_offload_gib * arms.GIB),
        profile=profile or None,
        shift=shift or None,
        engine=_engine_arguments(options.engine),
    )


def _engine_arguments(given: Sequence[str]) -> dict[str, Any]:
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name.replace("-", "_")] = json.loads(value)
        except ValueError as error:
            raise BadInputError(f"--engine {text}: {value or 'nothing'} is no JSON; quote text twice") from error
    return found


def _one_live(
    options: argparse.Namespace, url: str, turns: Sequence[trace.Turn], salt: str
) -> Generator[dict[str, Any]]:
    yield asyncio.run(_live(options, url, turns, salt))


async def _live(options: argparse.Namespace, url: str, turns: Sequence[trace.Turn], salt: str) -> dict[str, Any]:
    from ballast_vamp.replay.drive import EngineError, Player
    from ballast_vamp.replay.live import live_engine
    from ballast_vamp.replay.outcome import outcome

    profile, _, shift = (options.profile or "").partition(",")
    then = Profile.parse(shift) if shift else None
    try:
        async with live_engine(url, salt) as engine:
            if profile:
                await engine.change_profile(Profile.parse(profile))
            sessions = trace.sessions(turns)
            played = await Player(engine, sessions, options.vocabulary, options.sample_seconds, then).play()
    except EngineError as error:
        raise ReplayError(str(error)) from error
    return outcome(played, turns)


def _urls(given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        arm, equals, url = text.partition("=")
        found[arm if equals and arm in arms.ARMS else names[0]] = url if equals and arm in arms.ARMS else text
    if set(found) != set(names):
        raise BadInputError(
            f"--url names {', '.join(found)} and --arms {', '.join(names)}; give each arm its URL, as plain=http://..."
        )
    return found
