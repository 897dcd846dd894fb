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


@dataclass(eq=False)
class Wish:
    """A step that waits for its turn. after: the ledger as it is once the step is taken."""

    step: Step
    done: asyncio.Future[CXLBlade]
    after: CXLBladeStatus = field(default_factory=CXLBladeStatus)

    def refuse(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def grant(self, blade: CXLBlade) -> None:
        """Committed: `blade` is the object, of which the wish sees its own step and those before it."""
        if not self.done.done():
            self.done.set_result(blade.model_copy(update={"status": self.after}))


@dataclass
class Store:
    """The ledgers, as the API server holds them. learned: called with each blade that the API server told us of; known:
    the newest that anybody told us of, if one is."""

    client: Client
    learned: Callable[[Object], None]
    known: Callable[[str], Object | None] = lambda _: None
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)
    _wishes: dict[str, list[Wish]] = field(default_factory=dict)

    async def read(self, blade: str) -> CXLBlade:
        """The blade as it is now. Raises Gone."""
        return CXLBlade.model_validate(await self._fetch(blade))

    async def change(self, blade: str, step: Step) -> CXLBlade:
        """Bring a ledger one step on. `step` may run several times, on ever newer ledgers; what it raises is raised.

        Changes of one process take turns, so only other processes are in the way; those that wait for the same turn are
        written at once, one after the other in the ledger, so that a blade that many regions want is not written for
        each of them alone. The ledger is not read first if one is known: if it is old, the API server refuses the
        write. But where nothing is written nobody checks, so none is refused, or done already, by what is only known.
        Raises ApiError (conflict) when others were faster every time.
        """
        wish = Wish(step, asyncio.get_running_loop().create_future())
        wishes = self._wishes.setdefault(blade, [])
        wishes.append(wish)
        try:
            async with self._turns.setdefault(blade, asyncio.Lock()):
                if not wish.done.done():
                    await self._change(blade, [each for each in wishes if not each.done.done()])
            return await wish.done
        finally:
            wishes.remove(wish)

    async def _change(self, blade: str, wishes: list[Wish]) -> None:
        """Grant or refuse all of them. If it is cancelled, those that are left go with the next turn."""
        try:
            await self._commit(blade, wishes)
        except Exception as error:
            for wish in wishes:
                wish.refuse(error)

    async def _commit(self, blade: str, wishes: list[Wish]) -> None:
        known = self.known(blade)
        for attempt in range(1, ATTEMPTS + 1):
            stored = known or await self._fetch(blade)
            before = CXLBlade.model_validate(stored)
            after, refused = _taken(before, wishes)
            if known and after == before.status:
                known = None
                continue
            if after != before.status:
                body = stored | {"status": dumped(with_totals(before, after))}
                try:
                    stored = await self.client.update(CXL_BLADE, body, "status")
                except ApiError as error:
                    gone = known and error.not_found
                    if not (gone or error.conflict) or attempt == ATTEMPTS:
                        raise
                    known = None
                    CONFLICTS.inc()
                    continue
                self.learned(stored)
            for wish, why in refused:
                wish.refuse(why)
            found = CXLBlade.model_validate(stored)
            for wish in wishes:
                wish.grant(found)
            return

    async def _fetch(self, blade: str) -> Object:
        found = await self.client.get(CXL_BLADE, None, blade)
        if found is None:
            raise Gone(f"CXLBlade {blade} does not exist; the regions on it cannot be looked after")
        self.learned(found)
        return found


def _taken(blade: CXLBlade, wishes: list[Wish]) -> tuple[CXLBladeStatus, list[tuple[Wish, Exception]]]:
    """The ledger after every step that can be taken, each on top of the one before; and the others with the reason."""
    status, refused = blade.status, list[tuple[Wish, Exception]]()
    for wish in wishes:
        try:
            after = wish.step(blade.model_copy(update={"status": status}))
            if after != status and (wrong := book.faults(after)):
                raise AssertionError(f"ledger of CXLBlade {blade.metadata.name} would be broken: {'; '.join(wrong)}")
        except Exception as error:
            refused.append((wish, error))
        else:
            status = wish.after = after
    return status, refused


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
