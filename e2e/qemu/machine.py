"""One emulated machine: started, asked, killed."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from e2e.qemu.image import Image

PORTS = 2  # root ports; one host bridge and one window of addresses each, or a port could not be used twice
START_SECONDS = 300.0  # of a machine with far more to do; a few on a quiet one


class GuestError(Exception):
    """The guest said no, or nothing. kind: class of the error in the guest."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Machine:
    """A guest with empty CXL ports `rp0`, `rp1`. folder: for its sockets and console; it outlives the machine."""

    def __init__(self, name: str, image: Image, folder: Path) -> None:
        self.name, self._image, self._folder = name, image, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._buffer = b""

    @property
    def monitor(self) -> Path:
        """Socket of QEMU's monitor, the same after a restart."""
        return self._folder / f"{self.name}.qmp"

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Switch it on; returns while it boots. What it says on its line is lost unless somebody listens by then."""
        self._log = (self._folder / f"{self.name}.log").open("ab")
        self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self._line = self._connect()

    def ready(self) -> float:
        """Wait until it answers; seconds since its power came on, by its own clock."""
        return float(self._receive(START_SECONDS))

    def call(self, method: str, seconds: float = 600, **arguments: Any) -> Any:
        """What the agent's method returns. Raises GuestError."""
        self.send(method, **arguments)
        return self._receive(seconds)

    def send(self, method: str, **arguments: Any) -> None:
        """Ask, and do not wait for the answer."""
        assert self._line is not None
        self._line.sendall(json.dumps({"call": method, "with": arguments}).encode() + b"\n")

    def kill(self) -> None:
        """As by pulling the plug."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._log.close()
        if self._line is not None:
            self._line.close()
            self._line, self._buffer = None, b""

    def _command(self) -> list[str]:
        socket_of = {name: self._folder / f"{self.name}.{name}" for name in ("agent", "qmp")}
        for path in socket_of.values():
            path.unlink(missing_ok=True)
        argv = [
            *self._image.qemu(),
            *("-accel", "tcg", "-machine", "q35,cxl=on", "-m", "768M,maxmem=8G,slots=4", "-smp", "1"),
            *("-cpu", "max,hypervisor=off"),  # under a hypervisor the kernel will not drop caches, so makes no region
            *("-nodefaults", "-no-reboot", "-display", "none"),
            *("-kernel", str(self._image.kernel), "-initrd", str(self._image.initramfs)),
            *("-append", "console=ttyS0 quiet panic=-1"),
            *("-serial", f"file:{self._folder / self.name}.console"),
            *("-serial", f"unix:{socket_of['agent']},server=on,wait=off"),
            *("-qmp", f"unix:{socket_of['qmp']},server=on,wait=off"),
        ]
        windows = []
        for index in range(PORTS):
            bridge = f"cxl.{index + 1}"
            argv += ["-device", f"pxb-cxl,bus_nr={12 + 20 * index},bus=pcie.0,id={bridge}"]
            argv += ["-device", f"cxl-rp,port={index},bus={bridge},id=rp{index},chassis=0,slot={index + 2}"]
            windows.append(f"cxl-fmw.{index}.targets.0={bridge},cxl-fmw.{index}.size=4G")
        return [*argv, "-M", ",".join(windows)]

    def _connect(self) -> socket.socket:
        path, end = self._folder / f"{self.name}.agent", time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(path))
                return line
            except OSError:
                line.close()
                if self._process is None or self._process.poll() is not None:
                    raise GuestError("QEMU", (self._folder / f"{self.name}.log").read_text()[-500:]) from None
                time.sleep(0.05)
        raise GuestError("Timeout", f"{path} did not appear")

    def _receive(self, seconds: float) -> Any:
        assert self._line is not None
        self._line.settimeout(seconds)
        while b"\n" not in self._buffer:
            try:
                piece = self._line.recv(65536)
            except TimeoutError:
                raise GuestError("Timeout", f"{self.name} did not answer within {seconds:g} s") from None
            if not piece:
                raise GuestError("Gone", f"{self.name} is switched off")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise GuestError(answer["error"], answer["text"])
        return answer["answer"]
