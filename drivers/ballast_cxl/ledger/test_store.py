"""The commit point, on an API server of one object that answers after a moment."""

import asyncio
import copy

import pytest

from ballast_api.cxlblade import CXLBlade, CXLBladeStatus, Geometry
from ballast_cxl.ledger import book
from ballast_cxl.ledger.store import ATTEMPTS, Gone, Store
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object
from ballast_operator.resources import Resource


class Server:
    """One blade. conflicts: writes of others that get in between, before ours succeed."""

    def __init__(self, conflicts: int = 0) -> None:
        self.conflicts, self.writes, self.reads = conflicts, 0, 0
        self.broken: Exception | None = None
        self.gone = False
        geometry = Geometry(channels=1, blocks_per_channel=64, block_size="1Mi")
        status = CXLBladeStatus(geometry=geometry).model_dump(by_alias=True, exclude_none=True, mode="json")
        spec = {"appliance": {"name": "a0", "url": "http://appliance:80"}, "blade": "b0"}
        self.blade: Object = {
            "apiVersion": "ballast.dev/v1alpha1",
            "kind": "CXLBlade",
            "metadata": {"name": "b0", "resourceVersion": "1", "uid": "u", "generation": 1},
            "spec": spec,
            "status": status,
        }

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        await asyncio.sleep(0.01)
        self.reads += 1
        return copy.deepcopy(self.blade) if name == "b0" and not self.gone else None

    async def update(self, resource: Resource, obj: Object, subresource: str) -> Object:
        await asyncio.sleep(0.01)
        if self.broken:
            raise self.broken
        if self.gone:
            raise ApiError(404, "NotFound", "b0 not found")
        if self.conflicts:
            self.conflicts -= 1
            self._store(self.blade)
        if obj["metadata"]["resourceVersion"] != self.blade["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "changed meanwhile")
        self.writes += 1
        return self._store(obj)

    def _store(self, obj: Object) -> Object:
        self.blade = copy.deepcopy(obj)
        self.blade["metadata"]["resourceVersion"] = str(int(obj["metadata"]["resourceVersion"]) + 1)
        return copy.deepcopy(self.blade)


def store(server: Server) -> tuple[Store, list[Object]]:
    """One that reads every ledger first; and what it told."""
    told: list[Object] = []
    return Store(server, told.append), told  # type: ignore[arg-type]


def knowing(server: Server) -> Store:
    """One that remembers the newest ledger that it was told of."""
    found: Store = Store(server, lambda obj: told.append(obj), lambda _: told[-1])  # type: ignore[arg-type]
    told = [copy.deepcopy(server.blade)]
    return found


def reserve(block: int) -> "Reserve":
    return Reserve(block)


class Reserve:
    """A step: one block for the region of the same number."""

    def __init__(self, block: int) -> None:
        self.block, self.ran = block, 0

    def __call__(self, blade: CXLBlade) -> CXLBladeStatus:
        self.ran += 1
        used = book.held(blade.status)
        if self.block in used:
            raise book.Refused("InsufficientCapacity", f"block {self.block} is taken")
        entry = {
            "uid": f"r{self.block}-{len(used)}",
            "namespace": "n",
            "name": f"r{self.block}",
            "blocks": [self.block],
            "state": "Reserved",
            "generation": 0,
        }
        dumped = blade.status.model_dump(by_alias=True, mode="json")
        return CXLBladeStatus.model_validate(dumped | {"reservations": [*dumped["reservations"], entry]})


def blocks(blade: CXLBlade) -> list[int]:
    return sorted(book.held(blade.status))


async def test_changes_that_wait_are_written_at_once_and_each_sees_its_own() -> None:
    server = Server()
    ledger, told = store(server)
    found = await asyncio.gather(*(ledger.change("b0", reserve(block)) for block in range(8)))
    assert server.writes == server.reads == 2, "the first, and the seven that waited meanwhile"
    assert told[-1] == server.blade
    assert [blocks(blade) for blade in found] == [list(range(block + 1)) for block in range(8)]
    assert len(CXLBlade.model_validate(server.blade).status.reservations) == 8


async def test_one_that_is_refused_holds_nobody_up() -> None:
    server = Server()
    ledger, _ = store(server)
    steps = [reserve(block) for block in (0, 1, 1, 2)]
    found = await asyncio.gather(*(ledger.change("b0", step) for step in steps), return_exceptions=True)
    assert isinstance(found[2], book.Refused)
    assert [blocks(blade) for blade in found if isinstance(blade, CXLBlade)] == [[0], [0, 1], [0, 1, 2]]


async def test_a_step_that_would_break_the_ledger_is_refused_alone() -> None:
    server = Server()
    ledger, _ = store(server)
    found = await asyncio.gather(*(ledger.change("b0", reserve(block)) for block in (0, 99, 1)), return_exceptions=True)
    assert isinstance(found[1], AssertionError)
    assert "holds block 99 of 64" in str(found[1])
    assert sorted(book.held(CXLBlade.model_validate(server.blade).status)) == [0, 1]


async def test_all_are_decided_anew_when_somebody_else_was_faster() -> None:
    server = Server(conflicts=3)
    ledger, _ = store(server)
    steps = [reserve(block) for block in range(3)]
    await asyncio.gather(*(ledger.change("b0", step) for step in steps))
    assert server.writes == 2
    assert steps[0].ran == 4
    assert sorted(book.held(CXLBlade.model_validate(server.blade).status)) == [0, 1, 2]


async def test_others_that_are_always_faster_are_told_to_everybody_who_waits() -> None:
    server = Server(conflicts=10 * ATTEMPTS)
    ledger, _ = store(server)
    found = await asyncio.gather(*(ledger.change("b0", reserve(b)) for b in range(3)), return_exceptions=True)
    assert all(isinstance(error, ApiError) and error.conflict for error in found)


async def test_a_server_that_fails_is_told_to_everybody_and_the_next_try_is_a_new_one() -> None:
    server = Server()
    ledger, _ = store(server)
    server.broken = TimeoutError("no answer")
    found = await asyncio.gather(*(ledger.change("b0", reserve(b)) for b in range(3)), return_exceptions=True)
    assert [type(error) for error in found] == [TimeoutError] * 3
    server.broken = None
    assert blocks(await ledger.change("b0", reserve(5))) == [5]


async def test_those_who_wait_go_on_when_the_one_whose_turn_it_was_is_cancelled() -> None:
    server = Server()
    ledger, _ = store(server)
    tasks = [asyncio.create_task(ledger.change("b0", reserve(block))) for block in range(3)]
    await asyncio.sleep(0.005)
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert [blocks(blade) for blade in found if isinstance(blade, CXLBlade)] == [[1], [1, 2]]


async def test_a_change_that_changes_nothing_writes_nothing_and_a_blade_that_is_gone_is_told() -> None:
    server = Server()
    ledger, told = store(server)
    await ledger.change("b0", lambda blade: blade.status)
    assert (server.writes, told) == (0, [server.blade])
    with pytest.raises(Gone, match="CXLBlade b9 does not exist"):
        await ledger.change("b9", reserve(0))


async def test_a_ledger_that_is_known_is_not_read_before_it_is_written() -> None:
    server = Server()
    ledger = knowing(server)
    found = await asyncio.gather(*(ledger.change("b0", reserve(block)) for block in range(8)))
    assert (server.writes, server.reads) == (2, 0)
    assert [blocks(blade) for blade in found] == [list(range(block + 1)) for block in range(8)]
    assert len(CXLBlade.model_validate(server.blade).status.reservations) == 8


async def test_what_is_known_and_old_writes_nothing() -> None:
    server = Server()
    ledger, other = knowing(server), store(server)[0]
    await other.change("b0", reserve(1))
    step = reserve(2)
    assert blocks(await ledger.change("b0", step)) == [1, 2]
    assert (step.ran, server.writes) == (2, 2)


async def test_what_is_known_and_old_refuses_nobody() -> None:
    """Block 1 was free again before anybody asked."""
    server = Server()
    before = copy.deepcopy(server.blade)
    ledger, other = knowing(server), store(server)[0]
    await ledger.change("b0", reserve(1))
    await other.change("b0", lambda _: CXLBlade.model_validate(before).status)
    assert blocks(await ledger.change("b0", reserve(1))) == [1]
    with pytest.raises(book.Refused, match="block 1 is taken"):
        await ledger.change("b0", reserve(1))


async def test_what_is_known_and_old_does_not_say_that_something_is_done_already() -> None:
    server = Server()
    before = copy.deepcopy(server.blade)
    ledger, other = knowing(server), store(server)[0]
    await ledger.change("b0", reserve(1))
    await other.change("b0", lambda _: CXLBlade.model_validate(before).status)

    def once(blade: CXLBlade) -> CXLBladeStatus:
        return blade.status if 1 in book.held(blade.status) else reserve(1)(blade)

    assert blocks(await ledger.change("b0", once)) == [1]
    assert book.held(CXLBlade.model_validate(server.blade).status) == {1}


async def test_a_blade_that_is_known_and_gone_is_told() -> None:
    server = Server()
    ledger = knowing(server)
    server.gone = True
    with pytest.raises(Gone):
        await ledger.change("b0", reserve(0))
