"""`python -m ballast_operator run|crds|render`."""

import argparse
import asyncio
import os
import sys

from ballast_operator import logs
from ballast_operator.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ballast_operator", description="The Ballast operator.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="watch and reconcile until told to stop")
    crds = commands.add_parser("crds", help="print the CustomResourceDefinitions")
    crds.add_argument("--write", action="store_true", help="write them into crds/ of this checkout instead")
    render = commands.add_parser("render", help="print the objects that the operator would make, without a cluster")
    render.add_argument("-f", "--file", required=True, help="YAML file with objects of ours; - for standard input")
    chosen = parser.parse_args(arguments)
    return {"run": _run, "crds": _crds, "render": _render}[chosen.command](chosen)


def _run(_: argparse.Namespace) -> int:
    from ballast_operator.kinds import kinds
    from ballast_operator.process import run

    logs.configure()
    settings = Settings.from_environment()
    if asyncio.run(run(kinds, settings)):
        # In this very process: to end would count as a crash, and after a few of them the kubelet makes us wait.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return 0


def _crds(chosen: argparse.Namespace) -> int:
    from ballast_api.schema.__main__ import main as generate

    return generate(["--write"] if chosen.write else [])


def _render(chosen: argparse.Namespace) -> int:
    from ballast_operator.cli.render import render_file

    return render_file(chosen.file, Settings.from_environment(), sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
