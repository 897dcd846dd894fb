"""Tiny models with random weights: a Qwen3-MoE, and a Qwen3-Next whose layers are of two kinds (attention and GDN)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ballast_serving import tiny

NEXT: dict[str, Any] = {
    **tiny.CONFIG,
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,  # vLLM's kernels for CPUs take no other size
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "shared_expert_intermediate_size": 64,
    "partial_rotary_factor": 0.25,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
}
DENSE: dict[str, Any] = {
    **{key: value for key, value in tiny.CONFIG.items() if "expert" not in key and "moe" not in key},
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
}
CONFIGS = {"moe": tiny.CONFIG, "next": NEXT, "dense": DENSE}


def write(kind: str, folder: Path) -> Path:
    """A model's folder, with a tokenizer of plain bytes."""
    tiny.write(folder)
    (folder / "config.json").write_text(json.dumps(CONFIGS[kind], indent=1))
    return folder
