"""What a pod asks of VAMP, read once from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ballast_vamp.reasons import Disabled, Reason
from ballast_vamp.steps import Step

MIB = 1 << 20


class Mode(StrEnum):
    """Auto moves pages; DryRun decides and reports, and leaves memory alone; Always moves them whenever cache is short,
    whatever that costs: the replay compares decisions with it."""

    AUTO = "Auto"
    DRY_RUN = "DryRun"
    ALWAYS = "Always"


@dataclass(frozen=True)
class Fault:
    """A step that fails on a rank, every time. For tests."""

    step: Step
    rank: int


@dataclass(frozen=True)
class Config:
    """Bytes are for each rank. max_offload: experts on the host at most; host: memory for their copies; fake_device: an
    engine for CPUs may go through the motions, where pages move in the books only. For tests and trial runs."""

    enable: bool = False
    mode: Mode = Mode.AUTO
    max_offload_bytes: int = 0
    host_bytes: int = 0
    min_resident_fraction: float = 0.5
    chunk_bytes: int = 256 * MIB
    profile: Path | None = None
    fault: Fault | None = None
    fake_device: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Config:
        """Read `VAMP_*`. Raises Disabled(BadConfiguration) with one sentence about the first value that is wrong."""
        if environment.get("VAMP_ENABLE", "0") in ("", "0"):
            return cls()
        offload = _bytes(environment, "VAMP_MAX_OFFLOAD_BYTES", None)
        host = _bytes(environment, "VAMP_HOST_BYTES", offload)
        profile = environment.get("VAMP_PROFILE")
        return cls(
            enable=_enable(environment["VAMP_ENABLE"]),
            mode=_mode(environment.get("VAMP_MODE", Mode.AUTO)),
            max_offload_bytes=min(offload, host),
            host_bytes=host,
            min_resident_fraction=_fraction(environment.get("VAMP_MIN_RESIDENT_FRACTION", "0.5")),
            chunk_bytes=_bytes(environment, "VAMP_CHUNK_BYTES", 256 * MIB),
            profile=Path(profile) if profile else None,
            fault=_fault(environment.get("VAMP_FAULT")),
            fake_device=environment.get("VAMP_FAKE_DEVICE") == "1",
        )


def _bad(name: str, value: str, wanted: str) -> Disabled:
    return Disabled(Reason.BAD_CONFIGURATION, f"{name} is {value!r}, not {wanted}")


def _enable(text: str) -> bool:
    if text != "1":
        raise _bad("VAMP_ENABLE", text, "1, or 0 to leave VAMP out")
    return True


def _mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        raise _bad("VAMP_MODE", text, f"one of {', '.join(Mode)}") from None


def _bytes(environment: Mapping[str, str], name: str, default: int | None) -> int:
    text = environment.get(name)
    if text is None:
        if default is None:
            raise Disabled(Reason.BAD_CONFIGURATION, f"{name} is not set; give the bytes of experts that may leave HBM")
        return default
    if not text.isdecimal() or int(text) == 0:
        raise _bad(name, text, "a whole number of bytes above 0")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise _bad("VAMP_MIN_RESIDENT_FRACTION", text, "a number from 0 to 1")
    return value


def _fault(text: str | None) -> Fault | None:
    if not text:
        return None
    step, _, rank = text.partition(":")
    if step not in set(Step) or not rank.isdecimal():
        raise _bad("VAMP_FAULT", text, f"STEP:RANK with a step of {', '.join(Step)}")
    return Fault(Step(step), int(rank))
