"""The router pod against real HTTP servers that behave as engines do: slow to load, draining, dying, streaming."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from ballast_serving.hold.balancer import Balancer, Policy
from ballast_serving.hold.engines import absolute, resolve
from ballast_serving.hold.proxy import Limits
from ballast_serving.hold.server import Plan, Router

NAMES = ["a", "b", "c"]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def free_pair() -> int:
    """A free port whose neighbour is free too: the balancer's, and that of its metrics."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port + 1))
            return port


@dataclass
class FakeEngine:
    """An engine pod on a loopback address of its own, so that all share the ports as pods do."""

    host: str
    port: int
    status_port: int
    ready: bool = True
    answered: int = 0
    prompts: list[str] = field(default_factory=list)
    runner: web.AppRunner | None = None
    status_runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/version", self._version)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, self.host, self.port).start()
        status = web.Application()
        status.router.add_get("/readyz", self._readyz)
        self.status_runner = web.AppRunner(status, shutdown_timeout=0.1)
        await self.status_runner.setup()
        await web.TCPSite(self.status_runner, self.host, self.status_port).start()

    async def stop(self) -> None:
        for runner in (self.runner, self.status_runner):
            if runner is not None:
                await runner.cleanup()
        self.runner = self.status_runner = None

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="")

    async def _models(self, _: web.Request) -> web.Response:
        return await _json({"data": [{"id": "m", "object": "model"}]})

    async def _version(self, _: web.Request) -> web.Response:
        return await _json({"host": self.host})

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.ready else 503)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.answered += 1
        self.prompts.append(body["prompt"])
        if body["prompt"] == "bad":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        if not body.get("stream"):
            return await _json({"host": self.host, "path": request.raw_path})
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for n in range(body["chunks"]):
            await answer.write(f"data: {n}\n\n".encode())
            await asyncio.sleep(0.05)
            if body["prompt"] == "break" and n == 2 and request.transport is not None:
                request.transport.abort()
        await answer.write(b"data: [DONE]\n\n")
        return answer


async def _json(content: object) -> web.Response:
    return web.json_response(content)


@dataclass
class Bench:
    """A router and its engines, and who of them DNS names."""

    router: Router
    engines: list[FakeEngine]
    named: set[str]
    session: aiohttp.ClientSession
    url: str
    status_url: str

    async def ask(self, prompt: str = "hello", **more: object) -> tuple[int, dict[str, object]]:
        body = {"prompt": prompt, "model": "m", **more}
        async with self.session.post(f"{self.url}/v1/completions", json=body) as answer:
            return answer.status, json.loads(await answer.text())

    async def stream(self, prompt: str, chunks: int) -> list[bytes]:
        body = {"prompt": prompt, "model": "m", "stream": True, "chunks": chunks}
        async with self.session.post(f"{self.url}/v1/completions", json=body) as answer:
            assert answer.status == 200
            return [line async for line in answer.content if line.startswith(b"data")]

    async def status(self) -> dict[str, object]:
        async with self.session.get(f"{self.status_url}/status") as answer:
            found: dict[str, object] = await answer.json()
            return found

    def name(self, *engines: FakeEngine) -> None:
        self.named.clear()
        self.named.update(f"{engine.host}:{engine.port}" for engine in engines)


