"""The command line, declared."""

import argparse
from pathlib import Path

from ballast_cfr.export.files import FORMATS
from ballast_cfr.solve.device import DEVICES
from ballast_cfr.solve.variants import DTYPES, UPDATES, VARIANTS


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as ranks=4")
    return key, value


def _object(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name


def parser() -> argparse.ArgumentParser:
    """Every command and option."""
    top = argparse.ArgumentParser(
        prog="python -m ballast_cfr",
        description="Solve two-player zero-sum games by counterfactual regret minimisation.",
        epilog="exit codes: 0 done, 42 bad input, 43 wrong checkpoint, 143 ended by SIGTERM after a checkpoint",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    validate = commands.add_parser("validate", help="say whether a game can be solved, and how large it is")
    _game(validate)
    validate.add_argument("--json", type=Path, metavar="FILE", help="write the facts as JSON; - for standard output")
    solve = commands.add_parser("solve", help="solve a game")
    _game(solve)
    _algorithm(solve)
    _stop(solve)
    _outputs(solve)
    resume = commands.add_parser("resume", help="go on from a checkpoint, to the bit")
    resume.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    resume.add_argument("--game", help="built-in game or file, if it is no longer where it was")
    _stop(resume)
    _outputs(resume)
    evaluate = commands.add_parser("eval", help="exploitability and value of a strategy in a CSV file")
    _game(evaluate)
    evaluate.add_argument("strategy", type=Path, metavar="STRATEGY.csv")
    evaluate.add_argument("--json", type=Path, metavar="FILE", help="write the facts as JSON; - for standard output")
    export = commands.add_parser(
        "export", help="write the average strategy of a checkpoint, or a game as .efg or .cfrg"
    )
    export.add_argument("source", metavar="CHECKPOINT|GAME")
    export.add_argument(
        "output",
        type=Path,
        metavar="FILE",
        help="format by suffix: .csv, .json or .parquet for strategies, .efg or .cfrg for games",
    )
    export.add_argument(
        "--game", help="built-in game or file, if it is no longer where it was when the checkpoint was made"
    )
    export.add_argument("--player", type=int, choices=(0, 1), help="only this player's information sets")
    export.add_argument("--prefix", default="", metavar="TEXT", help="only information sets whose label begins so")
    export.add_argument(
        "--min-reach", type=float, default=0.0, metavar="P", help="only those that their player reaches so often"
    )
    export.add_argument("--game-parameter", type=pair, action="append", default=[], metavar="KEY=VALUE")
    _job(commands.add_parser("job", help="solve in a pod: status over HTTP, checkpoints, result in a ConfigMap"))
    warm = commands.add_parser("warm", help="compile the inner loops into the cache, so that later starts are fast")
    warm.add_argument(
        "--games",
        default="",
        help="comma-separated: instead, the kernels that a GPU would try for these games, such as goofspiel:cards=5",
    )
    warm.add_argument("--dtype", default="Float64", help=f"{' or '.join(DTYPES)} (default: %(default)s)")
    plot = commands.add_parser("plot", help="draw how the exploitability falls, for several variants")
    _game(plot)
    plot.add_argument("output", type=Path, metavar="FILE", help="format by suffix: .png, .svg or .csv")
    plot.add_argument("--variants", default=",".join(VARIANTS), help="comma-separated (default: %(default)s)")
    plot.add_argument("--updates", default="Alternating", help=f"{' or '.join(UPDATES)} (default: %(default)s)")
    plot.add_argument("--iterations", type=int, default=1000, metavar="N", help="(default: %(default)s)")
    _bench(commands.add_parser("bench", help="measure iterations per second beside other solvers"))
    return top


def _game(to: argparse.ArgumentParser) -> None:
    to.add_argument("game", metavar="GAME", help="a built-in game, an .efg or .cfrg file, or openspiel:NAME")
    to.add_argument(
        "--game-parameter", type=pair, action="append", default=[], metavar="KEY=VALUE", help="such as ranks=4"
    )
    to.add_argument(
        "--allow-imperfect-recall", action="store_true", help="solve although a player forgets; without any guarantee"
    )


def _algorithm(to: argparse.ArgumentParser) -> None:
    to.add_argument("--variant", default="CFRPlus", help=f"{', '.join(VARIANTS)} (default: %(default)s)")
    to.add_argument("--updates", default="Alternating", help=f"{' or '.join(UPDATES)} (default: %(default)s)")
    to.add_argument(
        "--tie-tolerance",
        type=float,
        default=64,
        metavar="ULP",
        help="regrets within this count as ties (default: 64; 0: none)",
    )
    to.add_argument(
        "--parameter", type=pair, action="append", default=[], metavar="KEY=VALUE", help="such as alpha=1.5 for DCFR"
    )
    to.add_argument("--dtype", default="Float64", help=f"{' or '.join(DTYPES)} (default: %(default)s)")
    to.add_argument("--device", default="cpu", help=f"{', '.join(DEVICES)}: the faster one (default: %(default)s)")
    to.add_argument(
        "--form", choices=("auto", "sequence", "tree"), default="auto", help="compiled form (default: %(default)s)"
    )


def _stop(to: argparse.ArgumentParser) -> None:
    to.add_argument("--exploitability", metavar="E", help="stop when the exploitability is at most this")
    to.add_argument("--unit", default="Absolute", help="of E: Absolute, Span or MilliBigBlind (default: %(default)s)")
    to.add_argument("--max-iterations", "--iterations", type=int, metavar="N")
    to.add_argument("--max-seconds", type=float, metavar="S")


def _outputs(to: argparse.ArgumentParser) -> None:
    to.add_argument("--output", type=Path, metavar="FILE", help="write the strategy: .csv, .json or .parquet")
    to.add_argument(
        "--json", type=Path, metavar="FILE", help="write the facts of the solve as JSON; - for standard output"
    )
    to.add_argument(
        "--checkpoint",
        dest="save_to",
        type=Path,
        metavar="FILE",
        help="write a checkpoint at the end, or when interrupted",
    )
    to.add_argument("--quiet", action="store_true", help="no progress bar")


def _job(to: argparse.ArgumentParser) -> None:
    source = to.add_mutually_exclusive_group(required=True)
    source.add_argument("--game-builtin", metavar="NAME")
    source.add_argument("--game-file", type=Path, metavar="FILE")
    to.add_argument("--game-parameter", type=pair, action="append", default=[], metavar="KEY=VALUE")
    to.add_argument("--game-sha256", metavar="HEX")
    to.add_argument("--batch-file", type=Path, metavar="FILE", help="one solve for each line; --output-file: a folder")
    to.add_argument("--variant", default="CFRPlus")
    to.add_argument("--updates", default="Alternating")
    to.add_argument("--tie-tolerance", type=float, default=64)
    to.add_argument("--parameter", type=pair, action="append", default=[], metavar="KEY=VALUE")
    to.add_argument("--dtype", default="Float64")
    to.add_argument("--device", default="cpu")
    to.add_argument("--exploitability", metavar="E")
    to.add_argument("--unit", default="Absolute")
    to.add_argument("--max-iterations", type=int, metavar="N")
    to.add_argument("--max-seconds", type=float, metavar="S")
    to.add_argument("--checkpoint-dir", type=Path, required=True)
    to.add_argument("--checkpoint-interval", type=float, default=30, metavar="S")
    to.add_argument("--output-file", type=Path)
    to.add_argument("--output-format", choices=FORMATS, default="CSV")
    to.add_argument("--result-configmap", type=_object, metavar="NAMESPACE/NAME")
    to.add_argument("--status-port", type=int, metavar="PORT")
    to.add_argument("--termination-log", type=Path, metavar="FILE")


def _bench(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--games",
        default="",
        help="comma-separated, such as goofspiel:cards=5 (default: leduc; with a GPU, eight games; none: checks only)",
    )
    to.add_argument(
        "--peers", default="none", help="comma-separated: openspiel, liteefg, noregret (default: %(default)s)"
    )
    to.add_argument(
        "--device",
        choices=("cpu", "cuda", "all"),
        default="cpu",
        help="cuda: fused, generic operations eager and as a graph, limits, checks; all: the CPU too (default: cpu)",
    )
    to.add_argument(
        "--checks",
        default="",
        help="with a GPU, comma-separated, such as change,mixed (default: all of them, if --games is not given)",
    )
    to.add_argument("--blocks", type=int, default=7, help="interleaved blocks of each solver (default: %(default)s)")
    to.add_argument("--iterations", type=int, default=200, help="iterations in a block (default: %(default)s)")
    to.add_argument("--json", type=Path, metavar="FILE", help="write all raw rows as JSON; - for standard output")
