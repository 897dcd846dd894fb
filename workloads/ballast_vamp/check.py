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
import json
import os
import tempfile
from pathlib import Path
from typing import Any

MIB, GIB = 1 << 20, 1 << 30
BASE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SHAPES: dict[str, dict[str, Any]] = {
    "next512": {
        "config": {
            "num_hidden_layers": 16,
            "num_experts": 512,
            "num_experts_per_tok": 10,
            "moe_intermediate_size": 512,
        },
        "kv": 2 * GIB,
        "offload": 8 * GIB,
        "chunk": 256 * MIB,
    },
    "qwen30b": {
        "config": {"num_hidden_layers": 48, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
        "kv": 6 * GIB,
        "offload": 8 * GIB,
        "chunk": 512 * MIB,
    },
    "tiny": {
        "config": {
            "num_hidden_layers": 4,
            "num_experts": 16,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 64,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "vocab_size": 320,
        },
        "kv": 6 * MIB,
        "offload": 64 * MIB,
        "chunk": MIB // 2,
    },
}


def add_parsers(commands: Any) -> None:
    parser = commands.add_parser(
        "check", help="move pages in a running engine and compare what must not change", allow_abbrev=False
    )
    parser.add_argument("--shape", choices=SHAPES, default="next512")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=64, help="new tokens of each prompt")
    parser.add_argument("--steps", type=int, default=20, help="engine steps between two forced remaps")
    parser.add_argument("--commits", type=int, default=100, help="commits between which the cache is compared")
    parser.add_argument("--cycles", type=int, default=1000, help="grows and shrinks in a row")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    """Exit status 1 if a check does not hold."""
    shape = SHAPES[options.shape]
    os.environ |= {
        "VAMP_ENABLE": "1",
        "VAMP_MAX_OFFLOAD_BYTES": str(shape["offload"]),
        "VAMP_HOST_BYTES": str(shape["offload"]),
        "VAMP_CHUNK_BYTES": str(shape["chunk"]),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    from ballast_vamp.checked_engine import Engine

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps({**BASE, **shape["config"]}))
        engine = Engine(folder, shape["kv"])
    report: dict[str, Any] = {"shape": options.shape, "versions": engine.versions()}
    report["stall"] = engine.stall()
    report["tokens"] = engine.tokens(options.prompts, options.tokens, options.steps)
    report["cache"] = engine.cache(options.commits)
    report["cycles"] = engine.cycles(options.cycles)
    report["faults"] = engine.faults()
    failed = [name for name, part in report.items() if isinstance(part, dict) and part.get("ok") is False]
    print(json.dumps({**report, "failed": failed}, indent=1))
    return 1 if failed else 0
