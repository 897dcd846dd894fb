"""A server that already runs: what is sent to it, and what is made of its answers."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ballast_vamp.replay import trace
from ballast_vamp.replay.drive import Ask, EngineError, Player
from ballast_vamp.replay.errors import ReplayError
from ballast_vamp.replay.live import live_engine
from ballast_vamp.replay.profiles import Profile
from ballast_vamp.replay.trace import Turn

TURNS = [Turn(0, 0, 0.0, 0.0, 0, 8, 3, 1), Turn(0, 1, 0.0, 0.0, 11, 4, 2, 2)]
ASK = Ask("0-0", [5, 6], 3, 1, 320)
ASKED = web.AppKey("asked", list[Any])
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def say(request: web.Request) -> web.StreamResponse:
    """As vLLM streams: a chunk for each token, usage, and an end."""
    asked = await request.json()
    request.app[ASKED].append(asked)
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    extra = asked["vllm_xargs"]
    for token in trace.answer(extra["replay_seed"], extra["replay_length"], extra["replay_vocabulary"]):
        chunk = {"choices": [{"index": 0, "text": "?", "token_ids": [token]}]}
        await answer.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await answer.write(b'data: {"choices": []}\n\ndata: [DONE]\n\n')
    return answer


@asynccontextmanager
async def server(completions: Handler = say, change: int = 200) -> AsyncIterator[tuple[str, list[Any]]]:
    """Its address, and the bodies that it was sent."""
    app = web.Application()
    app[ASKED] = []

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "tiny"}]})

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text="vllm:num_preemptions_total 0\n")

    async def rpc(request: web.Request) -> web.Response:
        app[ASKED].append(await request.json())
        return web.Response(status=change)

    app.router.add_get("/v1/models", models)
    app.router.add_get("/metrics", metrics)
    app.router.add_post("/v1/completions", completions)
    app.router.add_post("/collective_rpc", rpc)
    async with TestServer(app) as running:
        yield str(running.make_url("/v1")), app[ASKED]


async def test_token_ids_go_in_and_come_out_exactly_as_recorded() -> None:
    async with server() as (url, asked), live_engine(url, "run 0") as engine:
        played = await Player(engine, trace.sessions(TURNS), 320, 0.01).play()
    assert [said.forced for said in played.turns] == [True, True]
    first, second = asked
    assert first["prompt"] == trace.appended(TURNS[0], 320)
    assert second["prompt"][:11] == first["prompt"] + trace.answer(1, 3, 320)
    assert (first["model"], first["max_tokens"], first["ignore_eos"]) == ("tiny", 3, True)
    assert first["cache_salt"] == "run 0"
    assert played.samples[0][1] == "vllm:num_preemptions_total 0\n"


async def refuse(_: web.Request) -> web.StreamResponse:
    return web.Response(status=400, text="the prompt is too long")


async def break_off(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b'data: {"error": {"message": "EngineDeadError"}}\n\n')
    return answer


async def without_ids(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b'data: {"choices": [{"text": "a"}]}\n\n')
    return answer


@pytest.mark.parametrize(
    ("completions", "words"),
    [
        (refuse, "answered 400: the prompt is too long"),
        (break_off, "EngineDeadError"),
        (without_ids, "returns no token ids; it needs vLLM 0.11"),
    ],
)
async def test_an_answer_that_is_none_is_told(completions: Handler, words: str) -> None:
    async with server(completions) as (url, _), live_engine(url, "s") as engine:
        with pytest.raises(EngineError) as told:
            async for _ in engine.ask(ASK):
                pass
    assert words in str(told.value)


async def test_nobody_there_is_told() -> None:
    with pytest.raises(EngineError, match="is no server that answers"):
        async with live_engine("http://127.0.0.1:9", "s"):
            pass


async def test_a_server_is_asked_for_another_profile_or_says_how_it_could_be() -> None:
    async with server() as (url, asked), live_engine(url, "s") as engine:
        await engine.change_profile(Profile("next512", 3))
    assert asked == [{"method": "replay_profile", "args": ["next512#3"]}]
    async with server(change=404) as (url, _), live_engine(url, "s") as engine:
        with pytest.raises(ReplayError, match="VLLM_SERVER_DEV_MODE=1"):
            await engine.change_profile(Profile("next512"))
