"""What a bench serves: a folder or an id that vLLM knows, or a shape that is filled with random weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ballast_serving import tiny

_QWEN3_MOE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.02,
}
# Qwen/Qwen3-Next-80B-A3B-Instruct's config.json: three layers of four have a state of fixed size instead of a cache.
_QWEN3_NEXT: dict[str, Any] = {
    **_QWEN3_MOE,
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "intermediate_size": 5120,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
}
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": tiny.CONFIG,
    "qwen3-30b-a3b": _QWEN3_MOE | {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
    "qwen3-next-80b-a3b": _QWEN3_NEXT,
    # The experts of Qwen3-Next-80B-A3B (512, top 10) under Qwen3's attention, which every version here serves.
    "qwen3-512e": _QWEN3_MOE | {"num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512},
}


def kv_bytes_per_token(config: Mapping[str, Any], ranks: int, element: int) -> int:
    """Bytes of KV of one token on one of `ranks` tensor-parallel ranks, `element` bytes a number; keys and values of
    every layer that attends. Layers with a state of fixed size (Mamba, gated delta nets) take none for a token."""
    layers = config["num_hidden_layers"]
    if kinds := config.get("layer_types"):
        layers = sum("full" in kind or "sliding" in kind for kind in kinds)
    elif interval := config.get("full_attention_interval"):
        layers //= interval
    heads = max(config.get("num_key_value_heads") or config["num_attention_heads"], ranks) // ranks
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return int(2 * layers * heads * size * element)


def write(shape: str, folder: Path, layers: int | None) -> dict[str, Any]:
    """The shape's configuration, with so many layers, into `folder`; returns it."""
    config = SHAPES[shape] | ({"num_hidden_layers": layers} if layers else {})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return config
