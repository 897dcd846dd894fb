"""Pods are asked at the same time and not too often; what they answer is read, or nothing is known."""

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from ballast_operator.cluster.probe import Prober
from ballast_operator.kind import Probe


class Pod:
    """A status port."""

    def __init__(self) -> None:
        self.asked = 0
        self.body = b"{}"
        self.status = 200
        self.url = ""

    async def answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(status=self.status, body=self.body)


@pytest.fixture
async def pod() -> AsyncIterator[Pod]:
    made = Pod()
    application = web.Application()
    application.router.add_get("/status", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/status"
    yield made
    await runner.cleanup()


@pytest.fixture
async def prober() -> AsyncIterator[Prober]:
    made = Prober()
    yield made
    await made.close()


async def test_answers_come_by_url_and_a_pod_that_is_away_has_none(pod: Pod, prober: Prober) -> None:
    pod.body = json.dumps({"held": 2}).encode()
    away = "http://127.0.0.1:9/status"
    assert await prober.fetch_all([Probe(pod.url, 5), Probe(away, 5)]) == {pod.url: {"held": 2}, away: None}
    await prober.fetch_all([Probe(pod.url, 5)])
    assert pod.asked == 1


@pytest.mark.parametrize(("status", "body"), [(503, b"{}"), (200, b"{"), (200, b"1" * 100_000)])
async def test_nonsense_is_no_answer(pod: Pod, prober: Prober, status: int, body: bytes) -> None:
    pod.status, pod.body = status, body
    assert await prober.fetch(Probe(pod.url, 5)) is None


async def test_a_page_is_read_as_its_probe_says(pod: Pod, prober: Prober) -> None:
    pod.body = b"x" * 100_000
    assert await prober.fetch(Probe(pod.url, 5, read=len, largest=200_000)) == 100_000
