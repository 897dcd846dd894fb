"""A region's bytes through mmap: of a plain file (coherent with every other user), or of a device behind caches."""

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path

from ballast_cxl.host import Device, HostError
from ballast_cxl.scrubber.scrub import Memory

LIBRARY = Path(__file__).with_name("libflush.so")
_PIECE = 1 << 20


def memory_of(device: Device) -> Memory:
    """How to reach a device's bytes: only a real device has caches between us and other hosts."""
    return FileMemory(device) if device.numbers is None else DeviceMemory(device, library())


class FileMemory:
    """The emulated device. Its pages are shared by all who map the file, so a store is there for all of them."""

    def __init__(self, device: Device) -> None:
        self._device = device

    @property
    def size(self) -> int:
        return self._device.size

    def zero(self, offset: int, size: int) -> None:
        window = _mapped(self._device, offset, size)
        ctypes.memset(ctypes.addressof(window), 0, size)

    def first_nonzero(self, offset: int, size: int) -> int | None:
        window = _mapped(self._device, offset, size)
        for start in range(0, size, _PIECE):
            piece = ctypes.string_at(ctypes.addressof(window) + start, min(_PIECE, size - start))
            if piece.count(0) != len(piece):
                return offset + start + len(piece) - len(piece.lstrip(b"\0"))
        return None


class DeviceMemory:
    """A real device: zeros go past the caches, and what caches hold is dropped before anything is read back."""

    def __init__(self, device: Device, flush: ctypes.CDLL) -> None:
        self._device, self._flush = device, flush

    @property
    def size(self) -> int:
        return self._device.size

    def zero(self, offset: int, size: int) -> None:
        window = _mapped(self._device, offset, size)
        self._flush.ballast_zero(ctypes.addressof(window), size)

    def first_nonzero(self, offset: int, size: int) -> int | None:
        window = _mapped(self._device, offset, size)
        at: int = self._flush.ballast_first_nonzero(ctypes.addressof(window), size)
        return None if at == size else offset + at


@cache
def library() -> ctypes.CDLL:
    """The compiled `flush.c`. Raises HostError where it was not built, which no image of ours is."""
    if not LIBRARY.exists():
        raise HostError(f"{LIBRARY} is missing; build it with `cc -O2 -shared -fPIC -o {LIBRARY.name} flush.c` there")
    loaded = ctypes.CDLL(str(LIBRARY))
    for function in (loaded.ballast_zero, loaded.ballast_first_nonzero):
        function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    loaded.ballast_zero.restype = None
    loaded.ballast_first_nonzero.restype = ctypes.c_size_t
    return loaded


def _mapped(device: Device, offset: int, size: int) -> "ctypes.Array[ctypes.c_char]":
    """One window of the device, shared with all who map it; unmapped when the last reference to it goes.

    The offset is a multiple of the scrub's window, and so of what devices align to.
    """
    descriptor = os.open(device.path, os.O_RDWR)
    try:
        view = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
    finally:
        os.close(descriptor)
    return (ctypes.c_char * size).from_buffer(view)
