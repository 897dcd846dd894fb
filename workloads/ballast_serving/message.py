"""The pod's last words: why it ended, as JSON in the termination message, which the operator reads.

Exit codes: 0 drained, 42 bad input (the same again would fail again), 1 anything else.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

BAD_INPUT = 42
LONGEST = 4096  # bytes the kubelet keeps


class Reason(StrEnum):
    """Why an engine pod ended."""

    MODEL_NOT_FOUND = "ModelNotFound"
    INVALID_ENGINE_ARGS = "InvalidEngineArgs"
    OUT_OF_MEMORY = "OutOfMemory"
    STARTUP_TIMEOUT = "StartupTimeout"
    ENGINE_FAILED = "EngineFailed"


@dataclass(eq=False)
class Failure(Exception):
    """An end that is not a drain: a reason for programs, a sentence for people."""

    reason: Reason
    message: str

    def __str__(self) -> str:
        return self.message

    @property
    def exit_code(self) -> int:
        bad = self.reason in (Reason.MODEL_NOT_FOUND, Reason.INVALID_ENGINE_ARGS)
        return BAD_INPUT if bad else 1


def write(path: Path, failure: Failure) -> None:
    """Leave the failure where the kubelet looks, cut to what it keeps. A file that cannot be written is left out:
    the same sentence is on standard error."""
    text = failure.message
    while len(said := json.dumps({"reason": failure.reason, "message": text})) > LONGEST:
        text = text[: len(text) - (len(said) - LONGEST) - 1]
    with contextlib.suppress(OSError):
        path.write_text(said)
