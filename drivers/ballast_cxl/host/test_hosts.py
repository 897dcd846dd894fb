"""Both hosts: found by serial number alone, brought up only when safe, never taken from under a process.

The Linux host runs here on a folder that looks like the kernel's, with `cxl` and `daxctl` played by a small model of what
they do; the real ones are in the QEMU lane.
"""

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ballast_cxl.host import Device, HostError, InUse, NotThere, Slot
from ballast_cxl.host import linux as linux_module
from ballast_cxl.host.emulated import EmulatedHost
from ballast_cxl.host.linux import LinuxHost, onlines_itself
from ballast_cxl.host.users import users

SIZE = 256 << 20
SLOT = Slot("b0-p000", "00000000c0ffee01", SIZE)
NULL = Path("/dev/null").stat().st_rdev
NUMBERS = (os.major(NULL), os.minor(NULL))


class Kernel:
    """/sys and /dev in a folder, and the programs that change them."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, list[str]()
        self.cxl, self.dax = root / "sys/bus/cxl/devices", root / "sys/bus/dax"
        for folder in (self.cxl, self.dax / "devices", self.dax / "drivers/device_dax", root / "dev", root / "proc"):
            folder.mkdir(parents=True)
        (root / "etc/modprobe.d").mkdir(parents=True)
        (root / "etc/modprobe.d/ballast.conf").write_text("# shared memory\nblacklist kmem\n")

    def plug(self, name: str, serial: int) -> None:
        """The fabric's device appears, and a driver takes it."""
        (self.cxl / name).mkdir()
        (self.cxl / name / "serial").write_text(f"0x{serial:x}\n")
        (self.cxl / name / "driver").mkdir()

    def regions(self) -> dict[str, str]:
        """Region to memdev."""
        return {p.parent.name: p.read_text() for p in self.cxl.glob("region*/memdev")}

    def run(self, argv: Sequence[str]) -> str:
        self.calls.append(" ".join(argv))
        match list(argv):
            case ["cxl", "list", "-R", "-m", memdev]:
                return json.dumps([{"region": r} for r, m in self.regions().items() if m == memdev])
            case ["cxl", "list", "-R"]:
                return json.dumps([{"region": r, "mappings": [m]} for r, m in self.regions().items()])
            case ["cxl", "list", "-D", *_]:
                return json.dumps([{"decoder": "decoder0.0"}])
            case ["cxl", "create-region", *_, memdev]:
                self._make("region0", memdev)
            case ["daxctl", "reconfigure-device", "-m", "devdax", dax]:
                (self.dax / "devices" / dax / "driver").symlink_to(self.dax / "drivers/device_dax")
            case ["daxctl", "disable-device", dax]:
                (self.dax / "devices" / dax / "driver").unlink()
            case ["cxl", "destroy-region", region]:
                (self.cxl / region / "memdev").unlink()
        return ""

    def _make(self, region: str, memdev: str) -> None:
        (self.cxl / region / "dax_region0/dax0.0").mkdir(parents=True)
        (self.cxl / region / "memdev").write_text(memdev)
        device = self.dax / "devices/dax0.0"
        device.mkdir(parents=True)
        (device / "size").write_text(f"{SIZE}\n")
        (device / "align").write_text("2097152\n")
        os.mknod(self.root / "dev/dax0.0", 0o020600, os.makedev(*NUMBERS))


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a device file")
    return Kernel(tmp_path)


