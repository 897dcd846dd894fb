"""A CXLTenantQuota's sums, compared with the ledgers: what a crash left charged is given back, what is held counts."""

from dataclasses import dataclass

from ballast_api.cxlattachment import Purpose
from ballast_api.cxltenantquota import CXLTenantQuota, CXLTenantQuotaStatus
from ballast_cxl.controller.world import Held, World
from ballast_cxl.ledger import quota
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_REGION, CXL_TENANT_QUOTA
from ballast_operator.objects import Key


@dataclass
class QuotaSums:
    """Looks after all CXLTenantQuotas."""

    world: World

    async def reconcile(self, key: Key) -> float | None:
        if self.world.cache.get(CXL_TENANT_QUOTA, "", key.name) is None:
            return None
        await self.world.quotas.change(key.name, self._corrected)
        return float(self.world.settings.sweep_seconds)

    def _corrected(self, found: CXLTenantQuota) -> CXLTenantQuotaStatus:
        namespace = found.spec.namespace
        held = {
            entry.uid: (entry.name, Held(blade, entry).size)
            for blade in self.world.blades()
            if blade.status.geometry
            for entry in blade.status.reservations
            if entry.namespace == namespace
        }
        asking = [
            obj["metadata"]["uid"]
            for obj in self.world.cache.all(CXL_REGION)
            if obj["metadata"]["namespace"] == namespace and not obj["metadata"].get("deletionTimestamp")
        ]
        connections = [
            obj["metadata"]["name"]
            for obj in self.world.cache.all(CXL_ATTACHMENT)
            if obj["spec"]["region"]["namespace"] == namespace and obj["spec"].get("purpose") != Purpose.SCRUB.value
        ]
        status = quota.corrected(found.status, held, asking, connections)
        return status.model_copy(update={"observed_generation": found.metadata.generation})
