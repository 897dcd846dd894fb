"""The emulated appliance over HTTP, asked by the clients that the controller uses; each trap, and how it is survived."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from ballast_cxl.emulator.appliance import Appliance
from ballast_cxl.emulator.backends import Qemu, Shm, Slot
from ballast_cxl.emulator.faults import Fault, Faults
from ballast_cxl.emulator.judge import judge
from ballast_cxl.emulator.layout import BladeLayout, Quirks
from ballast_cxl.emulator.service import application
from ballast_cxl.emulator.state import read
from ballast_cxl.fabric.cfm import Cfm
from ballast_cxl.fabric.http import Service
from ballast_cxl.fabric.interface import Declined, Fabric, Link, Unreachable, link_of, made_of
from ballast_cxl.fabric.redfish import Hardware, Redfish

MIB = 1 << 20
LAYOUT = BladeLayout.parse("b0=2x8x1,ports=4")
CMA = Quirks.parse("cma")
Start = Callable[..., Awaitable["Running"]]


class Running:
    """One emulator, and clients of both kinds."""

    def __init__(self, root: Path, appliance: Appliance, base: str, credentials: tuple[str, str] | None) -> None:
        self.root, self.appliance, self.base = root, appliance, base
        self.services = [Service(base, 2.0, 0.5, credentials) for _ in range(2)]
        self.redfish = Redfish(self.services[0], "b0", Hardware(self.services[0]))
        self.cfm = Cfm(self.services[1], "a0", "b0", self.redfish)

    def blocks(self, *rows: int) -> list[str]:
        return [name for name, (_, row) in LAYOUT.block_names().items() if row in rows]

    async def composed(self, fabric: Fabric, *rows: int) -> str:
        await fabric.compose(self.blocks(*rows))
        found = made_of(await fabric.memories(), self.blocks(*rows))
        assert found
        return found.id


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    runners, started = [], []

    async def make(quirks: Quirks = CMA, credentials: tuple[str, str] | None = None) -> Running:
        appliance = Appliance("a0", tmp_path, [LAYOUT], quirks, Shm(tmp_path), Faults())
        await appliance.settle()
        runner = web.AppRunner(application(appliance, ("me", "pw") if credentials else None), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        runners.append(runner)
        started.append(Running(tmp_path, appliance, f"http://127.0.0.1:{runner.addresses[0][1]}", credentials))
        return started[-1]

    yield make
    for running in started:
        for service in running.services:
            await service.close()
    for runner in runners:
        await runner.cleanup()


@pytest.mark.parametrize("kind", ["cfm", "redfish"])
async def test_a_region_is_composed_seen_by_two_hosts_cut_off_and_freed(start: Start, kind: str) -> None:
    running = await start()
    fabric: Fabric = getattr(running, kind)
    memory = await running.composed(fabric, 2, 3)
    for port in ("b0-p000", "b0-p003"):
        await fabric.assign(memory, port)
    seen = await fabric.look()
    files = [running.root / "ports" / link.port / link.serial for link in seen.links]
    files[0].write_bytes(b"hello" + files[0].read_bytes()[5:])
    assert [file.stat().st_size for file in files] == [4 * MIB, 4 * MIB]
    assert files[1].read_bytes()[:5] == b"hello"
    for link in reversed(seen.links):  # the second connection first, which CFM takes for none
        await fabric.unassign(link)
    assert not any(file.exists() for file in files)
    await fabric.free(memory)
    after = await fabric.look()
    assert (after.memories, after.links, after.grid.count) == ([], [], 16)


async def test_bytes_stay_in_a_block_until_somebody_overwrites_them(start: Start) -> None:
    running = await start()
    first = await running.composed(running.cfm, 0, 1)
    file = running.root / "regions" / first
    file.write_bytes(b"secret".ljust(4 * MIB, b"\0"))
    await running.cfm.free(first)
    second = await running.composed(running.cfm, 0)
    assert b"secret" in (running.root / "regions" / second).read_bytes()


@pytest.mark.parametrize("rows", [(0, 2), ()])
async def test_blocks_that_are_not_consecutive_are_refused(start: Start, rows: tuple[int, ...]) -> None:
    running = await start()
    with pytest.raises(Declined):
        await running.cfm.compose(running.blocks(*rows) or running.blocks(0)[:1] + running.blocks(1)[1:])


async def test_a_port_takes_one_region(start: Start) -> None:
    running = await start()
    one, two = [await running.composed(running.cfm, row) for row in (0, 1)]
    await running.cfm.assign(one, "b0-p000")
    with pytest.raises(Declined, match="not available"):
        await running.cfm.assign(two, "b0-p000")


async def test_an_id_that_begins_another_one_is_not_taken_for_it(start: Start) -> None:
    running = await start()
    memories = [await running.composed(running.cfm, 0)]
    while memories[-1] != "b0-m10":
        await running.cfm.free(memories.pop())
        memories.append(await running.composed(running.cfm, 0))
    await running.cfm.free(memories.pop())
    ten, eleven = await running.composed(running.cfm, 0), await running.composed(running.cfm, 1)
    assert eleven.startswith("b0-m1") and ten.startswith("b0-m1")
    await running.cfm.assign(ten, "b0-p001")
    with pytest.raises(Declined):
        await running.cfm.unassign(Link("", "b0-m1", "b0-p000", ""))
    assert link_of(await running.cfm.links(), ten, "b0-p001")


async def test_a_lost_answer_is_found_by_looking(start: Start) -> None:
    running = await start()
    running.appliance.faults.add(Fault("compose", "lost"))
    with pytest.raises(Unreachable):
        await running.cfm.compose(running.blocks(0))
    assert made_of(await running.cfm.memories(), running.blocks(0))


async def test_an_appliance_that_is_silent_is_left_alone_for_a_while(start: Start) -> None:
    running = await start()
    running.appliance.faults.add(Fault("look", "hang", times=3, seconds=2.5))
    for _ in range(3):
        with pytest.raises(Unreachable):
            await running.cfm.look()
    with pytest.raises(Unreachable, match="asked again in a few seconds"):
        await running.cfm.look()
    await asyncio.sleep(0.6)
    assert (await running.cfm.look()).grid.count == 16


async def test_one_hanging_call_holds_up_all_where_there_is_one_lock(start: Start) -> None:
    running = await start(Quirks(global_mutex=True))
    running.appliance.faults.add(Fault("compose", "hang", seconds=1.0))
    hanging = asyncio.create_task(running.cfm.compose(running.blocks(0)))
    await asyncio.sleep(0.2)
    began = asyncio.get_running_loop().time()
    await running.redfish.look()
    assert asyncio.get_running_loop().time() - began > 0.5
    await hanging


async def test_free_forgets_all_connections_but_the_first(start: Start) -> None:
    running = await start()
    memory = await running.composed(running.cfm, 0)
    for port in ("b0-p000", "b0-p001"):
        await running.cfm.assign(memory, port)
    await running.cfm.free(memory)
    assert [link.port for link in (await running.cfm.look()).links] == ["b0-p001"]


async def test_after_a_power_cycle_cfm_remembers_what_is_gone(start: Start) -> None:
    running = await start()
    memory = await running.composed(running.cfm, 0)
    async with aiohttp.ClientSession(running.base) as session:
        await session.post("/emulator/blades/b0/power-cycle")
        path = f"/cfm/v1/appliances/a0/blades/b0/memory/{memory}"
        assert (await session.get(path)).status == 200
        assert (await running.cfm.look()).memories == []
        await session.patch("/cfm/v1/appliances/a0/blades/b0")
        assert (await session.get(path)).status == 404


async def test_a_compose_with_a_port_that_is_taken_leaves_memory_behind(start: Start) -> None:
    running = await start()
    async with aiohttp.ClientSession(running.base) as session:
        path = "/cfm/v1/appliances/a0/blades/b0/memory"
        body = {"Port": "b0-p000", "memorySizeMiB": 3, "QoS": 2}
        first = await session.post(path, json=body)
        assert (first.status, (await first.json())["sizeMiB"]) == (201, 4)  # rounded up to blocks on each channel
        assert (await session.post(path, json=body)).status == 206
    assert len((await running.cfm.look()).memories) == 2


async def test_a_restart_brings_back_what_the_log_says(start: Start) -> None:
    running = await start()
    memory = await running.composed(running.cfm, 4, 5)
    await running.cfm.assign(memory, "b0-p002")
    before = await running.cfm.look()
    (running.root / "ports" / "b0-p002" / before.links[0].serial).unlink()  # died before the host could see it
    again = await start()
    assert await again.cfm.look() == before
    assert (running.root / "ports" / "b0-p002" / before.links[0].serial).exists()


async def test_calls_without_the_right_credentials_are_refused(start: Start) -> None:
    with pytest.raises(Declined, match="credentials"):
        await (await start(credentials=("me", "wrong"))).cfm.look()
    assert (await (await start(credentials=("me", "pw"))).cfm.look()).grid.count == 16


async def test_the_judge_sees_an_overlap_that_the_appliance_let_through(start: Start) -> None:
    running = await start(Quirks(trusting=True))
    await running.cfm.compose(running.blocks(0, 1))
    await running.cfm.compose(running.blocks(1, 2))
    verdict = judge(read(running.root / "log.jsonl"))
    assert len(verdict.overlaps) == 1
    assert (verdict.composes, verdict.most) == (2, 6)


async def test_the_judge_counts_refusals_for_want_of_capacity(start: Start) -> None:
    running = await start()
    await running.cfm.compose(running.blocks(0))
    with pytest.raises(Declined):
        await running.cfm.compose(running.blocks(0))
    assert len(judge(read(running.root / "log.jsonl")).refusals) == 1


@pytest.mark.parametrize("text", ["b0", "b0=2x2,ports=1", "b0=2x2x1", "B=1x1x1,ports=1"])
def test_a_blade_that_is_not_well_described_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not NAME=CHANNELSxROWSxMIB"):
        BladeLayout.parse(text)


def test_a_quirk_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ValueError, match="unkind is none of"):
        Quirks.parse("unkind,cma")


async def test_a_device_that_a_guest_is_still_taking_in_is_unplugged_when_it_has(tmp_path: Path) -> None:
    """QEMU refuses to unplug for the seconds in which a guest's power indicator blinks."""
    monitor, there, refusals = tmp_path / "qmp", {"dev1"}, ["guest is busy (power indicator blinking)"] * 2

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"{}\n")
        while line := await reader.readline():
            command = json.loads(line)["execute"]
            answer: dict[str, Any] = {"return": {}}
            if command == "qom-list":
                answer = {"return": [{"name": name} for name in there]}
            elif command == "device_del" and refusals:
                answer = {"error": {"desc": f"Hot-unplug failed: {refusals.pop()}"}}
            elif command == "device_del":
                there.clear()
            writer.write(json.dumps(answer).encode() + b"\n")

    place = tmp_path / "ports" / "p0" / "aa"
    place.parent.mkdir(parents=True)
    place.write_text("1")
    async with await asyncio.start_unix_server(serve, monitor):
        await Qemu(tmp_path, slots={"p0": Slot(monitor, "rp0")}).unplug("p0", "aa")
        assert (there, refusals, place.exists()) == (set(), [], False)
