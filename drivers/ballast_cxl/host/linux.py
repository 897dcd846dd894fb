"""The host side of real CXL memory: the kernel's drivers, through sysfs and the programs `cxl` and `daxctl`.

A device that the fabric puts on a port becomes a memdev; a region over it, and a dax device over that, are what a
container maps. All three get new numbers each time, so everything starts from the serial number. Some facts that
shaped this code, seen on Linux 6.12 with QEMU 10: the node /dev/daxX.Y is there before a driver serves it; `daxctl`
ends with 0 for a device that does not exist; a region whose memdev was pulled out stays and blocks its window until it
is deleted through its decoder.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ballast_cxl.host import Device, HostError, InUse, NotThere, Slot
from ballast_cxl.host.users import Hidden, users

Run = Callable[[Sequence[str]], str]
STEP_SECONDS = 30
SETTLE_SECONDS = 5.0
ALIGN = 2 << 20
"""Bytes: device-dax maps in units of this size."""


def run_program(argv: Sequence[str]) -> str:
    """Standard output of a program. Raises HostError with what it said."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=STEP_SECONDS, check=False)
    except FileNotFoundError as error:
        raise HostError(f"the program {argv[0]} is missing; install Debian's packages cxl and daxctl") from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{' '.join(argv)} did not end within {STEP_SECONDS} s") from error
    if done.returncode:
        raise HostError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


