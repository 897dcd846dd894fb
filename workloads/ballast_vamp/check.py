"""An engine in this process is made to move pages, and everything that must not change is compared. Prints JSON.

    python -m ballast_vamp check --shape next512      48 GiB of experts: 16 layers x 512, top 10, on one large GPU
    python -m ballast_vamp check --shape qwen30b      54 GiB: 48 layers x 128, top 8
    python -m ballast_vamp check --shape tiny         a few MB, any machine, no GPU: the script itself is tried

stall     a commit against the bare driver calls for as many handles of the same sizes
tokens    greedy tokens under a forced remap every few steps, against the same requests undisturbed
cache     sums of all bytes of the cache that hold blocks, before and after commits (a GPU only)
experts   sums of all expert weights, read at their addresses, before and after (a GPU only)
cycles    grows and shrinks in a row: free device memory, resident host memory, and time of a commit, first against last
faults    each step of a commit fails once: the engine serves the same tokens, the books agree, nothing leaks

Exit status 0 only if every check holds. Weights are random, so routing is flat: speed under load is for the replay.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ballast_vamp.replay import models

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Case:
    """A shape of the replay's, with so many layers, and bytes: of cache, of experts that may leave, of one move."""

    shape: str
    layers: int
    kv: int
    offload: int
    chunk: int


CASES = {
    "next512": Case("qwen3-512e", 16, 2 * GIB, 8 * GIB, 256 * MIB),
    "qwen30b": Case("qwen3-30b-a3b", 48, 6 * GIB, 8 * GIB, 512 * MIB),
    "tiny": Case("tiny", 4, 6 * MIB, 64 * MIB, MIB // 2),
}


def add_parsers(commands: Any) -> None:
    parser = commands.add_parser(
        "check", help="move pages in a running engine and compare what must not change", allow_abbrev=False
    )
    parser.add_argument("--shape", choices=CASES, default="next512")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=64, help="new tokens of each prompt")
    parser.add_argument("--steps", type=int, default=20, help="engine steps between two forced remaps")
    parser.add_argument("--commits", type=int, default=100, help="commits between which the cache is compared")
    parser.add_argument("--cycles", type=int, default=1000, help="grows and shrinks in a row")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    """Exit status 1 if a check does not hold."""
    case = CASES[options.shape]
    os.environ |= {
        "VAMP_ENABLE": "1",
        "VAMP_MAX_OFFLOAD_BYTES": str(case.offload),
        "VAMP_HOST_BYTES": str(case.offload),
        "VAMP_CHUNK_BYTES": str(case.chunk),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if importlib.util.find_spec("flashinfer") is None:
        os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # vLLM imports it on a GPU unless it is told not to
    from ballast_vamp.checked_engine import Engine

    with tempfile.TemporaryDirectory() as folder:
        models.write(case.shape, Path(folder), case.layers)
        engine = Engine(folder, case.kv)
    report: dict[str, Any] = {"shape": options.shape, "versions": engine.versions()}
    report["stall"] = engine.stall()
    report["tokens"] = engine.tokens(options.prompts, options.tokens, options.steps)
    report["cache"] = engine.cache(options.commits)
    report["cycles"] = engine.cycles(options.cycles)
    report["faults"] = engine.faults()
    failed = [name for name, part in report.items() if isinstance(part, dict) and part.get("ok") is False]
    print(json.dumps({**report, "failed": failed}, indent=1))
    return 1 if failed else 0
