"""What is not watched is asked for seldom, and kinds that the cluster lacks are found out about."""

import asyncio
from typing import Any

import pytest

from ballast_operator.cluster import around, optional
from ballast_operator.cluster.around import Surroundings
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object
from ballast_operator.resources import HORIZONTAL_POD_AUTOSCALER, OPTIONAL, POD_MONITOR, Resource


class Server:
    """Answers lists and says what it serves; counts what it was asked."""

    def __init__(self, *served: Resource) -> None:
        self.lists = 0
        self.has = set(served)
        self.away = 0

    async def list(self, resource: Resource, namespace: str) -> list[Object]:
        self.lists += 1
        return [{"kind": resource.kind, "metadata": {"name": "a", "namespace": namespace}}]

    async def serves(self, resource: Resource) -> bool:
        if self.away:
            self.away -= 1
            raise ApiError(503, "ServiceUnavailable", "away")
        return resource in self.has


def client(server: Server) -> Client:
    made: Any = server
    found: Client = made
    return found


async def test_a_namespace_is_listed_once_for_all_its_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    seen = Surroundings(client(server))
    for _ in range(3):
        (hpa,) = await seen.look([HORIZONTAL_POD_AUTOSCALER], "a")
        assert hpa["metadata"]["namespace"] == "a"
    assert server.lists == 1
    await seen.look([HORIZONTAL_POD_AUTOSCALER], "b")
    assert server.lists == 2
    monkeypatch.setattr(around, "PERIOD_SECONDS", 0)
    await seen.look([HORIZONTAL_POD_AUTOSCALER], "a")
    assert server.lists == 3


async def test_kinds_are_asked_for_until_the_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "PAUSE_SECONDS", 0)
    server = Server(POD_MONITOR)
    server.away = 2
    assert await optional.served_soon(client(server)) == {POD_MONITOR}
    server.away = 100
    assert await optional.served_soon(client(server)) == set()


async def test_a_kind_that_comes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "PERIOD_SECONDS", 0)
    server = Server(*OPTIONAL[:1])
    waiting = asyncio.create_task(optional.until_changed(client(server), set(OPTIONAL[:1])))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    server.has = set(OPTIONAL)
    await asyncio.wait_for(waiting, 5)
