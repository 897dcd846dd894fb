"""Never two holders, whatever fails and whoever is slow."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_operator.cluster.errors import ApiError
from ballast_operator.cluster.lease import LEASE_SECONDS, RENEW_SECONDS, Lease, own_name
from ballast_operator.objects import Object


class Store:
    """One Lease with the API server's compare-and-swap; `reachable` cuts the line of one client."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.version = 0

    def client(self) -> "Line":
        return Line(self)


class Line:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.reachable = True

    def _check(self) -> None:
        if not self.reachable:
            raise TimeoutError

    async def get(self, *_: Any) -> Object | None:
        self._check()
        return self.store.lease

    async def create(self, obj: Object) -> Object:
        self._check()
        if self.store.lease is not None:
            raise ApiError(409, "AlreadyExists", "exists")
        return await self.update(None, obj)

    async def update(self, _: Any, obj: Object) -> Object:
        self._check()
        if (
            self.store.lease
            and obj["metadata"].get("resourceVersion") != self.store.lease["metadata"]["resourceVersion"]
        ):
            raise ApiError(409, "Conflict", "changed")
        self.store.version += 1
        self.store.lease = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.store.version)}}
        return self.store.lease


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("try"), st.integers(0, 2)),
        st.tuples(st.just("cut"), st.integers(0, 2)),
        st.tuples(st.just("mend"), st.integers(0, 2)),
        st.tuples(st.just("time"), st.integers(1, 9)),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS)
def test_at_most_one_process_may_believe_that_it_leads(steps: list[tuple[str, int]]) -> None:
    store, clock = Store(), Clock()
    lines = [store.client() for _ in range(3)]
    leases = [Lease(line, "ns", "l", clock=clock, identity=f"p{i}") for i, line in enumerate(lines)]  # type: ignore[arg-type]
    for what, number in steps:
        if what == "time":
            clock.now += number
        elif what == "try":
            asyncio.run(leases[number]._try())
        else:
            lines[number].reachable = what == "mend"
        believing = [lease for lease in leases if lease._renewed_at and clock.now - lease._renewed_at < RENEW_SECONDS]
        assert len(believing) <= 1


def test_a_container_that_comes_back_in_its_pod_need_not_wait_for_itself() -> None:
    assert own_name({"POD_NAME": "ballast-operator-x"}) == "ballast-operator-x"
    assert own_name({}) != own_name({})


def test_a_released_lease_is_taken_at_once_and_a_dead_ones_after_its_time() -> None:
    store, clock = Store(), Clock()
    first, second = (Lease(store.client(), "ns", "l", clock=clock, identity=name) for name in ("a", "b"))  # type: ignore[arg-type]
    assert asyncio.run(first._try())
    assert not asyncio.run(second._try())
    clock.now += LEASE_SECONDS + 1
    assert asyncio.run(second._try())
    asyncio.run(second.release())
    assert asyncio.run(first._try())
    assert store.lease and store.lease["spec"]["leaseTransitions"] == 3
