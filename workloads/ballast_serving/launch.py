"""The life of an engine pod: loading, ready, draining, gone.

Kubernetes takes a pod out of its endpoints at the moment it sends SIGTERM, but those who balance the load learn of it
later, and vLLM cuts its streams when it is told to end. So SIGTERM comes here: the pod says at once that it is not
ready, waits until nobody sends it anything new, lets what runs finish, and only then ends vLLM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from uuid import uuid4

import aiohttp

from ballast_serving import failures, profile
from ballast_serving.engine import Engine, Load
from ballast_serving.group import Group, Ranks, outlast
from ballast_serving.message import Failure, Reason

LOOK_EVERY = 0.5  # seconds between looks at the engine
UNWELL = 30.0  # seconds without a sign of health after which the pod is not alive
IDLE_LOOKS = 2  # in a row: the last bytes of a stream leave after the engine has counted it out
LAST_GRACE = 10.0  # seconds that an idle engine gets to end


class Phase(StrEnum):
    """Where the pod is in its life."""

    LOADING = "Loading"
    READY = "Ready"
    DRAINING = "Draining"
    FAILED = "Failed"


@dataclass(frozen=True)
class Plan:
    """What to serve and how long things may take. Times in seconds."""

    model: str
    served_name: str
    port: int = 8000
    revision: str = ""
    flags: Sequence[str] = ()
    leader: str = ""  # status port of the leader, if this is another rank of its group
    peers: Sequence[str] = ()  # status ports of the other ranks, if this is the leader of a group
    startup_timeout: float = 900
    drain_timeout: float = 120
    propagation: float = 5

    @property
    def follower(self) -> bool:
        """Whether it computes for a leader, and has no API of its own."""
        return bool(self.leader)

    def command(self) -> list[str]:
        """vLLM's own command. Our flags come last: those who wrote the others cannot undo them."""
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", self.model, *self.flags]
        if self.revision:
            command.append(f"--revision={self.revision}")
        if self.follower:
            return [*command, "--headless"]
        return [
            *command,
            f"--served-model-name={self.served_name}",
            "--host=0.0.0.0",
            f"--port={self.port}",
            "--disable-access-log-for-endpoints=/health,/metrics",  # asked twice a second
            # It may still have work when the deadline comes; then it gets no longer.
            "--shutdown-timeout=1",
        ]


