"""The life of an engine pod, around a small server that answers as vLLM does."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from ballast_serving.engine import Engine, read_load
from ballast_serving.launch import Phase, Plan, Pod, check_model
from ballast_serving.message import BAD_INPUT, Failure, Reason
from ballast_serving.probes import probes

SERVER = """
print("loading weights", flush=True)
import asyncio, signal, sys, time
from aiohttp import web
port, loading, running_until = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
async def main():
    await asyncio.sleep(loading)
    begun = time.monotonic()
    async def health(_): return web.Response()
    async def metrics(_):
        running = int(time.monotonic() - begun < running_until)
        return web.Response(text=f'vllm:num_requests_running{{engine="0"}} {running}.0\\nvllm:num_requests_waiting{{engine="0"}} 0.0\\n')
    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
asyncio.run(main())
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def pod(script: str, *arguments: str, **times: float) -> Pod:
    port = free_port()
    plan = Plan("/model", "m", port=port, **{"propagation": 0.2, "drain_timeout": 10.0, **times})  # type: ignore[arg-type]
    return Pod(plan, Engine([sys.executable, "-c", script, str(port), *arguments], port))


@asynccontextmanager
async def running(made: Pod) -> AsyncIterator[asyncio.Task[None]]:
    await made.engine.start()
    task = asyncio.create_task(made.run())
    try:
        yield task
    finally:
        made.drain()
        await asyncio.gather(task, return_exceptions=True)


async def until_ready(made: Pod) -> None:
    async with asyncio.timeout(20):
        while not made.ready:
            await asyncio.sleep(0.05)


async def test_a_pod_is_alive_while_it_loads_and_ready_only_afterwards() -> None:
    made = pod(SERVER, "1", "0")
    async with running(made):
        assert made.alive
        assert not made.ready
        assert not made.loaded
        await until_ready(made)
        assert made.load_seconds is not None
        assert made.load_seconds >= 1


async def test_a_drain_waits_for_the_last_request_and_ends_well() -> None:
    made = pod(SERVER, "0", "6", drain_timeout=30.0)
    async with running(made) as task:
        await until_ready(made)
        begun = time.monotonic()
        made.drain()
        await asyncio.sleep(0.1)
        assert made.phase is Phase.DRAINING
        assert not made.ready
        await task
        assert 2 < time.monotonic() - begun < 20


async def test_a_drain_never_outlasts_its_timeout() -> None:
    made = pod(SERVER, "0", "1000", drain_timeout=1.0)
    async with running(made) as task:
        await until_ready(made)
        begun = time.monotonic()
        made.drain()
        await task
        assert time.monotonic() - begun < 8


async def test_a_pod_told_to_end_while_it_loads_ends_at_once() -> None:
    made = pod(SERVER, "100", "0")
    async with running(made) as task:
        await asyncio.sleep(0.5)
        made.drain()
        await asyncio.wait_for(task, 8)


async def test_a_model_that_never_loads_is_told_with_the_limit() -> None:
    made = pod(SERVER, "100", "0", startup_timeout=3.0)
    async with running(made) as task:
        with pytest.raises(Failure, match=r"not loaded within 3 s.*loading weights") as failure:
            await task
        assert failure.value.reason is Reason.STARTUP_TIMEOUT


async def test_an_engine_that_dies_takes_the_pod_with_it_and_says_why() -> None:
    script = "import sys; print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'); sys.exit(1)"
    made = pod(script)
    async with running(made) as task:
        with pytest.raises(Failure, match="CUDA out of memory") as failure:
            await task
    assert failure.value.reason is Reason.OUT_OF_MEMORY
    assert failure.value.exit_code == 1


async def test_an_engine_that_hangs_is_ended_by_its_liveness_probe_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast_serving.launch.UNWELL", 1.0)
    monkeypatch.setattr("ballast_serving.launch.LAST_GRACE", 0.5)
    made = pod(SERVER, "0", "0", drain_timeout=0.5)
    async with running(made) as task:
        await until_ready(made)
        assert made.engine.process is not None
        made.engine.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(15):
            while made.alive:
                await asyncio.sleep(0.1)
        made.drain()
        with pytest.raises(Failure, match="did not answer /health") as failure:
            await task
    assert failure.value.reason is Reason.ENGINE_FAILED


