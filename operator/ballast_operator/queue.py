"""A queue of keys: each waits at most once, and never two workers hold the same one.

A key that is added while a worker holds it is handed out again afterwards, so no change is lost and none is handled
twice at once. Failures wait exponentially longer, with jitter, and are forgotten at the first success. Periodic needs
(a deadline, a poll) are the same queue with a delay, so there are no timers anywhere else.
"""

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 300.0


class Queue(Generic[K]):
    """Keys waiting for a worker. Not thread-safe: one event loop owns it.

    clock: seconds that never go back; replaced in tests.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waiting: dict[K, float] = {}  # insertion order is the order of service; the value is since when
        self._held: dict[K, float] = {}
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._alarms: list[tuple[float, int, K]] = []
        self._serial = itertools.count()
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Ask for `key` to be handled as soon as a worker is free."""
        if key in self._held:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = self._clock()
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for `key` at a later time. The latest wish for a key replaces the one before."""
        self._ring()  # a wish whose time has come is not replaced by a later one
        due = self._clock() + max(0.0, seconds)
        self._due[key] = due
        heapq.heappush(self._alarms, (due, next(self._serial), key))
        self._wake.set()

    def cancel(self, key: K) -> None:
        """Forget the later time and the failures of a key whose object is gone."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The key that waited longest; waits until there is one. The caller must call `done` or `failed` for it."""
        while True:
            pause = self._ring()
            if self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                self._held[key] = self._clock()
                return key
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), timeout=pause)
            except TimeoutError:
                continue

    def done(self, key: K) -> None:
        """The key was handled well."""
        self._failures.pop(key, None)
        self._release(key)

    def failed(self, key: K, longest: float = LONGEST_BACKOFF) -> float:
        """The key could not be handled: it comes back after a growing pause, whose seconds are returned.

        longest: seconds that the pause grows to.
        """
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        pause: float = min(longest, FIRST_BACKOFF * 2 ** min(count, 20)) * random.uniform(0.8, 1.2)
        self._release(key)
        self.add_after(key, pause)
        return pause

    def oldest_wait(self) -> float:
        """Seconds that the first key in line has waited; 0 with nobody in line."""
        since = next(iter(self._waiting.values()), None)
        return 0.0 if since is None else self._clock() - since

    def longest_hold(self) -> float:
        """Seconds that a worker has held a key; 0 with all workers free."""
        since = min(self._held.values(), default=None)
        return 0.0 if since is None else self._clock() - since

    def _release(self, key: K) -> None:
        self._ring()
        self._held.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _ring(self) -> float | None:
        """Move keys whose time has come in line; seconds until the next one, or None."""
        now = self._clock()
        while self._alarms:
            due, _, key = self._alarms[0]
            if self._due.get(key) != due:  # replaced by a later wish
                heapq.heappop(self._alarms)
                continue
            if due > now:
                return due - now
            heapq.heappop(self._alarms)
            del self._due[key]
            self.add(key)
        return None
