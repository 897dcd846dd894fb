"""What the emulated appliance is: its blades, their ports, and which of the real ones' traps it has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType

_BLADE = re.compile(r"(?P<name>[a-z0-9-]+)=(?P<channels>\d+)x(?P<rows>\d+)x(?P<mib>\d+),ports=(?P<ports>\d+)")


@dataclass(frozen=True)
class BladeLayout:
    """A grid of channels x rows blocks of `mib` MiB each, and so many ports."""

    name: str
    channels: int
    rows: int
    mib: int
    ports: int

    @classmethod
    def parse(cls, text: str) -> "BladeLayout":
        """`b0=4x16x8192,ports=8`. Raises ValueError."""
        found = _BLADE.fullmatch(text)
        if not found:
            raise ValueError(f"--blade {text!r} is not NAME=CHANNELSxROWSxMIB,ports=N, such as b0=4x16x8192,ports=8")
        return cls(found["name"], *(int(found[part]) for part in ("channels", "rows", "mib", "ports")))

    def port_names(self) -> list[str]:
        """Zero-padded, since one name must not begin another."""
        return [f"{self.name}-p{number:03d}" for number in range(self.ports)]

    def block_names(self) -> Mapping[str, tuple[int, int]]:
        """Id of each block to its channel and row."""
        return _block_names(self)


@cache
def _block_names(layout: BladeLayout) -> Mapping[str, tuple[int, int]]:
    return MappingProxyType(
        {
            f"{layout.name}-c{channel:02d}r{row:03d}": (channel, row)
            for row in range(layout.rows)
            for channel in range(layout.channels)
        }
    )


@dataclass(frozen=True)
class Quirks:
    """The traps of real appliances, each as a switch. All of them off is an appliance as one would wish it."""

    global_mutex: bool = False
    """One lock over all calls, reads too: a call that hangs makes all others wait."""
    contiguity: bool = False
    """A memory has an equal count of consecutive blocks on every channel; anything else is refused."""
    rounding: bool = False
    """A compose by size takes whole blocks on each of QoS channels, and so more than was asked for."""
    partial_content: bool = False
    """A compose with a port that cannot be had answers 206 and leaves the memory behind."""
    one_connection: bool = False
    """A port takes one connection."""
    substring_ids: bool = False
    """Unassign takes the first connection whose memory's id contains the one that was given."""
    first_connection_only: bool = False
    """Free removes only the first connection of a memory; others stay behind without one."""
    amnesia: bool = False
    """CFM goes on listing what a blade forgot in a power cycle, until it is told to look again."""
    trusting: bool = False
    """Blocks that are in use are composed again without a word: for a judge who must see it."""

    @classmethod
    def parse(cls, text: str) -> "Quirks":
        """Names with commas; `cma` for those of Seagate's. Raises ValueError."""
        known = {field.name.replace("_", "-") for field in fields(cls)}
        names = {name for name in text.split(",") if name}
        if "cma" in names:
            names = names - {"cma"} | known - {"trusting"}
        if names - known:
            raise ValueError(
                f"--quirks: {', '.join(sorted(names - known))} is none of {', '.join(sorted(known))} or cma"
            )
        return cls(**{name.replace("-", "_"): True for name in names})
