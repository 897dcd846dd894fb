"""An engine that already serves, by its OpenAI-compatible API: token ids in, token ids out, streamed."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp

from ballast_vamp.replay.drive import Ask, EngineError
from ballast_vamp.replay.errors import ReplayError
from ballast_vamp.replay.profiles import Profile


class LiveEngine:
    """One server. salt: keeps prefixes of one run from being hit by another, since a server's cache outlives both."""

    def __init__(self, session: aiohttp.ClientSession, url: str, model: str, salt: str) -> None:
        self._session, self._url, self._model, self._salt = session, url, model, salt

    async def ask(self, request: Ask) -> AsyncIterator[Sequence[int]]:
        body = {
            "model": self._model,
            "prompt": list(request.prompt),
            "max_tokens": request.output,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
            "cache_salt": self._salt,
            "vllm_xargs": request.recorded,
        }
        try:
            async with self._session.post(f"{self._url}/v1/completions", json=body) as answer:
                if answer.status != 200:
                    raise EngineError(f"{self._url} answered {answer.status}: {(await answer.text())[:300]}")
                async for line in answer.content:
                    if line.startswith(b"data: {"):
                        yield _token_ids(json.loads(line[6:]))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineError(f"{self._url}: {type(error).__name__}: {error}") from error

    async def metrics(self) -> str:
        try:
            async with self._session.get(f"{self._url}/metrics") as answer:
                return await answer.text() if answer.status == 200 else ""
        except (aiohttp.ClientError, TimeoutError):
            return ""  # a sample less; a server that is gone fails its requests

    async def change_profile(self, profile: Profile) -> None:
        """By an endpoint that vLLM has in its development mode only, and the worker extension of `routing`."""
        body = {"method": "replay_profile", "args": [str(profile)]}
        async with self._session.post(f"{self._url}/collective_rpc", json=body) as answer:
            if answer.status != 200:
                raise ReplayError(
                    f"{self._url} cannot change its profile ({answer.status}); start it with VLLM_SERVER_DEV_MODE=1 "
                    "and --worker-extension-cls=ballast_vamp.replay.routing.RoutingExtension"
                )


def _token_ids(event: dict[str, object]) -> list[int]:
    if "error" in event:
        raise EngineError(f"the stream ended with {event['error']}")
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices:
        return []
    found = choices[0].get("token_ids")
    if found is None:
        raise EngineError("the server returns no token ids; it needs vLLM 0.11 or newer")
    return list(found)


@asynccontextmanager
async def live_engine(url: str, salt: str) -> AsyncIterator[LiveEngine]:
    """The server at `url`, with or without /v1 behind it. Its key, if it wants one, is in OPENAI_API_KEY."""
    base, key = url.rstrip("/").removesuffix("/v1"), os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    limits = aiohttp.ClientTimeout(total=None, sock_connect=30)
    # As many connections as sessions: waiting for one would be counted as the engine's delay.
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=limits, headers=headers, connector=connector) as session:
        try:
            async with session.get(f"{base}/v1/models") as answer:
                answer.raise_for_status()
                model = (await answer.json())["data"][0]["id"]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineError(f"{base} is no server that answers: {error}") from error
        yield LiveEngine(session, base, model, salt)
