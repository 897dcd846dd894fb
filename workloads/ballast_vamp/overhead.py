"""What VAMP costs an engine that it has nothing to do for: the same decoding with and without it, engines in turn.

    python -m ballast_vamp overhead --shape qwen3-512e --layers 16          4 engines: plain, vamp, plain, vamp

Each engine runs in a process of its own and decodes the same batches several times. Prints JSON: milliseconds of a step
by the clock and by the engine thread's own, medians for each engine, and VAMP's over plain's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ballast_vamp.replay import models
from ballast_vamp.replay.arms import with_plugin

GIB = 1 << 30
PROMPT = 512  # tokens
ARMS = ("plain", "vamp")


def add_parsers(commands: Any) -> None:
    parser = commands.add_parser("overhead", help="decoding with VAMP at rest against without", allow_abbrev=False)
    parser.add_argument("--shape", choices=models.SHAPES, default="qwen3-512e")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--batches", default="1,16,48", help="requests that decode at a time (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=200, help="of each request (default: %(default)s)")
    parser.add_argument("--times", type=int, default=5, help="each batch is decoded (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="engines of each kind (default: %(default)s)")
    parser.add_argument("--kv-gib", type=float, default=6, help="of KV cache (default: %(default)s)")
    parser.add_argument(
        "--offload-gib", type=float, default=8, help="of experts that could leave (default: %(default)s)"
    )
    parser.add_argument("--engine", choices=ARMS, help=argparse.SUPPRESS)  # this process is one
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.engine:
        print(json.dumps(_decode(options)))
        return 0
    rounds: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for _ in range(options.rounds):
        for arm in ARMS:
            rounds[arm].append(_engine(arm, options))
            print(f"{arm}: {rounds[arm][-1]}", file=sys.stderr, flush=True)
    ratios = {
        batch: {
            clock: round(_median(rounds["vamp"], batch, clock) / _median(rounds["plain"], batch, clock), 4)
            for clock in ("wall_ms", "thread_ms")
        }
        for batch in options.batches.split(",")
    }
    print(json.dumps({"vamp_over_plain": ratios, "rounds": rounds}, indent=1))
    return 0


def _median(rounds: list[dict[str, Any]], batch: str, clock: str) -> float:
    return float(statistics.median(found[batch][clock] for found in rounds))


def _engine(arm: str, options: argparse.Namespace) -> dict[str, Any]:
    """One engine's medians, by batch. Raises CalledProcessError if it ends otherwise."""
    own = ["--shape", options.shape, "--layers", str(options.layers), "--batches", options.batches]
    own += ["--tokens", str(options.tokens), "--times", str(options.times), "--kv-gib", str(options.kv_gib)]
    command = [sys.executable, "-m", "ballast_vamp", "overhead", "--engine", arm, *own]
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        environment = os.environ | with_plugin(Path(folder), os.environ)
        environment |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        if arm == "vamp":
            size = str(int(options.offload_gib * GIB))
            environment |= {"VAMP_ENABLE": "1", "VAMP_MAX_OFFLOAD_BYTES": size, "VAMP_HOST_BYTES": size}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _decode(options: argparse.Namespace) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    batches = [int(batch) for batch in options.batches.split(",")]
    with tempfile.TemporaryDirectory(prefix="overhead-model-") as folder:
        config = models.write(options.shape, Path(folder), options.layers)
        llm = LLM(
            folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            max_model_len=PROMPT + options.tokens + 1,
            max_num_seqs=max(batches),
            kv_cache_memory_bytes=int(options.kv_gib * GIB),
            enforce_eager=options.kv_gib < 1,
        )
    core: Any = llm.llm_engine.engine_core
    there = getattr(core.engine_core.scheduler, "vamp", None) is not None
    if there != (options.engine == "vamp"):
        raise SystemExit(f"engine {options.engine}: VAMP is in it: {there}; its log says why")
    params = SamplingParams(temperature=0, max_tokens=options.tokens, ignore_eos=True, detokenize=False)
    found = {}
    for batch in batches:
        prompts = [
            {"prompt_token_ids": [3 + (7 * n + 13 * k) % (config["vocab_size"] - 3) for k in range(PROMPT)]}
            for n in range(batch)
        ]
        wall, thread = [], []
        for _ in range(options.times + 1):
            started, own = time.perf_counter(), time.thread_time()
            llm.generate(prompts, params, use_tqdm=False)
            wall.append((time.perf_counter() - started) / options.tokens)
            thread.append((time.thread_time() - own) / options.tokens)
        medians = {"wall_ms": statistics.median(wall[1:]), "thread_ms": statistics.median(thread[1:])}
        found[str(batch)] = {name: round(1e3 * seconds, 4) for name, seconds in medians.items()}
    return found
