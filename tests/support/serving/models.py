"""Configurations of models as their config.json has them, reduced to the sizes that matter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
MODELS: dict[str, dict[str, Any]] = {
    "mixtral": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
                "num_local_experts": 8, "num_experts_per_tok": 2, "torch_dtype": "bfloat16"},
    "qwen3-moe": {"hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
                  "num_experts_per_tok": 8, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
                  "dtype": "bfloat16"},
    "deepseek-v3": {"hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
                    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
                    "first_k_dense_replace": 3, "num_attention_heads": 128, "num_key_value_heads": 128,
                    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                    "v_head_dim": 128, "torch_dtype": "bfloat16", "quantization_config": FP8},
    "llama-4": {"model_type": "llama4", "text_config": {
        "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_attention_heads": 40,
        "num_key_value_heads": 8, "num_local_experts": 16, "num_experts_per_tok": 1, "torch_dtype": "bfloat16"}},
    "dense": {"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 8,
              "head_dim": 128, "torch_dtype": "bfloat16", "quantization_config": FP8},
}


def write_model(folder: Path, name: str, **changes: object) -> Path:
    """Write the config.json of a model with some fields changed; None removes a field."""
    content = {key: value for key, value in {**MODELS[name], **changes}.items() if value is not None}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content))
    return path