class LinuxHost:
    """This machine. root: `/`, or a folder that looks like it in tests; run: starts programs."""

    def __init__(self, root: Path = Path("/"), run: Run = run_program) -> None:
        self._root, self._run = root, run
        self._cxl = root / "sys/bus/cxl/devices"
        self._dax = root / "sys/bus/dax"

    def check(self) -> None:
        if not self._cxl.is_dir():
            raise HostError("the kernel has no /sys/bus/cxl; a kernel with CXL_BUS and CXL_REGION is needed")
        if reason := onlines_itself(self._root):
            raise HostError(reason)

    def attach(self, slot: Slot) -> Device:
        self.check()  # a package that came since may have brought memory online by itself
        memdev = self._memdev(slot)
        if memdev is None:
            raise NotThere(f"no memdev with serial {slot.serial} has appeared on port {slot.port} yet")
        region = self._region(memdev) or self._make_region(memdev)
        dax = self._dax_of(region)
        if self._driver(dax) != "device_dax":
            self._run(["daxctl", "reconfigure-device", "-m", "devdax", dax])
        self._await(lambda: self._driver(dax) == "device_dax", f"the driver device_dax on {dax}")
        return self._device(dax, slot)

    def find(self, slot: Slot) -> Device | None:
        memdev = self._memdev(slot)
        region = self._region(memdev) if memdev else None
        daxes = self._daxes(region) if region else []
        if len(daxes) != 1 or self._driver(daxes[0]) != "device_dax":
            return None
        return self._device(daxes[0], slot)

    def detach(self, slot: Slot) -> None:
        memdev = self._memdev(slot)
        if memdev is None:
            self._drop_dead_regions()
            return
        region = self._region(memdev)
        if region:
            for dax in self._daxes(region):
                self._refuse_users(dax)
                if self._driver(dax):
                    self._run(["daxctl", "disable-device", dax])
            self._run(["cxl", "disable-region", region])  # the kernel writes back and drops what caches hold of it
            self._run(["cxl", "destroy-region", region])
        self._run(["cxl", "disable-memdev", memdev])

    # -- from the serial number to the dax device

    def _memdev(self, slot: Slot) -> str | None:
        """The memdev with this serial number, once a driver serves it."""
        wanted = int(slot.serial, 16)
        for path in sorted(self._cxl.glob("mem*")):
            if int(_read(path / "serial") or "0", 16) == wanted and (path / "driver").exists():
                return path.name
        return None

    def _region(self, memdev: str) -> str | None:
        found = _listed(self._run(["cxl", "list", "-R", "-m", memdev]))
        return next((str(entry["region"]) for entry in found if "region" in entry), None)

    def _make_region(self, memdev: str) -> str:
        """A volatile region over the whole memdev; in the root decoder that leads to it, since there may be several."""
        decoders = _listed(self._run(["cxl", "list", "-D", "-d", "root", "-m", memdev]))
        if not decoders:
            raise NotThere(f"no root decoder leads to {memdev} yet")
        self._drop_dead_regions()
        self._run(["cxl", "create-region", "-d", str(decoders[0]["decoder"]), "-t", "ram", "-m", memdev])
        region = self._region(memdev)
        if region is None:
            raise HostError(f"cxl create-region made no region over {memdev}")
        return region

    def _daxes(self, region: str) -> list[str]:
        return sorted(path.name for path in self._cxl.glob(f"{region}/dax_region*/dax[0-9]*"))

    def _dax_of(self, region: str) -> str:
        self._await(lambda: self._daxes(region), f"a dax device of {region}")
        daxes = self._daxes(region)
        if len(daxes) != 1:
            raise HostError(f"{region} has the dax devices {', '.join(daxes)}; one is expected")
        return daxes[0]

    def _driver(self, dax: str) -> str:
        """Name of the driver that serves a dax device; empty for none."""
        link = self._dax / "devices" / dax / "driver"
        return link.resolve().name if link.exists() else ""

    def _device(self, dax: str, slot: Slot) -> Device:
        size = int(_read(self._dax / "devices" / dax / "size") or "0")
        align = int(_read(self._dax / "devices" / dax / "align") or str(ALIGN))
        if size != slot.size:
            raise HostError(
                f"{dax} with serial {slot.serial} has {size} bytes, the fabric promised {slot.size}; "
                "it is not used, since it may be another tenant's"
            )
        if align > ALIGN:
            raise HostError(f"{dax} maps in units of {align} bytes; containers count on {ALIGN}")
        node = self._root / "dev" / dax
        self._await(node.exists, f"the device node /dev/{dax}")
        number = node.stat().st_rdev
        return Device(f"/dev/{dax}", size, (os.major(number), os.minor(number)))

    # -- taking down

    def _refuse_users(self, dax: str) -> None:
        node = self._root / "dev" / dax
        if not node.exists():
            return
        try:
            pids = users(node, self._root / "proc")
        except Hidden as error:
            raise InUse(f"{dax} may be in use: {error}") from error
        if pids:
            raise InUse(f"{dax} is in use by process {', '.join(map(str, pids))}")

    def _drop_dead_regions(self) -> None:
        """Delete regions whose memdev was pulled out: they would hold their window of addresses for ever."""
        alive = {str(entry["region"]) for entry in _listed(self._run(["cxl", "list", "-R"])) if _targets(entry)}
        for path in sorted(self._cxl.glob("region[0-9]*")):
            if path.name not in alive and not _read(path / "target0"):
                decoder = path.resolve().parent
                (decoder / "delete_region").write_text(path.name)

    @staticmethod
    def _await(holds: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + SETTLE_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise HostError(f"{what} has not appeared within {SETTLE_SECONDS:g} s")
            time.sleep(0.05)


def onlines_itself(root: Path) -> str | None:
    """Why memory of the fabric might become this kernel's own memory; None if it cannot.

    With the driver kmem a dax device becomes system memory: onlining it wipes what is shared, and hands another host's
    bytes to this kernel. Being able to undo it afterwards is not enough.
    """
    way_out = "blacklist the module kmem in /etc/modprobe.d and unload it"
    if (root / "sys/bus/dax/drivers/kmem").exists():
        return f"the kernel's driver kmem is loaded, so shared memory would become system memory; {way_out}"
    for folder in ("etc/modprobe.d", "run/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"):
        for file in sorted((root / folder).glob("*.conf")):
            words = [line.split() for line in file.read_text().splitlines()]
            if any(line[:2] in (["blacklist", "kmem"], ["install", "kmem"]) for line in words):
                return None
    return f"nothing keeps the kernel from loading kmem, which makes shared memory system memory; {way_out}"


def _targets(region: dict[str, Any]) -> bool:
    return bool(region.get("mappings")) or region.get("decode_state") == "commit"


def _listed(text: str) -> list[dict[str, Any]]:
    """What `cxl list` printed: a list, one object, or nothing at all."""
    found = json.loads(text) if text.strip() else []
    return found if isinstance(found, list) else [found]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
