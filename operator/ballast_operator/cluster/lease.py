"""Who may write: one process at a time holds the Lease, and a process that loses it ends.

Ending is the only safe answer to a lost Lease, since another process writes from that moment on. Kubernetes starts the
pod again, which then waits as a standby.
"""

import logging
import os
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

from ballast_operator.cluster.client import Client

log = logging.getLogger(__name__)

LEASE_SECONDS = 15
RENEW_SECONDS = 10
RETRY_SECONDS = 2


async def lead(
    client: Client,
    *,
    name: str,
    namespace: str,
    work: Callable[[], Coroutine[Any, Any, None]],
    lost: Callable[[], None],
) -> None:
    """Wait for the Lease, run `work` while holding it, and call `lost` when it is gone."""
    identity = f"{os.environ.get('POD_NAME') or os.uname().nodename}_{uuid.uuid4().hex[:8]}"
    log.info("waiting for lease %s/%s as %s", namespace, name, identity)

    async def stopped() -> None:
        log.error("lease %s/%s lost; this process ends so that there is one writer", namespace, name)
        lost()

    lock = LeaseLock(name, namespace, identity, client.api)
    await LeaderElection(Config(lock, LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, work, stopped)).run()
