"""`kubectl ballast wait`: until an object is complete or failed; `kubectl wait` knows only one of the two."""

import argparse
import asyncio
import sys
from time import monotonic

from ballast_operator.cli.target import Target, condition
from ballast_operator.cluster.client import Client
from ballast_operator.objects import Object

POLL_SECONDS = 1.0


async def run(client: Client, chosen: argparse.Namespace) -> int:
    """0 when complete (or ready), 1 when failed, 2 when the time is over."""
    target: Target = chosen.target
    until, said = monotonic() + chosen.timeout, ""
    while True:
        obj = await target.fetch(client)
        for name, code in (("Complete", 0), ("Ready", 0), ("Failed", 1)):
            if found := condition(obj, name):
                print(f"{target} {name}: {found['reason']}: {found['message']}")
                return code
        if (now := _state(obj)) != said:
            print(now, file=sys.stderr)
            said = now
        if monotonic() >= until:
            print(f"{target} is neither complete nor failed after {chosen.timeout:g} s: {said}", file=sys.stderr)
            return 2
        await asyncio.sleep(POLL_SECONDS)


def _state(obj: Object) -> str:
    found = next(
        (c for c in obj.get("status", {}).get("conditions", []) if c["type"] in ("Progressing", "Ready")), None
    )
    return f"{found['reason']}: {found['message']}" if found else "no status yet"
