"""Ask one of our own pods how far it is, at its HTTP status port."""

import json
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import aiohttp

PATIENCE_SECONDS = 1.5
LARGEST_ANSWER = 65536


@dataclass
class Prober:
    """Fetches small JSON documents from pods, each not more often than every `period` seconds.

    A pod that does not answer is not an error: it may be starting, or be out of reach by a network policy.
    """

    _session: aiohttp.ClientSession | None = None
    _last: dict[str, tuple[float, Any]] = field(default_factory=dict)

    async def fetch(self, url: str, period: float) -> Any | None:
        """The parsed answer, at most `period` seconds old, or None."""
        now = monotonic()
        when, answer = self._last.get(url, (float("-inf"), None))
        if now - when < period:
            return answer
        if len(self._last) > 5_000:
            self._last = {known: seen for known, seen in self._last.items() if now - seen[0] < 60}
        answer = await self._ask(url)
        self._last[url] = (monotonic(), answer)
        return answer

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def _ask(self, url: str) -> Any | None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS))
        try:
            async with self._session.get(url) as response:
                if response.status != 200:
                    return None
                return json.loads(await response.content.read(LARGEST_ANSWER))
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None
