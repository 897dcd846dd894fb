"""Which nodes still report. Each node plugin renews a Lease; one that did not change for too long is lost.

A Lease is judged by when we saw it change, never by the clock of its holder. After a start every node counts as alive
until it has been silent for the whole time: cutting off a node that lives would kill its pods.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

import aiohttp

from ballast_cxl.names import lease_name
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object
from ballast_operator.resources import LEASE

log = logging.getLogger(__name__)

LOOKS = 4  # in the time after which a node is lost


@dataclass
class Nodes:
    """lost_after: seconds. changed: called with the name of each node that is lost or back."""

    client: Client
    namespace: str
    lost_after: float
    changed: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = monotonic
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)  # Lease: version, and when it was new
    _asked: dict[str, float] = field(default_factory=dict)  # node: since when it is of interest
    _lost: set[str] = field(default_factory=set)

    def alive(self, node: str) -> bool:
        """Whether the node's plugin has reported lately."""
        since = self._asked.setdefault(node, self.clock())
        _, changed = self._seen.get(lease_name(node), ("", since))
        return self.clock() - changed <= self.lost_after

    async def run(self) -> None:
        """Look at the Leases, for ever."""
        while True:
            try:
                await self.look()
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                log.warning("cannot read the nodes' Leases: %s", error)
            await asyncio.sleep(self.lost_after / LOOKS)

    async def look(self) -> None:
        """Read the Leases, and tell who is lost or back."""
        self.saw(await self.client.list(LEASE, self.namespace))

    def saw(self, leases: Iterable[Object]) -> None:
        """Take in the Leases of now, and tell who is lost or back."""
        now = self.clock()
        for lease in leases:
            name, version = lease["metadata"]["name"], lease["metadata"]["resourceVersion"]
            if self._seen.get(name, ("", 0.0))[0] != version:
                self._seen[name] = (version, now)
        for node in self._asked:
            if self.alive(node) == (node in self._lost):
                self._lost.symmetric_difference_update({node})
                log.info("node %s is %s", node, "lost" if node in self._lost else "back")
                self.changed(node)
