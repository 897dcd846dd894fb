"""Ask our own pods how far they are, at their HTTP status port."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import aiohttp

from ballast_operator.kind import Probe

PATIENCE_SECONDS = 1.5


@dataclass
class Prober:
    """Fetches small documents from pods, each not more often than every `period` seconds.

    A pod that does not answer is not an error: it may be starting, or be out of reach by a network policy.
    """

    _session: aiohttp.ClientSession | None = None
    _last: dict[str, tuple[float, Any]] = field(default_factory=dict)

    async def fetch_all(self, probes: Sequence[Probe]) -> Mapping[str, Any]:
        """Answers by URL, asked for at the same time; None for a pod that did not answer."""
        answers = await asyncio.gather(*(self.fetch(probe) for probe in probes))
        return {probe.url: answer for probe, answer in zip(probes, answers, strict=True)}

    async def fetch(self, probe: Probe) -> Any | None:
        """The answer as `probe.read` understands it, at most `probe.period` seconds old, or None."""
        now, url = monotonic(), probe.url
        when, answer = self._last.get(url, (float("-inf"), None))
        if now - when < probe.period:
            return answer
        if len(self._last) > 5_000:
            self._last = {known: seen for known, seen in self._last.items() if now - seen[0] < 60}
        answer = await self._ask(probe)
        self._last[url] = (monotonic(), answer)
        return answer

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def _ask(self, probe: Probe) -> Any | None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS))
        try:
            async with self._session.get(probe.url) as response:
                if response.status != 200:
                    return None
                return probe.read(await _at_most(response.content, probe.largest))
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None


async def _at_most(content: aiohttp.StreamReader, limit: int) -> bytes:
    """The whole body. ValueError for one that is longer than expected of a pod of ours."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > limit:
            raise ValueError(f"answer of more than {limit} bytes")
    return bytes(body)