@asynccontextmanager
async def bench(
    engines: int, *, policy: Policy = Policy.PREFIX_AWARE, api_key: str = "", others: bool = False, **limits: float
) -> AsyncIterator[Bench]:
    port, status_port = free_port(), free_port()
    fakes = [FakeEngine(f"127.0.1.{n + 1}", port, status_port) for n in range(engines)]
    for fake in fakes:
        await fake.start()
    plan = Plan(
        engines=f"engines:{port}",
        policy=policy,
        port=free_port(),
        status_port=free_port(),
        engine_status_port=status_port,
        limits=Limits(held=int(limits.get("held", 100)), timeout=limits.get("timeout", 20)),
        drain_timeout=5,
        propagation=0.3,
        api_key=api_key,
        service=f"{fakes[-1].host}:{port}" if others else "",
        balancer_port=free_pair(),
    )
    router = Router(plan)
    named: set[str] = set()

    async def resolve(host: str, port: int) -> set[str]:
        return set(named)

    router.engines.resolve = resolve
    task = asyncio.create_task(router.run())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        made = Bench(
            router, fakes, named, session, f"http://127.0.0.1:{plan.port}", f"http://127.0.0.1:{plan.status_port}"
        )
        made.name(*fakes)
        await until(lambda: answers(session, f"{made.status_url}/readyz"))
        try:
            yield made
        finally:
            router.stop.set()
            await task
            for fake in fakes:
                await fake.stop()


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def until(question, seconds: float = 15) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while True:
        found = question()
        if await found if asyncio.iscoroutine(found) else found:
            return
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.05)


async def test_a_request_before_the_first_engine_is_held_and_then_answered() -> None:
    async with bench(1) as here:
        here.engines[0].ready = False
        await until(lambda: not here.router.engines.ready)
        asked = asyncio.create_task(here.ask())
        await until(lambda: here.router.counts.held == 1)
        await asyncio.sleep(0.5)
        here.engines[0].ready = True
        status, _ = await asked
        assert status == 200
        assert (await here.status())["held"] == 0
        assert here.router.counts.longest_hold >= 0.5


async def test_beyond_the_limit_of_held_requests_the_answer_is_503_with_the_number() -> None:
    async with bench(1, held=2) as here:
        here.name()
        await until(lambda: not here.router.engines.known)
        held = [asyncio.create_task(here.ask()) for _ in range(2)]
        await until(lambda: here.router.counts.held == 2)
        status, body = await here.ask()
        assert status == 503
        assert "2 requests wait already" in str(body)
        here.name(*here.engines)
        assert [(await task)[0] for task in held] == [200, 200]


async def test_a_hold_that_lasts_too_long_ends_in_503_with_retry_after() -> None:
    async with bench(1, timeout=1) as here:
        here.name()
        await until(lambda: not here.router.engines.known)
        async with here.session.post(f"{here.url}/v1/completions", json={"prompt": "x"}) as answer:
            assert answer.status == 503
            assert int(answer.headers["Retry-After"]) > 0
            assert "no engine became ready within 1 s" in await answer.text()


async def test_a_stream_reaches_the_client_as_it_is_made() -> None:
    async with bench(1) as here:
        body = {"prompt": "x", "model": "m", "stream": True, "chunks": 20}
        begun = time.monotonic()
        async with here.session.post(f"{here.url}/v1/completions", json=body) as answer:
            await answer.content.readline()
            first = time.monotonic() - begun
            await answer.read()
        assert first < (time.monotonic() - begun) / 2


async def test_streams_outlive_the_engines_leaving_and_new_requests_avoid_it() -> None:
    async with bench(2) as here:
        await until(lambda: len(here.router.balancer.told) == 2)
        streams = [asyncio.create_task(here.stream(f"prompt {n}", 30)) for n in range(8)]
        await until(lambda: sum(engine.answered for engine in here.engines) == 8)
        leaving = here.engines[0]
        leaving.ready = False
        await until(lambda: len(here.router.engines.ready) == 1 and len(here.router.balancer.told) == 1)
        before = leaving.answered
        assert [(await here.ask(f"new {n}"))[0] for n in range(10)] == [200] * 10
        assert leaving.answered == before
        assert [len(await stream) for stream in streams] == [31] * 8


async def test_an_engine_that_died_unseen_costs_no_request() -> None:
    async with bench(3) as here:
        await until(lambda: len(here.router.balancer.told) == 3)
        await here.engines[0].stop()
        answers = await asyncio.gather(*(here.ask(f"{n} and a prompt") for n in range(30)))
        assert [status for status, _ in answers] == [200] * 30


