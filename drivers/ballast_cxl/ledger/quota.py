"""What a namespace may hold: charged before blocks are taken, given back after they are free.

A namespace's regions lie on several blades, so its sum is an object of its own, changed by compare-and-swap as the
ledgers are. A charge names the region it is for: charging twice is charging once, and what a crash left charged is
found by comparing with the ledgers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ballast_api.cxltenantquota import Charge, Connection, CXLTenantQuota, CXLTenantQuotaStatus, Used
from ballast_cxl.ledger.book import Refused
from ballast_cxl.quantity import to_bytes, to_text
from ballast_cxl.resources import CXL_TENANT_QUOTA
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError

ATTEMPTS = 12


def charged(quota: CXLTenantQuota, uid: str, name: str, size: int) -> CXLTenantQuotaStatus:
    """The status with one more region. Raises Refused when the quota has no room for it."""
    status = quota.status
    if any(charge.uid == uid for charge in status.charges):
        return status
    used, spec = to_bytes(status.used.bytes), quota.spec
    if spec.max_bytes is not None and used + size > to_bytes(spec.max_bytes):
        raise Refused(
            "QuotaExceeded",
            f"CXLTenantQuota {quota.metadata.name} lets namespace {spec.namespace} have {spec.max_bytes}, of which "
            f"{status.used.bytes} is used; {to_text(size)} is too much, so delete a region or ask for less",
        )
    if spec.max_regions is not None and len(status.charges) + 1 > spec.max_regions:
        raise Refused(
            "QuotaExceeded",
            f"CXLTenantQuota {quota.metadata.name} lets namespace {spec.namespace} have {spec.max_regions} regions; "
            "delete one",
        )
    return summed(status.model_copy(update={"charges": [*status.charges, Charge(uid=uid, name=name, bytes=str(size))]}))


def refunded(status: CXLTenantQuotaStatus, uid: str) -> CXLTenantQuotaStatus:
    """The status without a region."""
    return summed(status.model_copy(update={"charges": [c for c in status.charges if c.uid != uid]}))


def connected(quota: CXLTenantQuota, name: str) -> CXLTenantQuotaStatus:
    """The status with one more connection. Raises Refused when the quota has no room for it."""
    status, most = quota.status, quota.spec.max_attachments
    if any(connection.name == name for connection in status.connections):
        return status
    if most is not None and len(status.connections) + 1 > most:
        raise Refused(
            "QuotaExceeded",
            f"CXLTenantQuota {quota.metadata.name} lets namespace {quota.spec.namespace} have {most} connections to "
            "nodes; run the pods on fewer nodes",
        )
    return summed(status.model_copy(update={"connections": [*status.connections, Connection(name=name)]}))


def disconnected(status: CXLTenantQuotaStatus, name: str) -> CXLTenantQuotaStatus:
    """The status without a connection."""
    return summed(status.model_copy(update={"connections": [c for c in status.connections if c.name != name]}))


def summed(status: CXLTenantQuotaStatus) -> CXLTenantQuotaStatus:
    """The status with its sums right."""
    total = sum(to_bytes(charge.bytes) for charge in status.charges)
    used = Used(bytes=to_text(total), regions=len(status.charges), attachments=len(status.connections))
    return status.model_copy(update={"used": used})


def corrected(
    status: CXLTenantQuotaStatus, held: Mapping[str, tuple[str, int]], asking: Iterable[str], connections: Iterable[str]
) -> CXLTenantQuotaStatus:
    """The status with exactly what the ledgers hold, and what is being asked for just now.

    held: uid to name and bytes; asking: uids of regions that may be between charge and reservation; connections: names
    of the CXLAttachments that exist.
    """
    waiting = set(asking)
    kept = {c.uid: c for c in status.charges if c.uid in held or c.uid in waiting}
    found = {uid: Charge(uid=uid, name=name, bytes=str(size)) for uid, (name, size) in held.items()}
    there = set(connections)
    return summed(
        status.model_copy(
            update={
                "charges": [(kept | found)[uid] for uid in sorted(kept | found)],
                "connections": [c for c in status.connections if c.name in there],
            }
        )
    )


@dataclass
class Quotas:
    """The quotas, as the API server holds them."""

    client: Client

    async def of(self, namespace: str) -> list[CXLTenantQuota]:
        """Quotas of a namespace, in the order of their names."""
        found = [CXLTenantQuota.model_validate(obj) for obj in await self.client.list(CXL_TENANT_QUOTA)]
        return [quota for quota in found if quota.spec.namespace == namespace]

    async def charge(self, namespace: str, uid: str, name: str, size: int) -> None:
        """Charge every quota of the namespace, or none. Raises Refused."""
        await self._all(namespace, lambda q: charged(q, uid, name, size), lambda q: refunded(q.status, uid))

    async def refund(self, namespace: str, uid: str) -> None:
        for quota in await self.of(namespace):
            await self.change(quota.metadata.name, lambda q: refunded(q.status, uid))

    async def connect(self, namespace: str, name: str) -> None:
        """Count a connection in every quota of the namespace, or in none. Raises Refused."""
        await self._all(namespace, lambda q: connected(q, name), lambda q: disconnected(q.status, name))

    async def disconnect(self, namespace: str, name: str) -> None:
        for quota in await self.of(namespace):
            await self.change(quota.metadata.name, lambda q: disconnected(q.status, name))

    async def change(self, name: str, step: Callable[[CXLTenantQuota], CXLTenantQuotaStatus]) -> None:
        """Bring one quota's status one step on by compare-and-swap; nothing if the quota is gone."""
        for attempt in range(1, ATTEMPTS + 1):
            stored = await self.client.get(CXL_TENANT_QUOTA, None, name)
            if stored is None:
                return
            before = CXLTenantQuota.model_validate(stored)
            after = step(before)
            if after == before.status:
                return
            body = stored | {"status": after.model_dump(by_alias=True, exclude_none=True, mode="json")}
            try:
                await self.client.update(CXL_TENANT_QUOTA, body, "status")
                return
            except ApiError as error:
                if not error.conflict or attempt == ATTEMPTS:
                    raise

    async def _all(
        self,
        namespace: str,
        step: Callable[[CXLTenantQuota], CXLTenantQuotaStatus],
        back: Callable[[CXLTenantQuota], CXLTenantQuotaStatus],
    ) -> None:
        done: list[str] = []
        try:
            for quota in await self.of(namespace):
                await self.change(quota.metadata.name, step)
                done.append(quota.metadata.name)
        except Refused:
            for name in done:
                await self.change(name, back)
            raise
