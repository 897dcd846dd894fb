"""The host side of the emulated fabric: a device on a port is a file that has appeared in the port's folder.

The emulator links a region's bytes to `ROOT/ports/PORT/SERIAL` when it assigns the port, and removes the link when it
unassigns it. Containers get the file by a bind mount. The memory is this machine's own and coherent, so there is
nothing to flush and nobody is killed when a file goes; who may attach, when, and in which order things are taken down
is as with real devices.
"""

import re
from pathlib import Path

from ballast_cxl.host import Device, HostError, InUse, NotThere, Slot
from ballast_cxl.host.users import users

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
MODE = 0o666
"""A container need not run as root to use its region; who may see the file at all is decided by the mount."""


class EmulatedHost:
    """A node beside the emulator. root: the emulator's folder; proc: where processes are listed."""

    def __init__(self, root: Path, proc: Path = Path("/proc")) -> None:
        self._root, self._proc = root, proc

    def check(self) -> None:
        if not (self._root / "ports").is_dir():
            raise HostError(f"the emulated fabric has no folder {self._root / 'ports'}; start the emulator first")

    def attach(self, slot: Slot) -> Device:
        device = self.find(slot)
        if device is None:
            raise NotThere(f"no device with serial {slot.serial} has appeared on port {slot.port} yet")
        Path(device.path).chmod(MODE)
        return device

    def find(self, slot: Slot) -> Device | None:
        path = self._path(slot)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return None
        if size != slot.size:
            raise HostError(
                f"the device with serial {slot.serial} has {size} bytes, the fabric promised {slot.size}; "
                "it is not used, since it may be another tenant's"
            )
        return Device(str(path), size)

    def detach(self, slot: Slot) -> None:
        path = self._path(slot)
        if path.exists() and (pids := users(path, self._proc, hidden=True)):
            raise InUse(f"{path.name} on port {slot.port} is in use by process {', '.join(map(str, pids))}")

    def _path(self, slot: Slot) -> Path:
        for part in (slot.port, slot.serial):
            if not _SAFE.fullmatch(part):
                raise HostError(f"{part!r} is not a name of a port or a serial number")
        return self._root / "ports" / slot.port / slot.serial