async def test_a_dead_balancer_is_started_again_and_costs_no_request() -> None:
    async with bench(2) as here:
        await until(lambda: here.router.balancer.up and here.router.balancer.told)
        child = here.router.balancer.process
        assert child is not None
        assert child.process is not None
        child.process.kill()
        assert [(await here.ask(f"p{n}"))[0] for n in range(10)] == [200] * 10
        await until(lambda: here.router.balancer.up and len(here.router.balancer.told) == 2, seconds=30)
        assert (await here.ask())[0] == 200


async def test_a_balancer_that_runs_and_never_answers_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast_serving.hold.balancer.START_TIMEOUT", 2.0)
    real, mute = Balancer.command, [sys.executable, "-c", "import time; time.sleep(60)"]
    commands = [mute]
    monkeypatch.setattr(Balancer, "command", lambda self: commands.pop() if commands else real(self))
    monkeypatch.setattr("ballast_serving.hold.balancer.RETRY_EVERY", 0.2)
    found = Balancer(Policy.ROUND_ROBIN, free_pair())
    async with found.running():
        await asyncio.sleep(2.5)
        monkeypatch.setattr("ballast_serving.hold.balancer.START_TIMEOUT", 30.0)
        await until(lambda: found.up, seconds=30)


async def test_a_broken_stream_breaks_for_the_client_too_and_is_counted() -> None:
    async with bench(1) as here:
        with pytest.raises(aiohttp.ClientError):
            await here.stream("break", 10)
        assert here.router.counts.cut._value.get() == 1


async def test_an_engines_own_error_goes_to_the_client_as_it_is() -> None:
    async with bench(1) as here:
        status, body = await here.ask("bad")
        assert (status, body) == (404, {"error": {"message": "no such model"}})
        assert here.engines[0].answered == 1


async def test_the_same_prefix_goes_to_the_same_engine() -> None:
    async with bench(2) as here:
        await until(lambda: len(here.router.balancer.told) == 2)
        for turn in range(6):
            for letter in "abcd":
                await here.ask(letter * 400 + " and more" * turn)
        for letter in "abcd":
            homes = [engine.host for engine in here.engines if any(p.startswith(letter) for p in engine.prompts)]
            assert len(homes) == 1


async def test_without_the_key_nothing_is_held_nor_forwarded() -> None:
    async with bench(1, api_key="secret") as here:
        assert (await here.ask())[0] == 401
        assert here.engines[0].answered == 0
        headers = {"Authorization": "Bearer secret"}
        async with here.session.post(f"{here.url}/v1/completions", json={"prompt": "x"}, headers=headers) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/invocations", 401),
        ("POST", "/tokenize", 401),
        ("GET", "//v1/models", 401),
        ("POST", "/version", 401),
        ("GET", "/v1/models", 401),
        ("GET", "/version", 200),
        ("GET", "/health", 200),
    ],
)
async def test_the_key_is_asked_for_wherever_an_engine_could_be_made_to_work(
    method: str, path: str, status: int
) -> None:
    async with (
        bench(1, api_key="secret") as here,
        here.session.request(method, URL(f"{here.url}{path}", encoded=True)) as answer,
    ):
        assert answer.status == status


async def test_engines_stay_while_dns_is_out_and_go_when_it_names_them_no_more() -> None:
    async with bench(1) as here:
        engines = here.router.engines
        known = engines.resolve

        async def out(host: str, port: int) -> None:
            return None

        engines.resolve = out
        await asyncio.sleep(1.5)
        assert (await here.ask())[0] == 200
        here.engines[0].ready = False
        await until(lambda: not engines.ready)
        engines.resolve = known
        here.name()
        await until(lambda: not engines.known)


def test_a_service_is_asked_for_by_its_whole_name(tmp_path: Path) -> None:
    resolver = tmp_path / "resolv.conf"
    assert absolute("engines.a.svc", resolver) == "engines.a.svc"
    resolver.write_text(
        "nameserver 10.0.0.1\nsearch a.svc.corp.example svc.corp.example corp.example\noptions ndots:5\n"
    )
    assert absolute("engines.a.svc", resolver) == "engines.a.svc.corp.example."
    assert absolute("example.com", resolver) == "example.com"


