"""Runs in a guest: does what the node plugin does there, on the node plugin's own code, as asked over a serial line.

One JSON object a line: `{"call": METHOD, "with": {...}}`, answered by an `answer`, or an `error` and its `text`.
What kubelet and the container runtime would do around that code is done here in its plainest form: a claim is written
down, and its CDI file is read as a runtime reads it, into a folder that stands for a container's root.
"""

import json
import mmap
import os
import struct
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ballast_cxl.cdi.edits import Share, container_path, document, variable
from ballast_cxl.cdi.store import Store
from ballast_cxl.host import Slot
from ballast_cxl.host.linux import LinuxHost
from ballast_cxl.node.checkpoint import Checkpoint, Entry, Region, Use
from ballast_cxl.scrubber.memory import memory_of

CONTAINER = Path("/run/container")
STATE = Path("/run/plugin")
WAY = 2 << 20  # device-dax maps in units of this
RECORD = 1 << 20  # bytes of a value; two of them, written in turn, and after each the number of it


class Node:
    """One method a call. Sizes and offsets in bytes."""

    def __init__(self) -> None:
        STATE.mkdir(exist_ok=True)
        self.host, self.store, self.checkpoint = LinuxHost(), Store(Path("/run/cdi")), Checkpoint(STATE)
        self.writer: subprocess.Popen[bytes] | None = None

    def hello(self) -> float:
        """Seconds since the machine was switched on."""
        return float(Path("/proc/uptime").read_text().split()[0])

    def attach(self, port: str, serial: str, size: int, patience: float = 60) -> dict[str, Any]:
        """The device, once the fabric has put it here."""
        end = time.monotonic() + patience
        while True:
            try:
                return asdict(self.host.attach(Slot(port, serial, size)))
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def detach(self, port: str, serial: str, size: int) -> None:
        self.host.detach(Slot(port, serial, size))

    def prepare(
        self, claim: str, uid: str, port: str, serial: str, size: int, read_only: bool = False
    ) -> dict[str, Any]:
        """What a pod's container gets: the CDI document, and the device in the container's root."""
        slot = Slot(port, serial, size)
        device = self.host.find(slot)
        assert device is not None, "attach it first"
        share = Share(uid, container_path(claim), variable(claim), uid, device.size, read_only)
        use = Use("region", "regions", "region-1", None, Region("team-a", claim, uid), share, slot)
        with self.checkpoint.change() as entries:
            entries[uid] = Entry(uid, "team-a", claim, (use,), prepared=True)
            self.store.write(uid, document([(share, device)]))
        found = self.store.read(uid)
        assert found is not None
        for node in found["devices"][0]["containerEdits"]["deviceNodes"]:
            inside = CONTAINER / node["path"].lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.unlink(missing_ok=True)
            os.mknod(inside, 0o020000 | node["fileMode"], os.makedev(node["major"], node["minor"]))
        return found

    def unprepare(self, uid: str) -> None:
        with self.checkpoint.change() as entries:
            entries.pop(uid, None)
            self.store.remove(uid)

    def scrub(self, port: str, serial: str, size: int) -> dict[str, Any]:
        import asyncio  # half of what a guest would read at its start, for one call

        from ballast_cxl.scrubber.process import scrub_apart

        device = self.host.attach(Slot(port, serial, size))
        return asdict(asyncio.run(scrub_apart(device)))

    def first_nonzero(self, port: str, serial: str, size: int) -> int | None:
        """Offset of the first byte of the whole region that is not zero."""
        memory = memory_of(self.host.attach(Slot(port, serial, size)))
        for offset in range(0, size, 64 << 20):
            at = memory.first_nonzero(offset, min(64 << 20, size - offset))
            if at is not None:
                return at
        return None

    def allow_kmem(self, allowed: bool) -> None:
        """Take away the setting that keeps the driver kmem out, or put it back."""
        setting = Path("/etc/modprobe.d/ballast.conf")
        setting.write_text("" if allowed else "blacklist kmem\n")

    # -- what a container does with its device

    def write(self, path: str, offset: int, text: str) -> None:
        with _mapped(path, offset) as view:
            view[offset % WAY : offset % WAY + len(text)] = text.encode()

    def read(self, path: str, offset: int, size: int) -> str:
        with _mapped(path, offset) as view:
            return bytes(view[offset % WAY : offset % WAY + size]).decode("latin-1")

    def fill(self, path: str, size: int, byte: int) -> None:
        """A tenant's bytes in every page of the region (one line of each, or it would take a minute)."""
        for offset in range(0, size, 64 << 20):
            with _mapped(path, offset, min(64 << 20, size - offset)) as view:
                for page in range(0, len(view), 4096):
                    view[page : page + 64] = bytes([byte]) * 64

    def start_writer(self, path: str, offset: int) -> int:
        """A process that writes values for ever; its process id."""
        self.writer = subprocess.Popen([sys.executable, __file__, "write", path, str(offset)], stdout=subprocess.PIPE)
        assert self.writer.stdout is not None and self.writer.stdout.readline()
        return self.writer.pid

    def kill_writer(self) -> None:
        assert self.writer is not None
        self.writer.kill()
        self.writer.wait()

    def value(self, path: str, offset: int) -> dict[str, Any]:
        """The last value that was finished, whether it is whole, and whether the one being written is torn."""
        with _mapped(path, offset, 4 * WAY) as view:
            (number,) = struct.unpack_from("<Q", view, 0)
            done = bytes(view[_place(number) : _place(number) + RECORD])
            other = bytes(view[_place(number + 1) : _place(number + 1) + RECORD])
        return {
            "number": number,
            "whole": done == _pattern(number),
            "torn": other not in (_pattern(number + 1), _pattern(number - 1), bytes(RECORD)),
        }


def _place(number: int) -> int:
    return WAY + (number % 2) * RECORD


def _pattern(number: int) -> bytes:
    return struct.pack("<Q", number % 2**64) * (RECORD // 8)


def _mapped(path: str, offset: int, size: int = WAY) -> mmap.mmap:
    descriptor = os.open(CONTAINER / path.lstrip("/"), os.O_RDWR)
    try:
        return mmap.mmap(descriptor, size, offset=offset - offset % WAY)
    finally:
        os.close(descriptor)


def write_for_ever(path: str, offset: int) -> None:
    """A value, then its number, in this order; small pieces, so that an end in the middle leaves a torn value.

    The number is one store of eight bytes. `struct.pack_into` would write zeros first, and then byte by byte.
    """
    with _mapped(path, offset, 4 * WAY) as view, memoryview(view) as raw, raw.cast("Q") as words:
        number = words[0]
        print("writing", flush=True)
        while True:
            number += 1
            piece, place = _pattern(number)[:4096], _place(number)
            for start in range(0, RECORD, 4096):
                view[place + start : place + start + 4096] = piece
            words[0] = number


def serve(line: str) -> None:
    """Answer calls until the other end is gone."""
    node = Node()
    with Path(line).open("r+b", buffering=0) as port:
        port.write(json.dumps({"answer": node.hello()}).encode() + b"\n")
        buffer = b""
        while piece := port.read(4096):
            *calls, buffer = (buffer + piece).split(b"\n")
            for call in calls:
                port.write(json.dumps(_answer(node, json.loads(call))).encode() + b"\n")


def _answer(node: Node, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": getattr(node, asked["call"])(**asked["with"])}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write_for_ever(sys.argv[2], int(sys.argv[3]))
    serve(sys.argv[1])
