"""`python -m ballast_cxl controller`: the region controller as a process."""

import argparse
import asyncio
import sys

from ballast_cxl.controller.core import Controller
from ballast_cxl.controller.settings import Settings
from ballast_cxl.controller.world import World
from ballast_cxl.slices import gates
from ballast_operator import logs
from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import Client
from ballast_operator.process import Process
from ballast_operator.queue import Queue

EXIT_GATE = 78  # EX_CONFIG


async def run(settings: Settings) -> int:
    """Until told to stop. Refuses to start where a feature gate is off."""
    client = await Client.connect(user_agent="ballast-cxl")
    world = World(client, Cache(), Queue(), settings)
    try:
        await gates.demand(client)
        core = Controller(world)
        background = (core.publisher.run, world.nodes.run)
        await Process(core, core.watched(), settings, client, world.queue, background).run()
    except gates.GateOff as off:
        print(f"error: {off}", file=sys.stderr)
        return EXIT_GATE
    finally:
        await world.fabrics.close()
        await client.close()
    return 0


def main(arguments: list[str]) -> int:
    argparse.ArgumentParser(
        prog="ballast_cxl controller", description="The region controller; settings come from the environment."
    ).parse_args(arguments)
    logs.configure()
    return asyncio.run(run(Settings.from_environment()))
