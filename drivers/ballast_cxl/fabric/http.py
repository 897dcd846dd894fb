"""One appliance's HTTP service.

A CFM holds one lock over all calls, so a blade that hangs makes every other wait: calls are short, and after a few that
got no answer the appliance is left alone for a while (a breaker), so that a reconcile fails fast and can say why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import aiohttp

from ballast_cxl.fabric.interface import Declined, Unreachable
from ballast_cxl.metrics import CALL_SECONDS
from ballast_operator.cluster.faults import CrashAfter

FAILURES = 3  # calls in a row without an answer, after which the appliance is left alone
AMBIGUOUS = (408, 429, 502, 503, 504)  # somebody between us and the service may have answered


@dataclass
class Service:
    """base: scheme, host and port. seconds: for one call. rest: seconds that a silent appliance is left alone."""

    base: str
    seconds: float
    rest: float
    credentials: tuple[str, str] | None = None
    faults: CrashAfter = field(default_factory=CrashAfter)
    _session: aiohttp.ClientSession | None = None
    _failures: int = 0
    _open_until: float = 0.0

    async def call(self, op: str, method: str, path: str, body: Any = None) -> tuple[Any, Mapping[str, str]]:
        """Answer and headers. op: what is being done, for the metric. Raises Unreachable or Declined."""
        if monotonic() < self._open_until:
            raise Unreachable(f"appliance {self.base} does not answer; it is asked again in a few seconds")
        began = monotonic()
        try:
            status, answer, headers = await self._send(method, path, body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self._failed()
            CALL_SECONDS.labels(op, "none").observe(monotonic() - began)
            raise Unreachable(f"appliance {self.base}: {method} {path}: {error or type(error).__name__}") from error
        CALL_SECONDS.labels(op, str(status)).observe(monotonic() - began)
        self._failures = 0
        if method != "GET":
            self.faults.wrote()
        if status >= 400:
            self._refuse(status, method, path, answer)
        return answer, headers

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    def _refuse(self, status: int, method: str, path: str, answer: Any) -> None:
        said = _sentence(answer)
        text = f"appliance {self.base}: {method} {path}: {status}" + (f": {said}" if said else "")
        if status >= 500 or status in AMBIGUOUS:  # it may have been carried out, or half
            raise Unreachable(text)
        raise Declined(status, text)

    async def _send(self, method: str, path: str, body: Any) -> tuple[int, Any, Mapping[str, str]]:
        if self._session is None:
            login = {"Authorization": aiohttp.encode_basic_auth(*self.credentials)} if self.credentials else {}
            timeout = aiohttp.ClientTimeout(total=self.seconds)
            self._session = aiohttp.ClientSession(headers=login, timeout=timeout, middlewares=(once,))
        async with self._session.request(method, self.base + path, json=body) as response:
            text = await response.read()
            is_json = "json" in response.headers.get("Content-Type", "")
            answer = await response.json() if is_json and text else None
            return response.status, answer, response.headers

    def _failed(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES:
            self._open_until = monotonic() + self.rest
            self._failures = 0


class Unanswered(aiohttp.ClientError):
    """The connection broke, or there was none."""


async def once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request once. The client sends a PUT or DELETE again by itself when the answer is lost, as these should be
    idempotent; here they are not, and what was done twice could not be told from what somebody else did.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise Unanswered(str(error)) from error


def _sentence(answer: Any) -> str:
    """What an error body says: CFM's `status.message`, Redfish's `error.message`."""
    if not isinstance(answer, dict):
        return ""
    for part in ("status", "error"):
        if isinstance(inner := answer.get(part), dict) and inner.get("message"):
            return str(inner["message"])
    return str(answer.get("message") or "")
