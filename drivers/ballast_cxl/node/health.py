"""How the devices that pods have are doing, for kubelet: the whole list, at every change and before it grows old."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

REPEAT_SECONDS = 10.0
"""Kubelet forgets what it was told after 30 seconds."""


@dataclass(frozen=True)
class DeviceHealth:
    """One device of one claim. trouble: what is wrong with it, empty if nothing is."""

    pool: str
    device: str
    trouble: str = ""


@dataclass
class Health:
    """The present list, and who waits for the next."""

    _devices: frozenset[DeviceHealth] = frozenset()
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, devices: set[DeviceHealth]) -> None:
        """Replace the list."""
        if frozenset(devices) != self._devices:
            self._devices = frozenset(devices)
            self._changed.set()
            self._changed = asyncio.Event()

    async def follow(self, repeat: float = REPEAT_SECONDS) -> AsyncIterator[tuple[int, list[DeviceHealth]]]:
        """The list now, at each change, and every `repeat` seconds, with the time (Unix, seconds) it was true at."""
        while True:
            changed = self._changed
            yield int(time.time()), sorted(self._devices, key=lambda d: (d.pool, d.device))
            with suppress(TimeoutError):
                async with asyncio.timeout(repeat):
                    await changed.wait()
