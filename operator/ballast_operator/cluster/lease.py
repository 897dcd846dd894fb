"""Who may write: one process at a time holds the Lease, and a process that loses it ends.

Ending is the only safe answer to a lost Lease, since another process writes from that moment on. Kubernetes starts the
pod again, which then waits as a standby. A Lease is judged by when we saw it change, never by the clock of its holder.
(The client library's own election cannot create a Lease in 37.0.2: it sends `pretty` as a boolean, which its models
refuse.)
"""

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

import aiohttp

from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object
from ballast_operator.resources import LEASE

log = logging.getLogger(__name__)

LEASE_SECONDS = 15.0  # after which a standby may take a Lease that did not change
RENEW_SECONDS = 10.0  # after which a holder that could not renew gives up: well before anybody takes it
RETRY_SECONDS = 2.0


def own_name(environment: Mapping[str, str]) -> str:
    """Name of this process in a Lease. A pod's name is enough: its container runs once at a time, and one that comes
    back after an outage goes on at once instead of waiting for itself. Elsewhere no two processes share a name.
    """
    return environment.get("POD_NAME") or f"{os.uname().nodename}_{uuid.uuid4()}"


@dataclass
class Lease:
    """One process's part in the election for one Lease. clock: seconds that never go back."""

    client: Client
    namespace: str
    name: str
    clock: Callable[[], float] = monotonic
    identity: str = field(default_factory=lambda: own_name(os.environ))
    _seen: str = ""
    _seen_at: float = 0.0
    _renewed_at: float = 0.0

    async def acquire(self) -> None:
        """Return once this process holds the Lease."""
        log.info("waiting for lease %s/%s as %s", self.namespace, self.name, self.identity)
        while not await self._try():
            await asyncio.sleep(RETRY_SECONDS)
        log.info("holding lease %s/%s", self.namespace, self.name)

    async def keep(self) -> None:
        """Renew until that fails for too long; then the Lease counts as lost and this returns."""
        while self.clock() - self._renewed_at < RENEW_SECONDS:
            await asyncio.sleep(RETRY_SECONDS)
            await self._try()
        log.error("lease %s/%s lost", self.namespace, self.name)

    async def release(self) -> None:
        """Give it up at once, so that a standby need not wait. Best effort: it runs out by itself."""
        try:
            found = await self.client.get(LEASE, self.namespace, self.name)
            if found and found["spec"].get("holderIdentity") == self.identity:
                await self._store(found, holder="")
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            log.warning("could not release the lease: %s", error)

    async def _try(self) -> bool:
        """Take or renew the Lease if that is right now; False if somebody holds it or the server does not answer."""
        try:
            found = await self.client.get(LEASE, self.namespace, self.name)
            if found is None:
                await self.client.create(self._body({"metadata": {}, "spec": {}}, self.identity))
            elif not self._may_take(found):
                return False
            else:
                await self._store(found, holder=self.identity)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            log.warning("lease %s/%s: %s", self.namespace, self.name, error)
            return False
        self._renewed_at = self.clock()
        return True

    def _may_take(self, found: Object) -> bool:
        version, holder = found["metadata"]["resourceVersion"], found["spec"].get("holderIdentity")
        if version != self._seen:
            self._seen, self._seen_at = version, self.clock()
        return holder in (self.identity, "", None) or self.clock() - self._seen_at > LEASE_SECONDS

    async def _store(self, found: Object, holder: str) -> None:
        """Compare-and-swap by resource version: of two that try, one fails."""
        await self.client.update(LEASE, self._body(found, holder))

    def _body(self, found: Object, holder: str) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict(found["spec"])
        if spec.get("holderIdentity") != holder:
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        spec |= {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": int(LEASE_SECONDS)}
        meta = {**found["metadata"], "name": self.name, "namespace": self.namespace}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": spec}
