"""One process on the core: lists, watches, workers, probes, and the Lease that says it may write."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from itertools import chain, repeat
from time import monotonic
from typing import Any, Protocol

import aiohttp

from ballast_operator import app, logs
from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError, ChildConflict
from ballast_operator.cluster.lease import Lease
from ballast_operator.cluster.optional import served_soon, until_changed
from ballast_operator.cluster.resync import resync
from ballast_operator.health import Health, serve
from ballast_operator.kind import Kind
from ballast_operator.metrics import LEADER, RECONCILE_SECONDS
from ballast_operator.objects import Key
from ballast_operator.queue import LONGEST_BACKOFF, Queue
from ballast_operator.reconciler import Reconciler, explain
from ballast_operator.resources import Resource
from ballast_operator.settings import Settings
from ballast_operator.watched import Watched, of_kinds

log = logging.getLogger(__name__)

EXIT_LOST = 70
PATIENCE_SECONDS = 2
SETTLING_SECONDS = (5.0, 25.0)  # what went between the first list and the watches' own is told by no watch
REFUSED_BACKOFF = 30.0  # seconds: nothing tells us that a quota was raised, and autoscalers must go on meanwhile

MakeKinds = Callable[[Settings, Collection[Resource]], Mapping[str, Kind[Any]]]


class Core(Protocol):
    """What looks after objects."""

    @property
    def cache(self) -> Cache: ...

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object right; seconds after which to look again, or None. Raises what a later try may cure."""


class Running(Protocol):
    """What an installation decides about a process; `Settings` says what each means."""

    @property
    def namespaces(self) -> tuple[str, ...]: ...
    @property
    def lease_name(self) -> str: ...
    @property
    def lease_namespace(self) -> str: ...
    @property
    def workers(self) -> int: ...
    @property
    def resync_seconds(self) -> int: ...
    @property
    def stall_seconds(self) -> int: ...
    @property
    def metrics_port(self) -> int: ...
    @property
    def health_port(self) -> int: ...


Background = Callable[[], Coroutine[Any, Any, None]]


class Process:
    """Looks after what is watched until it is told to stop or loses the Lease.

    background: what else only one process may do, for ever, beside the workers.
    """

    def __init__(
        self,
        core: Core,
        watched: Sequence[Watched],
        settings: Running,
        client: Client,
        queue: Queue[Key] | None = None,
        background: Sequence[Background] = (),
    ) -> None:
        self.core = core
        self.watched = watched
        self.settings = settings
        self.client = client
        self.queue: Queue[Key] = Queue() if queue is None else queue  # an empty one is false
        self.background = background
        self.health = Health(self.queue, settings.stall_seconds)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Finish what is being worked on, and end."""
        self._stop.set()

    async def run(self) -> None:
        """Serve probes, wait for the Lease if there is one, then work."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        await serve(self.health, self.settings.health_port, self.settings.metrics_port)
        self.health.ready = True  # a standby is ready too: it can take over at once
        lease = Lease(self.client, self.settings.lease_namespace, self.settings.lease_name)
        working = asyncio.create_task(self._lead(lease) if self.settings.lease_name else self._work())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            working.result()  # raises what ended the work
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        if self.settings.lease_name:
            await lease.release()

    async def _lead(self, lease: Lease) -> None:
        """Work while holding the Lease; the process ends in the moment that it is lost."""
        await lease.acquire()
        work = asyncio.create_task(self._work())
        await asyncio.wait({work, keep := asyncio.create_task(lease.keep())}, return_when=asyncio.FIRST_COMPLETED)
        if keep.done():
            os._exit(EXIT_LOST)
        keep.cancel()
        work.result()

    async def _work(self) -> None:
        """Everything that only one process may do. Raises what a part of it raised: restarting is cheap."""
        LEADER.set(1)
        await self._list_until_it_works()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.settings.workers):
                tasks.create_task(self._worker())
            tasks.create_task(self._resync())
            tasks.create_task(self._watch())
            for task in self.background:
                tasks.create_task(task())

    async def _list_until_it_works(self) -> None:
        """The cache must be whole before the first decision. Waits for CRDs and for an API server that is away."""
        while True:
            try:
                await self._list()
                return
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                hint = "; are the CRDs installed?" if isinstance(error, ApiError) and error.not_found else ""
                log.warning("cannot list yet: %s%s", error, hint)
                await asyncio.sleep(PATIENCE_SECONDS)

    async def _list(self) -> None:
        for key in await resync(self.client, self.core.cache, self.watched, self.settings.namespaces):
            self.queue.add(key)

    async def _resync(self) -> None:
        for pause in chain(SETTLING_SECONDS, repeat(self.settings.resync_seconds)):
            await asyncio.sleep(pause)
            try:
                await self._list()
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                log.warning("resync put off: %s", error)

    async def _watch(self) -> None:
        await app.watch(self.watched, self.core.cache, self.queue, self.health, self.settings.namespaces, self._stop)
        self._stop.set()  # kopf took over the signals: that it returned means that one came

    async def _worker(self) -> None:
        while True:
            key = await self.queue.get()
            logs.current.set(key)
            started = monotonic()
            try:
                again = await self.core.reconcile(key)
            except Exception as error:
                pause = self.queue.failed(key, REFUSED_BACKOFF if explain(error) else LONGEST_BACKOFF)
                level = logging.WARNING if isinstance(error, _EXPECTED) else logging.ERROR
                log.log(level, "will try again in %.1f s: %s", pause, error, exc_info=level == logging.ERROR)
                outcome = "failed"
            else:
                self.queue.done(key)
                outcome = "done"
                if again is not None:
                    self.queue.add_after(key, again)
            RECONCILE_SECONDS.labels(key.kind, outcome).observe(monotonic() - started)


_EXPECTED = (ApiError, ChildConflict, aiohttp.ClientError, TimeoutError, OSError)


async def run(make: MakeKinds, settings: Settings) -> bool:
    """Connect and run; whether to start anew, since kinds of other projects came or went: watches are set up once.

    Raises NoCredentials without credentials.
    """
    client = await Client.connect()
    present = await served_soon(client)
    kinds = make(settings, present)
    core = Reconciler(kinds, client, Cache())
    process = Process(core, of_kinds(kinds), settings, client)
    looking = asyncio.create_task(until_changed(client, present))
    looking.add_done_callback(lambda _: process.stop())
    try:
        await process.run()
        if looking.done():
            looking.result()  # raises what it ended by, if that was no change
        return looking.done()
    finally:
        looking.cancel()
        await core.prober.close()
        await client.close()
