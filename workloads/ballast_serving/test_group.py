"""A group of ranks, each with the status port that its pod would have."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ballast_serving.engine import Engine
from ballast_serving.launch import Phase, Plan, Pod
from ballast_serving.message import Failure, Reason
from ballast_serving.probes import probes
from ballast_serving.test_launch import SERVER, free_port, running, until_ready

WORKER = "import time; time.sleep(600)"


def leader(*peers: int, busy: float = 0) -> Pod:
    port = free_port()
    plan = Plan("/model", "m", port=port, peers=[f"127.0.0.1:{peer}" for peer in peers], propagation=0.2)
    return Pod(plan, Engine([sys.executable, "-c", SERVER, str(port), "0", str(busy)], port))


@asynccontextmanager
async def worker(port: int, of: int = 1, drain_timeout: float = 30) -> AsyncIterator[tuple[Pod, asyncio.Task[None]]]:
    """A rank that answers at `port`; of: the status port of its leader."""
    plan = Plan("/model", "m", leader=f"127.0.0.1:{of}", propagation=0.2, drain_timeout=drain_timeout)
    made = Pod(plan, Engine([sys.executable, "-c", WORKER], 0))
    async with probes(made, port), running(made) as task:
        await until_ready(made)
        yield made, task


async def until_not_ready(made: Pod) -> None:
    async with asyncio.timeout(20):
        while made.ready:
            await asyncio.sleep(0.05)


async def test_a_leader_is_not_ready_while_a_rank_is_gone_or_going() -> None:
    port = free_port()
    made = leader(port)
    async with worker(port) as (rank, _), running(made):
        await until_ready(made)
        rank.phase = Phase.DRAINING
        await until_not_ready(made)
        rank.phase = Phase.READY
        await until_ready(made)
        rank.phase = Phase.FAILED
        await until_not_ready(made)
        assert made.alive


async def test_a_rank_that_was_started_anew_ends_the_leader() -> None:
    port = free_port()
    made = leader(port)
    async with running(made) as task:
        async with worker(port):
            await until_ready(made)
        await until_not_ready(made)
        async with worker(port):
            with pytest.raises(Failure, match=f"the rank at 127.0.0.1:{port} was started anew") as failure:
                await asyncio.wait_for(task, 20)
    assert failure.value.reason is Reason.ENGINE_FAILED


async def test_a_worker_outlasts_its_leader() -> None:
    port, of = free_port(), free_port()
    made = leader(port, busy=3)
    async with worker(port, of) as (rank, working):
        async with probes(made, of), running(made) as serving:
            await until_ready(made)
            rank.drain()
            made.drain()
            await serving
            assert not working.done(), "it ended before its leader had finished"
        await asyncio.wait_for(working, 20)


async def test_a_worker_waits_for_its_leader_no_longer_than_a_drain_takes() -> None:
    port, of = free_port(), free_port()
    made = leader(port)
    async with worker(port, of, drain_timeout=1) as (rank, working), probes(made, of), running(made):
        begun = time.monotonic()
        rank.drain()
        await asyncio.wait_for(working, 20)
        assert 1 < time.monotonic() - begun < 15


async def test_a_drain_does_not_wait_for_what_a_broken_group_cannot_finish() -> None:
    port = free_port()
    made = leader(port, busy=1000)
    async with running(made) as task:
        async with worker(port):
            await until_ready(made)
        made.drain()
        await asyncio.wait_for(task, 20)
