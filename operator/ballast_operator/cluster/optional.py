"""Kinds of other projects: which of them the cluster has, and when that changes.

A watch of a kind that is not served is an error without end, so they are asked for before watches are set up.
"""

import asyncio
import logging

import aiohttp

from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.resources import OPTIONAL, Resource

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60
TRIES = 5
PAUSE_SECONDS = 2


async def served(client: Client) -> set[Resource]:
    """Resources of other projects that the API server has."""
    return {resource for resource in OPTIONAL if await client.serves(resource)}


async def served_soon(client: Client) -> set[Resource]:
    """The same; none if the API server does not answer for a while, which `until_changed` puts right later."""
    for _ in range(TRIES):
        try:
            return await served(client)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            log.warning("cannot ask for other projects' kinds yet: %s", error)
            await asyncio.sleep(PAUSE_SECONDS)
    return set()


async def until_changed(client: Client, known: set[Resource]) -> None:
    """Return when one of these kinds came or went."""
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        try:
            found = await served(client)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            log.warning("cannot ask for other projects' kinds: %s", error)
            continue
        if found != known:
            log.info("starting anew: %s came or went", ", ".join(sorted(each.kind for each in found ^ known)))
            return
