"""The commands of `python -m ballast_vamp`."""

import argparse
import sys
from collections.abc import Sequence

from ballast_vamp.replay import cli as replay
from ballast_vamp.replay.errors import ReplayError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="ballast_vamp", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    replay.add(commands)
    options = parser.parse_args(argv)
    try:
        code: int = options.run(options)
        return code
    except ReplayError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
