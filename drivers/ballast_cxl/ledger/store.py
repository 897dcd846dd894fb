"""The commit point: one compare-and-swap on a CXLBlade's status for every change of its ledger.

Electing a leader only saves work. Two controllers that both believe to lead read the same ledger, and the API server
takes the change of one of them; the other reads again and decides anew.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ballast_api.cxlblade import CXLBlade, CXLBladeStatus, Observed
from ballast_cxl import placement
from ballast_cxl.grid import Grid
from ballast_cxl.ledger import book
from ballast_cxl.metrics import CONFLICTS
from ballast_cxl.quantity import to_text
from ballast_cxl.resources import CXL_BLADE
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object

log = logging.getLogger(__name__)

ATTEMPTS = 12  # each one that fails is a change of somebody else that succeeded
Step = Callable[[CXLBlade], CXLBladeStatus]


class Gone(Exception):
    """The blade's object does not exist."""


@dataclass
class Store:
    """The ledgers, as the API server holds them. written: called with each blade that was changed here."""

    client: Client
    written: Callable[[Object], None]
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def read(self, blade: str) -> CXLBlade:
        """The blade as it is now. Raises Gone."""
        return CXLBlade.model_validate(await self._fetch(blade))

    async def change(self, blade: str, step: Step) -> CXLBlade:
        """Bring a ledger one step on. `step` may run several times, on ever newer ledgers; what it raises is raised.

        Changes of one process take turns, so only other processes are in the way. Raises ApiError (conflict) when those
        were faster every time.
        """
        async with self._turns.setdefault(blade, asyncio.Lock()):
            return await self._change(blade, step)

    async def _change(self, blade: str, step: Step) -> CXLBlade:
        for attempt in range(1, ATTEMPTS + 1):
            stored = await self._fetch(blade)
            before = CXLBlade.model_validate(stored)
            after = step(before)
            if after == before.status:
                return before
            after = with_totals(before, after)
            if wrong := book.faults(after):
                raise AssertionError(f"ledger of CXLBlade {blade} would be broken: {'; '.join(wrong)}")
            body = stored | {"status": dumped(after)}
            try:
                written = await self.client.update(CXL_BLADE, body, "status")
            except ApiError as error:
                if not error.conflict or attempt == ATTEMPTS:
                    raise
                CONFLICTS.inc()
                continue
            self.written(written)
            return CXLBlade.model_validate(written)
        raise AssertionError("not reached")

    async def _fetch(self, blade: str) -> Object:
        found = await self.client.get(CXL_BLADE, None, blade)
        if found is None:
            raise Gone(f"CXLBlade {blade} does not exist; the regions on it cannot be looked after")
        return found


def dumped(status: CXLBladeStatus) -> Object:
    found: Object = status.model_dump(by_alias=True, exclude_none=True, mode="json")
    return found


def with_totals(blade: CXLBlade, status: CXLBladeStatus) -> CXLBladeStatus:
    """The ledger with what it comes to: bytes of the blade, free, and of the largest region that would fit."""
    if status.geometry is None:
        return status
    grid, used = Grid.of(status.geometry), book.held(status)
    contiguity = blade.spec.contiguity.value == "Required"
    observed = Observed(
        size=to_text(grid.bytes),
        free=to_text((grid.count - len(used)) * grid.block_bytes),
        largest_extent=to_text(placement.largest(grid, used, contiguity)),
        regions=len(status.reservations),
    )
    return status.model_copy(update={"observed": observed})
