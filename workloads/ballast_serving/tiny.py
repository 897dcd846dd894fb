"""A model small enough for any machine: a Qwen3-MoE shape with random weights and a tokenizer of plain bytes.

What it says is noise, but it is served by the same code as the large ones: same layers, same router, same API.
"""

from __future__ import annotations

import json
from pathlib import Path

# Byte n is the letter chr(_BYTES[n]): the printable spelling of bytes that byte-level tokenizers use.
_PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 320  # 256 bytes and three specials, rounded up to a multiple of 64

CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 256,
    "eos_token_id": 258,
    "pad_token_id": 256,
}

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def bytes_to_letters() -> dict[int, str]:
    """A printable letter for each of the 256 bytes, as GPT-2's byte-level tokenizer spells them."""
    spare = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in _PRINTABLE else next(spare)) for byte in range(256)}


def tokenizer() -> dict[str, object]:
    """`tokenizer.json` of a byte-level BPE without a single merge: token n is byte n."""
    letters = bytes_to_letters()
    added = [
        {"id": 256 + n, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        for n, word in enumerate(SPECIALS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**token, "special": True} for token in added],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {letters[byte]: byte for byte in range(256)},
            "merges": [],
        },
    }


def write(folder: Path) -> None:
    """Write the model's files into `folder`, all but weights: vLLM makes those up (`--load-format=dummy`)."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": CONFIG["max_position_embeddings"],
        "bos_token": SPECIALS[0],
        "eos_token": SPECIALS[2],
        "pad_token": SPECIALS[0],
        "chat_template": CHAT_TEMPLATE,
    }
    for name, content in {
        "config.json": CONFIG,
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": settings,
        "generation_config.json": {"bos_token_id": 256, "eos_token_id": 258, "pad_token_id": 256},
    }.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1))
