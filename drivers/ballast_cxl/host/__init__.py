"""What a node does to memory that the fabric has put on one of its ports: find it, bring it up, take it down.

One interface, two hosts: `linux` speaks to the kernel's CXL and DAX drivers, `emulated` to the emulator's files. Only
the standard library is used. A device is known by the serial number that the fabric gave it; the kernel's own numbers
(mem0, region0, dax0.0) change with every attachment and are never remembered.
"""

from dataclasses import dataclass
from typing import Protocol


class HostError(Exception):
    """The host cannot do what was asked; the text says what and why. Trying again later may help."""


class NotThere(HostError):
    """The fabric has not put such a device on this host, or has taken it away."""


class InUse(HostError):
    """A process still has the device open or mapped; taking it down would kill the process with SIGBUS."""


@dataclass(frozen=True)
class Device:
    """Memory that a container can be given. path: on the host; size: bytes; numbers: major and minor of a character
    device, None for a plain file that is bind mounted."""

    path: str
    size: int
    numbers: tuple[int, int] | None = None


@dataclass(frozen=True)
class Slot:
    """What the fabric says of one attachment: the host's port, the serial number seen there (hexadecimal), the
    size in bytes."""

    port: str
    serial: str
    size: int


class Host(Protocol):
    """One node's side of the fabric. All methods block, may be called again at any time, and raise HostError."""

    def check(self) -> None:
        """Raise HostError if this host can never serve: wrong kernel, missing programs, memory that onlines itself."""

    def attach(self, slot: Slot) -> Device:
        """Bring the device up, or find it up. Raises NotThere until the fabric's device has appeared."""

    def find(self, slot: Slot) -> Device | None:
        """The device if it is up, without changing anything."""

    def detach(self, slot: Slot) -> None:
        """Flush and take the device down; done if it is gone. Raises InUse instead of killing its users."""
