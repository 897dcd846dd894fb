"""One read for all who wait for the same thing at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A read that several may share.

    What is under way when somebody asks may have been answered before the change that he wants to see. So he gets the
    next one, which begins after he asked; everybody who asks until it begins gets the same.
    """

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._next: asyncio.Task[T] | None = None
        self._running: asyncio.Task[T] | None = None

    async def now(self) -> T:
        """What is so after this call. Raises what the read raises, to all who share it."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_seen)
        return await asyncio.shield(self._next)  # one who gives up does not take it from the others

    async def lately(self) -> T:
        """As `now`, but what is under way will do."""
        if self._running and not self._running.done():
            return await asyncio.shield(self._running)
        return await self.now()

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before:
            await asyncio.wait({before})
        self._running, self._next = self._next, None
        return await self._read()


def _seen(task: "asyncio.Task[T]") -> None:
    """An error that nobody waits for any more is no error."""
    if not task.cancelled():
        task.exception()
