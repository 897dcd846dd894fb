"""The other ranks of a group of nodes, as one of them sees them: by their status ports.

vLLM's leader does not notice that another rank is gone: it says that it is healthy, and hangs at the next request. Nor
does it help that the rank is started anew: those that run cannot take it in. So the leader asks every rank who it is.
It is not ready while one is missing, and ends once one of them is somebody else: its container then starts again, and
whoever made the group makes all of it anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import aiohttp

LOOK_EVERY = 0.5  # seconds between looks at a leader that drains


class Group(IntEnum):
    """How the ranks of a group are, in the eyes of its leader; from good to bad."""

    WHOLE = 0
    PARTING = 1  # all of them work, and one is told to end
    BROKEN = 2  # one does not answer, or failed
    REPLACED = 3  # one is not who it was

    @property
    def works(self) -> bool:
        """Whether requests that run can still be finished."""
        return self in (Group.WHOLE, Group.PARTING)


@dataclass
class Ranks:
    """Status ports of the other ranks, and who answered there first. Ask only once the engine has loaded its model:
    before that, a rank that is started anew still finds its place."""

    addresses: Sequence[str]
    known: dict[str, str] = field(default_factory=dict)
    suspect: str = ""  # address of the rank that is worst off

    async def look(self, session: aiohttp.ClientSession) -> Group:
        """How they are now: the worst that is true of any."""
        said = await asyncio.gather(*(status(session, address) for address in self.addresses))
        states = [(self._state(*each), each[0]) for each in zip(self.addresses, said, strict=True)]
        worst, self.suspect = max(states, default=(Group.WHOLE, ""))
        return worst

    def _state(self, address: str, answer: dict[str, Any] | None) -> Group:
        if answer is None:
            return Group.BROKEN
        if self.known.setdefault(address, answer["incarnation"]) != answer["incarnation"]:
            return Group.REPLACED
        return {"Failed": Group.BROKEN, "Draining": Group.PARTING}.get(answer["phase"], Group.WHOLE)


async def outlast(session: aiohttp.ClientSession, leader: str, deadline: float) -> None:
    """Wait until the leader is gone, which has requests to finish; at most until `deadline`, a monotonic time."""
    while time.monotonic() < deadline and await status(session, leader) is not None:
        await asyncio.sleep(LOOK_EVERY)


async def status(session: aiohttp.ClientSession, address: str) -> dict[str, Any] | None:
    """What a rank says of itself; None if nobody answers there."""
    try:
        async with session.get(f"http://{address}/status") as answer:
            found: dict[str, Any] = await answer.json()
            return found
    except (aiohttp.ClientError, TimeoutError):
        return None
