"""The commands of `python -m ballast_vamp`. Each is made by the part of the package that it belongs to."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Sequence

PARTS = (  # each has add_parsers(subparsers)
    "ballast_vamp.probe",
    "ballast_vamp.handles",
    "ballast_vamp.check",
    "ballast_vamp.overhead",
    "ballast_vamp.replay.cli",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="ballast_vamp", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for part in PARTS:
        if _there(part):
            importlib.import_module(part).add_parsers(commands)
    options = parser.parse_args(argv)
    code: int = options.run(options)
    return code


def _there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False
