"""The node's Lease: while it is renewed, the controller knows that somebody here takes devices down when asked.

Not an election: both plugins of a rolling update renew the same Lease, in the name of the node's present boot. When it
is not renewed for its duration, the controller cuts the node off at the fabric before it gives the memory to others.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from ballast_cxl.names import lease_name
from ballast_cxl.node.attachments import EXPECTED
from ballast_operator.cluster.client import Client
from ballast_operator.objects import Object
from ballast_operator.resources import LEASE

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Liveness:
    """duration: seconds that the Lease is good for; period: between renewals."""

    client: Client
    namespace: str
    node: str
    incarnation: str
    duration: float
    period: float

    async def run(self) -> None:
        """Renew for ever; a renewal that fails is tried again at the next."""
        while True:
            try:
                await self.renew()
            except EXPECTED as error:
                log.warning("could not renew the lease of node %s: %s", self.node, error)
            await asyncio.sleep(self.period)

    async def renew(self) -> None:
        """Once. Raises EXPECTED errors; that another plugin was first is none of them."""
        name = lease_name(self.node)
        found = await self.client.get(LEASE, self.namespace, name)
        if found is None:
            meta = {"name": name, "namespace": self.namespace}
            await self.client.create(
                {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta} | self._spec()
            )
        else:
            await self.client.update(LEASE, found | self._spec())

    def _spec(self) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        seconds = max(1, int(self.duration))
        return {"spec": {"holderIdentity": self.incarnation, "renewTime": now, "leaseDurationSeconds": seconds}}
