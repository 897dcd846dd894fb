"""The host, for asynchronous callers: one operation at a time on the node, from whichever plugin.

Host operations take up to seconds and cannot be cut short, so they run in threads; a call of kubelet that gives up
leaves them running, and the next call finds their work done.
"""

import asyncio
import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ballast_cxl.host import Device, Host, Slot

T = TypeVar("T")


class Devices:
    """folder: of the plugin, where the lock is."""

    def __init__(self, host: Host, folder: Path) -> None:
        self._host, self._lock = host, folder / "host.lock"

    async def up(self, slot: Slot) -> Device:
        return await asyncio.to_thread(self._alone, lambda: self._host.attach(slot))

    async def down(self, slot: Slot) -> None:
        await asyncio.to_thread(self._alone, lambda: self._host.detach(slot))

    async def find(self, slot: Slot) -> Device | None:
        return await asyncio.to_thread(self._host.find, slot)

    async def check(self) -> None:
        await asyncio.to_thread(self._host.check)

    def _alone(self, work: Callable[[], T]) -> T:
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return work()
