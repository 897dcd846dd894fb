"""What an engine meant by its last lines: from vLLM's output to one reason and one sentence.

vLLM says the cause somewhere in a traceback of a hundred lines, often of another process. The list below holds what
it was seen to say, most telling first; the last line of an exception stands for everything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ballast_serving.message import Failure, Reason

_OUT_OF_MEMORY = re.compile(
    r"(torch\.OutOfMemoryError|CUDA out of memory|[Nn]o available memory for the cache blocks"
    r"|Free memory on device .* is less than desired|larger than the available KV cache memory"
    r"|KV cache is needed, which is larger|Not enough memory|Cannot allocate memory"
    r"|DefaultCPUAllocator: can't allocate)"
)
_NO_MODEL = re.compile(
    r"(Repository Not Found|RepositoryNotFoundError|GatedRepoError|is not a local folder and is not a valid model"
    r"|Invalid repository ID or local directory|Can't load the configuration of|Revision Not Found"
    r"|RevisionNotFoundError|LocalEntryNotFoundError|Cannot find any model weights)"
)
_BAD_ARGUMENT = re.compile(r"^(?:vllm|\S+\.py)?.*?\berror: (.+)$")
_BAD_VALUE = re.compile(r"(?:pydantic_core\S*\.ValidationError|Value error, )")
_EXCEPTION = re.compile(r"^(?:\([^)]*\)\s*)?(?:\S+ \d\d-\d\d \S+ \[\S+\] )?((?:[\w.]+)?(?:Error|Exception)\b: .+)$")
_PREFIX = re.compile(r"^(?:\(\w+ ?(?:pid=\d+)?\)\s*)?(?:(?:ERROR|WARNING|INFO) \d\d-\d\d [\d:]+ \[[^\]]*\]\s*)?")

_ELSEWHERE = re.compile(r"[Ss]ee (?:stack trace|root cause)")  # an exception that stands for another one

# An exit status of argparse: the command line itself was refused.
USAGE = 2


def explain(lines: Sequence[str], status: int) -> Failure:
    """The failure behind the last lines of an engine that ended with `status` (negative: the signal that ended it)."""
    clean = [_PREFIX.sub("", line).strip() for line in lines]
    if status == USAGE and (said := _last(clean, _BAD_ARGUMENT)):
        return Failure(Reason.INVALID_ENGINE_ARGS, f"vllm refuses its arguments: {said}; mend spec.engine")
    for line in clean:
        if _OUT_OF_MEMORY.search(line):
            return Failure(Reason.OUT_OF_MEMORY, f"the engine is out of memory: {_cut(line)}")
    for line in clean:
        if _NO_MODEL.search(line):
            return Failure(Reason.MODEL_NOT_FOUND, f"the model cannot be loaded: {_cut(line)}; mend spec.model")
    if any(_BAD_VALUE.search(line) for line in clean):
        said = next((line.split("Value error, ", 1)[1] for line in clean if "Value error, " in line), "")
        said = said or next(line for line in clean if _BAD_VALUE.search(line))
        return Failure(Reason.INVALID_ENGINE_ARGS, f"vllm refuses its configuration: {_cut(said)}; mend spec.engine")
    ended = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    first_hand = [line for line in clean if not _ELSEWHERE.search(line)]
    said = (
        _last(first_hand, _EXCEPTION)
        or _last(clean, _EXCEPTION)
        or next((line for line in reversed(clean) if line), "it said nothing")
    )
    return Failure(Reason.ENGINE_FAILED, f"vllm ended ({ended}): {_cut(said)}")


def _last(lines: Sequence[str], pattern: re.Pattern[str]) -> str:
    return next((match[1] for line in reversed(lines) if (match := pattern.search(line))), "")


def _cut(line: str) -> str:
    return line if len(line) <= 600 else f"{line[:600]} ..."