@pytest.fixture
def linux(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> LinuxHost:
    monkeypatch.setattr(linux_module, "SETTLE_SECONDS", 0.1)
    return LinuxHost(kernel.root, kernel.run)


def test_a_device_is_found_by_its_serial_number_whatever_the_kernel_calls_it(kernel: Kernel, linux: LinuxHost) -> None:
    kernel.plug("mem0", 0xBEEF)
    with pytest.raises(NotThere, match="no memdev with serial 00000000c0ffee01"):
        linux.attach(SLOT)
    kernel.plug("mem7", 0xC0FFEE01)
    assert linux.find(SLOT) is None
    assert linux.attach(SLOT) == Device("/dev/dax0.0", SIZE, NUMBERS)
    assert any(call.endswith("-m mem7") for call in kernel.calls)


def test_attaching_twice_makes_one_region(kernel: Kernel, linux: LinuxHost) -> None:
    kernel.plug("mem0", 0xC0FFEE01)
    assert linux.attach(SLOT) == linux.attach(SLOT) == linux.find(SLOT)
    assert sum("create-region" in call for call in kernel.calls) == 1


def test_taking_down_goes_from_the_device_to_the_memory_and_is_done_once(kernel: Kernel, linux: LinuxHost) -> None:
    kernel.plug("mem0", 0xC0FFEE01)
    linux.attach(SLOT)
    kernel.calls.clear()
    linux.detach(SLOT)
    changes = [call for call in kernel.calls if "list" not in call]
    assert changes == [
        "daxctl disable-device dax0.0",
        "cxl disable-region region0",
        "cxl destroy-region region0",
        "cxl disable-memdev mem0",
    ]
    (kernel.cxl / "mem0/driver").rmdir()
    linux.detach(SLOT)


def test_a_region_of_another_size_is_not_given_out(kernel: Kernel, linux: LinuxHost) -> None:
    kernel.plug("mem0", 0xC0FFEE01)
    with pytest.raises(HostError, match=f"has {SIZE} bytes, the fabric promised {2 * SIZE}"):
        linux.attach(Slot(SLOT.port, SLOT.serial, 2 * SIZE))


def test_a_region_whose_memory_was_pulled_out_is_deleted_through_its_decoder(kernel: Kernel, linux: LinuxHost) -> None:
    """Else it would hold its window of addresses, and nothing could be attached any more."""
    decoder = kernel.root / "sys/devices/decoder0.0"
    (decoder / "region0").mkdir(parents=True)
    (decoder / "delete_region").write_text("")
    (kernel.cxl / "region0").symlink_to(decoder / "region0")
    linux.detach(SLOT)
    assert (decoder / "delete_region").read_text() == "region0"


@pytest.mark.parametrize("text", ["", "# blacklist kmem\n", "blacklist kmem_other\n", "options kmem x=1\n"])
def test_a_host_that_could_bring_shared_memory_online_is_refused(kernel: Kernel, linux: LinuxHost, text: str) -> None:
    (kernel.root / "etc/modprobe.d/ballast.conf").write_text(text)
    kernel.plug("mem0", 0xC0FFEE01)
    for use in (linux.check, lambda: linux.attach(SLOT)):
        with pytest.raises(HostError, match=r"nothing keeps the kernel from loading kmem.*blacklist the module kmem"):
            use()
    assert kernel.calls == [], "nothing was brought up"


def test_a_loaded_kmem_is_refused_though_it_is_blacklisted(kernel: Kernel) -> None:
    (kernel.dax / "drivers/kmem").mkdir()
    assert "the kernel's driver kmem is loaded" in str(onlines_itself(kernel.root))


def test_a_kernel_without_cxl_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="the kernel has no /sys/bus/cxl"):
        LinuxHost(tmp_path).check()


def test_missing_programs_and_their_complaints_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError, match="the program no-such-cxl is missing; install Debian's packages"):
        linux_module.run_program(["no-such-cxl", "list"])
    with pytest.raises(HostError, match=r"sh -c echo busy >&2; exit 3: busy"):
        linux_module.run_program(["sh", "-c", "echo busy >&2; exit 3"])


@pytest.fixture
def port(tmp_path: Path) -> Path:
    folder = tmp_path / "ports" / SLOT.port
    folder.mkdir(parents=True)
    return folder


def test_an_emulated_device_is_the_file_on_its_port(port: Path, tmp_path: Path) -> None:
    host = EmulatedHost(tmp_path)
    host.check()
    slot = Slot(SLOT.port, SLOT.serial, 4096)
    with pytest.raises(NotThere):
        host.attach(slot)
    (port / SLOT.serial).write_bytes(bytes(4096))
    assert host.attach(slot) == host.find(slot) == Device(str(port / SLOT.serial), 4096)
    assert (port / SLOT.serial).stat().st_mode & 0o777 == 0o666
    host.detach(slot)
    with pytest.raises(HostError, match="has 4096 bytes, the fabric promised 8192"):
        host.attach(Slot(SLOT.port, SLOT.serial, 8192))


@pytest.mark.parametrize("port_name", ["../other", "", ".", "a/b"])
def test_a_port_is_a_name_and_not_a_way_elsewhere(tmp_path: Path, port_name: str) -> None:
    with pytest.raises(HostError, match="is not a name of a port"):
        EmulatedHost(tmp_path).find(Slot(port_name, "1", 1))


def test_an_emulator_that_never_started_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="start the emulator first"):
        EmulatedHost(tmp_path / "none").check()


HOLD = """
import mmap, sys, time
file = open(sys.argv[1], "r+b")
view = mmap.mmap(file.fileno(), 4096) if sys.argv[2] == "mapped" else None
if view: file.close()
print("held", flush=True); time.sleep(60)
"""


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_a_process_that_holds_the_device_is_found_under_any_name(port: Path, tmp_path: Path, how: str) -> None:
    device = port / SLOT.serial
    device.write_bytes(bytes(4096))
    alias = tmp_path / "in-a-container"
    alias.hardlink_to(device)
    host, slot = EmulatedHost(tmp_path), Slot(SLOT.port, SLOT.serial, 4096)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(alias), how], stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        with pytest.raises(InUse, match=f"in use by process {holder.pid}"):
            host.detach(slot)
        holder.kill()
    host.detach(slot)


def test_our_own_process_does_not_count(port: Path) -> None:
    device = port / SLOT.serial
    device.write_bytes(bytes(4096))
    with device.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        assert users(device, hidden=True) == []
