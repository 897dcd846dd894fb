"""The vLLM process: started in a session of its own, its words passed on and the last of them kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

KEPT = 400  # lines of output kept for the explanation of a failure
_COUNTED = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@dataclass(frozen=True)
class Load:
    """Requests an engine has: in its batch, and waiting for a place in it."""

    running: int
    waiting: int

    @property
    def idle(self) -> bool:
        return self.running + self.waiting == 0


@dataclass
class Engine:
    """One vLLM server on this machine. `command` is what is run; `port` where its HTTP API answers."""

    command: Sequence[str]
    port: int
    last_words: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))
    process: asyncio.subprocess.Process | None = None
    _reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # the whole family can be ended at once
            limit=1 << 20,
        )
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        while True:
            try:
                line = await self.process.stdout.readline()
            except ValueError:  # a line longer than the limit: a progress bar without an end
                continue
            if not line:
                return
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            self.last_words.append(line.decode(errors="replace").rstrip())

    async def wait(self) -> int:
        """Its exit status, once all it said was read. Children it left behind are ended."""
        status = await self._ended()
        self._signal(signal.SIGKILL)
        if self._reader is not None:
            await asyncio.wait([self._reader], timeout=5)
        return status

    async def _ended(self) -> int:
        """Its exit status. asyncio's own wait also waits for children that hold its output, which may live on."""
        assert self.process is not None
        while self.process.returncode is None:
            await asyncio.sleep(0.05)
        return self.process.returncode

    async def stop(self, grace: float) -> None:
        """End it: politely, and after `grace` seconds for certain."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            await asyncio.wait_for(self._ended(), grace)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._ended()

    def _signal(self, number: int) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    async def healthy(self, session: aiohttp.ClientSession) -> bool:
        """Whether vLLM says that it and all its ranks are alive; it refuses connections until the model is loaded."""
        try:
            async with session.get(f"http://127.0.0.1:{self.port}/health") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def load(self, session: aiohttp.ClientSession) -> Load | None:
        """What it is busy with, from its own metrics; None where it does not answer, or with something else."""
        try:
            async with session.get(f"http://127.0.0.1:{self.port}/metrics") as answer:
                return read_load(await answer.text()) if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None


def read_load(text: str) -> Load:
    """Requests running and waiting, summed over engines of a data-parallel group, from a Prometheus page. ValueError
    for a page of anything else: an engine that says nothing is not idle."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in _COUNTED:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    if len(sums) < len(_COUNTED):
        raise ValueError("no metrics of an engine")
    return Load(*(int(sums[name]) for name in _COUNTED))