@dataclass
class Pod:
    """The pod's state, which the probes tell and `run` changes."""

    plan: Plan
    engine: Engine
    phase: Phase = Phase.LOADING
    started: float = field(default_factory=time.monotonic)
    load_seconds: float | None = None
    last_healthy: float = 0.0
    load: Load | None = None
    group: Group = Group.WHOLE
    failure: Failure | None = None
    incarnation: str = field(default_factory=lambda: uuid4().hex)  # another one after each start
    _drain: asyncio.Event = field(default_factory=asyncio.Event)

    @cached_property
    def _ranks(self) -> Ranks:
        return Ranks(self.plan.peers)

    @property
    def loaded(self) -> bool:
        return self.load_seconds is not None

    @property
    def ready(self) -> bool:
        """Fit for new requests: loaded, healthy just now with all its ranks, and not on its way out."""
        return self.phase is Phase.READY and self.group is Group.WHOLE and time.monotonic() - self.last_healthy < 5

    @property
    def alive(self) -> bool:
        """Worth keeping: loading within its time, or seen healthy not long ago."""
        if self.phase is Phase.FAILED:
            return False
        return not self.loaded or time.monotonic() - self.last_healthy < UNWELL

    def drain(self) -> None:
        """Start the way out. Called once or often, from a signal handler."""
        self._drain.set()

    async def run(self) -> None:
        """Serve until told to drain; returns when drained. Raises Failure when the engine ended by itself, or was ended
        since it answered no more: the kubelet's liveness probe tells a pod to end in the same way as a drain."""
        ended = asyncio.create_task(self.engine.wait())
        draining = asyncio.create_task(self._drain.wait())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait([ended, draining, watching], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise failures.explain(list(self.engine.last_words), ended.result())
            if draining.done():
                hung = not self.alive
                await self._drained(ended)
                if hung:
                    raise Failure(
                        Reason.ENGINE_FAILED, f"vllm did not answer /health for {UNWELL:.0f} s or more, and was ended"
                    )
                return
            await watching  # its time to start is up
        finally:
            watching.cancel()
            draining.cancel()
            if not ended.done():
                await self.engine.stop(LAST_GRACE)
                await ended

    async def _watch(self) -> None:
        """Look at the engine again and again. Ends only by raising StartupTimeout."""
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self._look(session)
                if not self.loaded and time.monotonic() - self.started > self.plan.startup_timeout:
                    limit = f"{self.plan.startup_timeout:.0f} s"
                    said = next((line for line in reversed(self.engine.last_words) if line.strip()), "nothing yet")
                    raise Failure(
                        Reason.STARTUP_TIMEOUT,
                        f"the model was not loaded within {limit} (spec.startup.timeoutSeconds); "
                        f"vllm's last line: {said[:300]}",
                    )
                await asyncio.sleep(LOOK_EVERY)

    async def _look(self, session: aiohttp.ClientSession) -> None:
        if self.plan.follower:
            healthy = True  # it has no HTTP of its own: it is well while it runs
        else:
            healthy = await self.engine.healthy(session)
            if healthy:
                self.load = await self.engine.load(session)
        if not healthy:
            return
        self.group = await self._ranks.look(session)
        if self.group is Group.REPLACED:
            who = f"the rank at {self._ranks.suspect}"
            raise Failure(
                Reason.ENGINE_FAILED, f"{who} was started anew and cannot join those that run; all of them start again"
            )
        self.last_healthy = time.monotonic()
        if not self.loaded:
            self.load_seconds = self.last_healthy - self.started
            self.phase = Phase.READY

    async def _drained(self, ended: asyncio.Task[int]) -> None:
        deadline = time.monotonic() + self.plan.propagation + self.plan.drain_timeout
        loaded, self.phase = self.loaded, Phase.DRAINING
        if self.plan.follower:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
                await outlast(session, self.plan.leader, deadline)
        elif loaded:
            await asyncio.wait([ended], timeout=self.plan.propagation)
            idle = 0
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
                while not ended.done() and time.monotonic() < deadline and idle < IDLE_LOOKS:
                    self.load = await self.engine.load(session)
                    done = self.load is not None and self.load.idle
                    # Without one of its ranks it never finishes anything.
                    idle = idle + 1 if done or not (await self._ranks.look(session)).works else 0
                    await asyncio.wait([ended], timeout=LOOK_EVERY)
        if not ended.done():
            await self.engine.stop(LAST_GRACE)
        await ended


def check_model(model: str) -> None:
    """Refuse a model folder that holds none, before half a minute of imports. Raises Failure."""
    if not model.startswith("/"):
        return
    folder = Path(model)
    if not folder.is_dir():
        raise Failure(Reason.MODEL_NOT_FOUND, f"model folder {model} does not exist on the volume; mend spec.model")
    if not (folder / "config.json").exists() and not (folder / "params.json").exists():
        held = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
        raise Failure(
            Reason.MODEL_NOT_FOUND, f"model folder {model} has no config.json (it holds {held}); mend spec.model"
        )


async def serve(plan: Plan, status_port: int) -> None:
    """Run an engine pod to its end. Raises Failure when that end is not a drain."""
    from ballast_serving.probes import probes

    pod = Pod(plan, Engine(plan.command(), plan.port))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, pod.drain)
    async with probes(pod, status_port):
        check_model(plan.model)
        profile.begin(os.environ)
        await pod.engine.start()
        try:
            await pod.run()
        except Failure as failure:
            pod.phase, pod.failure = Phase.FAILED, failure
            raise
