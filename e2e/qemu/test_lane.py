"""One story on two emulated machines: a region that both use, machines that die, and a next tenant who finds zeros.

The fabric is the emulator with its QEMU backend: assigning a port plugs a CXL type-3 device into the guest there. In the
guests the node side's own code drives the kernel's real drivers. Times are printed; they are of emulated processors.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.steps import Steps
from e2e.qemu.fabric import Fabric, Place
from e2e.qemu.image import ensure
from e2e.qemu.machine import GuestError, Machine

pytestmark = [pytest.mark.qemu, pytest.mark.timeout(1800)]

MIB = 1 << 20
SIZE = 256 * MIB  # QEMU's devices come in multiples of this
PATH = "/dev/ballast/kv"
CLAIM: dict[str, Any] = {"claim": "kv", "uid": "0c5b7a52-11d3-4c1c-9a3c-8f0e7b7a1d11"}
KILLS = 20
BUDGET_SECONDS = 360.0


@dataclass
class Lane:
    """Two guests, A and B, and the fabric that they hang on."""

    a: Machine
    b: Machine
    fabric: Fabric
    began: float

    def both(self, method: str, a: dict[str, Any], b: dict[str, Any]) -> list[Any]:
        """The same call in both guests at the same time."""
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(guest.call, method, **with_) for guest, with_ in ((self.a, a), (self.b, b))]
            return [future.result() for future in asked]


@pytest.fixture(scope="module")
def lane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        image = ensure(Steps(), tmp_path_factory.mktemp("image"))
    began = time.monotonic()
    folder = tmp_path_factory.mktemp("lane")
    with Machine("A", image, folder) as a, Machine("B", image, folder) as b:
        a.start()
        b.start()
        up = [guest.ready() for guest in (a, b)]
        print(f"guests answer {up[0]:.1f} s and {up[1]:.1f} s after power on, by their own clocks")
        with Fabric.running(folder, {"A": a.monitor, "B": b.monitor}, SIZE) as fabric:
            yield Lane(a, b, fabric, began)


def attach(guest: Machine, place: Place) -> dict[str, Any]:
    began = time.monotonic()
    device: dict[str, Any] = guest.call("attach", **place.slot())
    print(f"{guest.name}: {device['path']} is there {time.monotonic() - began:.1f} s after its port was assigned")
    return device


def test_two_machines_share_a_region_and_the_next_tenant_reads_zeros(lane: Lane) -> None:
    memory = lane.fabric.compose()
    places = [lane.fabric.assign(memory, guest) for guest in ("A", "B")]
    _both_get_the_region_under_one_path(lane, places)
    _what_one_writes_the_other_reads(lane)
    _a_device_in_use_is_not_taken_down(lane, places[0])
    places[0] = _a_machine_killed_in_the_middle_leaves_whole_values(lane, memory, places[0])
    _both_let_go(lane, memory, places)
    _the_region_is_wiped_alone(lane, memory)
    _the_next_tenant_reads_zeros(lane)
    seconds = time.monotonic() - lane.began
    print(f"whole lane: {seconds:.0f} s (budget {BUDGET_SECONDS:.0f} s on two free cores)")
    assert seconds < 3 * BUDGET_SECONDS


def _both_get_the_region_under_one_path(lane: Lane, places: list[Place]) -> None:
    slots = [place.slot() for place in places]
    devices = lane.both("attach", *slots)
    assert all(device["path"].startswith("/dev/dax") and device["size"] == SIZE for device in devices)
    files = lane.both("prepare", CLAIM | slots[0], CLAIM | slots[1])
    nodes = [file["devices"][0]["containerEdits"]["deviceNodes"][0] for file in files]
    assert [node["path"] for node in nodes] == [PATH, PATH]
    assert [[node["major"], node["minor"]] for node in nodes] == [device["numbers"] for device in devices]


def _what_one_writes_the_other_reads(lane: Lane) -> None:
    lane.a.call("fill", path=PATH, size=SIZE, byte=0x5A)
    began = time.monotonic()
    lane.a.call("write", path=PATH, offset=128 * MIB + 64, text="from A")
    assert lane.b.call("read", path=PATH, offset=128 * MIB + 64, size=6) == "from A"
    print(f"written on A, read on B {time.monotonic() - began:.2f} s later")
    lane.b.call("write", path=PATH, offset=64 * MIB, text="from B")
    assert lane.a.call("read", path=PATH, offset=64 * MIB, size=6) == "from B"


def _a_device_in_use_is_not_taken_down(lane: Lane, place: Place) -> None:
    """The container's device file is another one than the host's; the process is found all the same."""
    pid = lane.a.call("start_writer", path=PATH, offset=0)
    with pytest.raises(GuestError, match=rf"InUse: dax\d+\.\d+ is in use by process {pid}"):
        lane.a.call("detach", **place.slot())
    lane.a.call("kill_writer")
    assert lane.b.call("value", path=PATH, offset=0)["whole"]


def _a_machine_killed_in_the_middle_leaves_whole_values(lane: Lane, memory: str, place: Place) -> Place:
    torn, number, began = 0, lane.b.call("value", path=PATH, offset=0)["number"], time.monotonic()
    for _ in range(KILLS):
        lane.a.call("start_writer", path=PATH, offset=0)
        time.sleep(0.3)
        lane.a.kill()
        found = lane.b.call("value", path=PATH, offset=0)
        assert found["whole"] and found["number"] >= number, found
        torn, number = torn + found["torn"], found["number"]
        assert lane.b.call("read", path=PATH, offset=64 * MIB, size=6) == "from B"
        lane.fabric.unassign(memory, "A")
        lane.a.start()
        lane.a.ready()
        place = lane.fabric.assign(memory, "A")
        lane.a.call("attach", **place.slot())
        lane.a.call("prepare", **(CLAIM | place.slot()))
    each = (time.monotonic() - began) / KILLS
    print(f"A killed {KILLS} times while writing, {torn} values torn, none of them ever read; {each:.1f} s each")
    assert torn > 0, "no kill came in the middle of a value, so this proved nothing"
    return place


def _both_let_go(lane: Lane, memory: str, places: list[Place]) -> None:
    for guest, place in zip((lane.a, lane.b), places, strict=True):
        began = time.monotonic()
        guest.call("unprepare", uid=CLAIM["uid"])
        guest.call("detach", **place.slot())
        lane.fabric.unassign(memory, guest.name)
        print(f"{guest.name}: let go and unassigned in {time.monotonic() - began:.1f} s")
        guest.call("detach", **place.slot())  # done already: no error


def _the_region_is_wiped_alone(lane: Lane, memory: str) -> None:
    place = lane.fabric.assign(memory, "B")
    attach(lane.b, place)
    assert lane.b.call("first_nonzero", **place.slot()) is not None, "nothing to wipe, so this proves nothing"
    began = time.monotonic()
    result = lane.b.call("scrub", **place.slot())
    seconds = time.monotonic() - began
    print(f"{SIZE // MIB} MiB wiped and read back in {seconds:.1f} s")
    assert (result["bytes"], result["verified"]) == (SIZE, SIZE)
    lane.b.call("detach", **place.slot())
    lane.fabric.unassign(memory, "B")
    lane.fabric.free(memory)


def _the_next_tenant_reads_zeros(lane: Lane) -> None:
    memory = lane.fabric.compose()
    place = lane.fabric.assign(memory, "A")
    attach(lane.a, place)
    assert lane.a.call("first_nonzero", **place.slot()) is None
    lane.a.call("detach", **place.slot())
    lane.fabric.unassign(memory, "A")
    lane.fabric.free(memory)


def test_memory_that_would_bring_itself_online_is_refused(lane: Lane, tmp_path: Path) -> None:
    """Without the word that keeps kmem out, no region is brought up, however much the fabric offers it."""
    memory = lane.fabric.compose()
    place = lane.fabric.assign(memory, "A")
    try:
        lane.a.call("allow_kmem", allowed=True)
        with pytest.raises(GuestError, match="HostError: nothing keeps the kernel from loading kmem"):
            lane.a.call("attach", **place.slot(), patience=0)
    finally:
        lane.a.call("allow_kmem", allowed=False)
        lane.fabric.unassign(memory, "A")
        lane.fabric.free(memory)
