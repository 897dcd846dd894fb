"""The console script `kubectl-ballast`, which kubectl runs as `kubectl ballast`."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

import aiohttp
import yaml

from ballast_operator.cli import diff, render, status, wait, why
from ballast_operator.cli.target import Target, UnknownTarget
from ballast_operator.cluster.client import Client, NoCredentials
from ballast_operator.cluster.errors import ApiError
from ballast_operator.settings import Settings

Command = Callable[[Client, argparse.Namespace], Awaitable[int]]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="kubectl ballast", description="Look at Ballast's objects.")
    commands = top.add_subparsers(dest="command", required=True)

    def about_one(name: str, text: str, run: Command) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("target", metavar="KIND/NAME", help="such as cfr/leduc")
        command.add_argument("-n", "--namespace", help="namespace; the current one if absent")
        command.set_defaults(run=run)
        return command

    about_one("status", "the object, its children and pods, and what each says", status.run)
    about_one("why", "what stands in the object's way, and the next command", why.run)
    waiting = about_one("wait", "wait until it is complete (exit 0) or failed (exit 1)", wait.run)
    waiting.add_argument("--timeout", type=float, default=600, help="seconds, then exit 2 (default 600)")
    drawn = commands.add_parser("render", help="the objects the operator would make, without a cluster")
    drawn.add_argument("-f", "--file", required=True, help="YAML file; - for standard input")
    compared = commands.add_parser("diff", help="what applying a file would change (exit 1 if anything)")
    compared.add_argument("-f", "--file", required=True, help="YAML file; - for standard input")
    compared.add_argument("-n", "--namespace", help="namespace; the current one if absent")
    compared.set_defaults(run=diff.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 well, 1 no (failed, different), 2 could not tell."""
    chosen = parser().parse_args(arguments)
    try:
        if chosen.command == "render":
            return render.render_file(chosen.file, Settings.from_environment(), sys.stdout)
        return asyncio.run(_with_client(chosen))
    except (UnknownTarget, NoCredentials, ApiError, OSError, aiohttp.ClientError, yaml.YAMLError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 2


async def _with_client(chosen: argparse.Namespace) -> int:
    client = await Client.connect(user_agent="kubectl-ballast")
    try:
        if hasattr(chosen, "target"):
            chosen.target = Target.parse(chosen.target, chosen.namespace or client.namespace)
        run: Command = chosen.run
        return await run(client, chosen)
    finally:
        await client.close()


if __name__ == "__main__":
    sys.exit(main())
