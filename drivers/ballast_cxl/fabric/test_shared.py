"""Whoever shares a read is told nothing that was so before he asked."""

import asyncio
import random

import pytest

from ballast_cxl.fabric.shared import Shared


class Appliance:
    """A number that only grows, and reads of it that take their time."""

    def __init__(self, seed: int) -> None:
        self.rng, self.value, self.reads = random.Random(seed), 0, 0
        self.broken = False

    async def read(self) -> int:
        self.reads += 1
        await self.pause()
        found = self.value  # any time between question and answer
        await self.pause()
        if self.broken:
            raise OSError("no answer")
        return found

    async def pause(self) -> None:
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(20))
async def test_nobody_is_told_what_was_so_before_he_asked(seed: int) -> None:
    appliance = Appliance(seed)
    shared = Shared(appliance.read)
    asked = 0

    async def operate() -> None:
        nonlocal asked
        for _ in range(10):
            await appliance.pause()
            appliance.value += 1
            mine = appliance.value
            asked += 1
            assert await shared.now() >= mine

    await asyncio.gather(*(operate() for _ in range(8)))
    assert appliance.reads < asked / 2, "hardly anybody shared"


async def test_those_who_ask_before_it_begins_share_one() -> None:
    appliance = Appliance(0)
    shared = Shared(appliance.read)
    assert await asyncio.gather(*(shared.now() for _ in range(5))) == [0] * 5
    assert appliance.reads == 1
    await shared.now()
    assert appliance.reads == 2, "what is over is not told again"


async def test_what_is_under_way_will_do_for_what_was_so_lately() -> None:
    begun, over = asyncio.Event(), asyncio.Event()
    reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        begun.set()
        await over.wait()
        return reads

    shared = Shared(read)
    first = asyncio.create_task(shared.now())
    await begun.wait()
    others = [asyncio.create_task(shared.lately()), asyncio.create_task(shared.now())]
    await asyncio.sleep(0)
    over.set()
    assert await asyncio.gather(first, *others) == [1, 1, 2]


async def test_an_error_is_told_to_all_who_share_it_and_to_nobody_else() -> None:
    appliance = Appliance(0)
    shared = Shared(appliance.read)
    appliance.broken = True
    found = await asyncio.gather(*(shared.now() for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in found] == [OSError] * 3
    appliance.broken = False
    assert await shared.now() == 0


async def test_one_who_gives_up_does_not_take_it_from_the_others() -> None:
    appliance = Appliance(0)
    shared = Shared(appliance.read)
    first, second = asyncio.create_task(shared.now()), asyncio.create_task(shared.now())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == 0
    assert appliance.reads == 1