async def test_a_router_that_ends_hands_what_it_holds_to_another_one() -> None:
    async with bench(2, others=True) as here:
        other = here.engines[1]
        here.name()
        await until(lambda: not here.router.engines.known)
        asked = asyncio.create_task(here.ask())
        await until(lambda: here.router.counts.held == 1)
        here.router.stop.set()
        status, body = await asyncio.wait_for(asked, 10)
        assert (status, body["host"]) == (200, other.host)
        assert here.router.counts.held == 0


async def test_a_router_that_ends_with_no_other_there_holds_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast_serving.hold.proxy.HAND_OVER", 2.0)
    async with bench(2, others=True) as here:
        await here.engines[1].stop()
        here.name()
        await until(lambda: not here.router.engines.known)
        asked = asyncio.create_task(here.ask())
        await until(lambda: here.router.counts.held == 1)
        here.router.stop.set()
        status, body = await asyncio.wait_for(asked, 10)
        assert (status, "no other router is there" in str(body)) == (503, True)


async def test_a_router_that_ends_uses_an_engine_that_is_ready_after_all() -> None:
    async with bench(2, others=True) as here:
        await here.engines[1].stop()
        here.name()
        await until(lambda: not here.router.engines.known)
        asked = asyncio.create_task(here.ask())
        await until(lambda: here.router.counts.held == 1)
        here.router.stop.set()
        await until(lambda: here.router.engines.over)
        here.name(here.engines[0])
        status, body = await asyncio.wait_for(asked, 10)
        assert (status, body["host"]) == (200, here.engines[0].host)


async def test_a_name_without_addresses_is_told_apart_from_dns_that_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(number: int) -> set[str] | None:
        async def getaddrinfo(*_: object, **__: object) -> None:
            raise socket.gaierror(number, "said so")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        return await resolve("engines", 8000)

    assert await fails(socket.EAI_NONAME) == set()
    assert await fails(socket.EAI_AGAIN) is None


def test_a_balancer_that_may_choose_an_engine_that_left_is_passed_by() -> None:
    found = Balancer(Policy.ROUND_ROBIN, free_port(), up=True, told={"a", "b"})
    found.set_engines({"a", "b", "c"})
    assert found.serves("/v1/completions")
    found.set_engines({"a"})
    assert not found.serves("/v1/completions")


async def test_a_client_that_leaves_cuts_nothing() -> None:
    async with bench(1) as here:
        body = {"prompt": "x", "model": "m", "stream": True, "chunks": 60}
        answer = await here.session.post(f"{here.url}/v1/completions", json=body)
        await answer.content.readline()
        answer.close()
        await until(lambda: here.router.counts.in_flight == 0)
        assert here.router.counts.cut._value.get() == 0


async def test_paths_without_a_prefix_and_queries_pass() -> None:
    async with bench(1) as here, here.session.get(f"{here.url}/version?x=1") as answer:
        assert await answer.json() == {"host": here.engines[0].host}


async def test_draining_ends_listening_and_finishes_streams() -> None:
    async with bench(1) as here:
        stream = asyncio.create_task(here.stream("x", 40))
        await until(lambda: here.engines[0].answered == 1)
        here.router.stop.set()
        await until(lambda: here.router.proxy.closing)
        assert not await answers(here.session, f"{here.status_url}/readyz")
        assert len(await stream) == 41


async def test_a_client_that_gives_up_is_held_no_longer() -> None:
    async with bench(1) as here:
        here.name()
        await until(lambda: not here.router.engines.known)
        asked = asyncio.create_task(here.ask())
        await until(lambda: here.router.counts.held == 1)
        asked.cancel()
        await until(lambda: here.router.counts.held == 0)
        assert here.router.counts.in_flight == 0


async def test_idleness_counts_from_the_last_request() -> None:
    async with bench(1) as here:
        assert (await here.status())["lastRequestSecondsAgo"] is None
        await here.ask()
        await asyncio.sleep(0.3)
        idle = (await here.status())["lastRequestSecondsAgo"]
        assert isinstance(idle, float)
        assert 0.2 < idle < 5