async def test_children_of_a_dead_engine_do_not_live_on() -> None:
    script = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); sys.exit(3)"
    made = pod(script)
    async with running(made) as task:
        with pytest.raises(Failure):
            await task
    child = int(made.engine.last_words[0])
    for _ in range(50):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the child lives")


async def test_a_leader_is_ready_only_while_every_rank_lives() -> None:
    made = pod(SERVER, "0", "0")
    made.plan = Plan("/model", "m", port=made.plan.port, peers=[f"127.0.0.1:{free_port()}"], propagation=0.1)
    async with running(made):
        async with asyncio.timeout(20):
            while not made.loaded:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        assert not made.ready


async def test_probes_tell_loading_from_ready_and_status_says_what() -> None:
    made, port = pod(SERVER, "0", "0"), free_port()
    async with probes(made, port), aiohttp.ClientSession() as session:
        assert await codes(session, port) == [503, 503, 200]
        async with running(made):
            await until_ready(made)
            assert await codes(session, port) == [200, 200, 200]
            async with session.get(f"http://127.0.0.1:{port}/status") as answer:
                status = await answer.json()
            assert status["phase"] == "Ready"
            assert status["running"] == 0
            made.drain()
            await asyncio.sleep(0.1)
            assert await codes(session, port) == [200, 503, 200]


async def codes(session: aiohttp.ClientSession, port: int) -> list[int]:
    found = []
    for probe in ("startupz", "readyz", "livez"):
        async with session.get(f"http://127.0.0.1:{port}/{probe}") as answer:
            found.append(answer.status)
    return found


def test_a_folder_without_a_model_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").touch()
    with pytest.raises(Failure, match=r"no config.json \(it holds weights.bin\)") as failure:
        check_model(str(tmp_path))
    assert failure.value.exit_code == BAD_INPUT
    with pytest.raises(Failure, match="does not exist on the volume"):
        check_model(str(tmp_path / "missing"))


def test_the_flags_of_the_pod_itself_come_last() -> None:
    command = Plan("/model", "m", flags=["--max-model-len=4096"], revision="r1").command()
    assert command[3:6] == ["serve", "/model", "--max-model-len=4096"]
    assert command[7:10] == ["--served-model-name=m", "--host=0.0.0.0", "--port=8000"]
    assert command[-1] == "--shutdown-timeout=1"
    assert "--headless" in Plan("/model", "m", leader="engine-0:8080").command()


def test_load_is_summed_over_the_engines_of_a_group() -> None:
    page = 'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 3.0\n'
    load = read_load(page + 'vllm:num_requests_waiting{engine="0"} 4.0\nother 9\n')
    assert (load.running, load.waiting, load.idle) == (5, 4, False)


@pytest.mark.parametrize("page", ["", "Internal Server Error", 'vllm:num_requests_running{engine="0"} 2.0\n'])
def test_a_page_of_anything_else_is_not_taken_for_an_idle_engine(page: str) -> None:
    with pytest.raises(ValueError):
        read_load(page)


BROKEN = SERVER.replace(
    "metrics(_):", "metrics(_):\n        return web.Response(status=500, text='Internal Server Error')"
)


async def test_an_engine_whose_metrics_fail_serves_on() -> None:
    made = pod(BROKEN, "0", "0")
    async with running(made) as task:
        await until_ready(made)
        await asyncio.sleep(1.5)
        assert made.ready
        assert not task.done()


async def test_the_engines_metrics_are_on_the_status_port_too() -> None:
    made, port = pod(SERVER, "0", "0"), free_port()
    async with probes(made, port), aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/metrics") as page:
            assert page.status == 503
        async with running(made):
            await until_ready(made)
            async with session.get(f"http://127.0.0.1:{port}/metrics") as page:
                assert page.status == 200
                assert "vllm:num_requests_running" in await page.text()
