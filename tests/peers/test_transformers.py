"""Architectures of Hugging Face transformers in small sizes: texts with a padding mask in two lengths, and images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from tests.peers.compiled import fault
from tests.peers.verdicts import Verdicts

LEAST = 57
TEXTS = ("albert", "bert", "biogpt", "bloom", "camembert", "codegen", "cohere", "convbert", "deberta", "deberta-v2",
         "distilbert", "electra", "ernie", "falcon", "fnet", "gemma", "gemma2", "gpt2", "gpt_neo", "gpt_neox", "gptj",
         "granite", "llama", "longformer", "megatron-bert", "mistral", "mobilebert", "mpnet", "mpt", "nystromformer",
         "olmo", "opt", "phi", "phi3", "qwen2", "qwen3", "rembert", "roberta", "roformer", "squeezebert", "stablelm",
         "starcoder2", "xlm-roberta")
IMAGES = ("beit", "convnext", "convnextv2", "deit", "dinov2", "levit", "mobilenet_v2", "mobilevit", "poolformer",
          "regnet", "resnet", "segformer", "swin", "swinv2", "vit")
SIZES: dict[str, Any] = {  # of a configuration, where it has them
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "dim": 64, "embedding_size": 64, "word_embed_proj_dim": 64,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "num_attention_heads": 4, "n_head": 4,
    "n_heads": 4, "num_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "ffn_dim": 128,
    "hidden_dim": 128, "vocab_size": 120, "rotary_dim": 8, "attention_window": 4, "attention_types": [[["global"], 2]],
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


class Result(nn.Module):
    """A model of transformers with tensors as operands and its last hidden state as the result."""

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *operands: Any) -> Any:
        """Compute the first result of the model."""
        return self.model(**dict(zip(self.names, operands, strict=True)), return_dict=True)[0]


def architecture(name: str, small: bool) -> Any:
    """A model of the architecture with random weights; images have the sizes of the configuration's defaults."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    config = AutoConfig.for_model(name)
    if small:
        known = config.to_dict()
        for key, value in SIZES.items():
            if key in known:
                setattr(config, key, value)
        config.use_cache = False
    return AutoModel.from_config(config)


def text(name: str) -> str:
    """The fault of a compiled architecture for texts; empty if it is right."""
    model = Result(architecture(name, small=True), ("input_ids", "attention_mask"))
    for length in (12, 19):
        words, mask = torch.randint(3, 100, (2, length)), torch.ones(2, length, dtype=torch.long)
        mask[1, length - 4:] = 0
        if found := fault(model, [words, mask]):
            return f"{length} words: {found}"
    return ""


def image(name: str) -> str:
    """The fault of a compiled architecture for images; empty if it is right."""
    model = architecture(name, small=False)
    size = getattr(model.config, "image_size", 224)
    return fault(Result(model, ("pixel_values",)), [torch.randn(1, 3, size, size)])


def test_architectures_of_transformers_compute_what_they_do_in_pytorch(request: pytest.FixtureRequest) -> None:
    verdicts = Verdicts()
    for names, check in ((TEXTS, text), (IMAGES, image)):
        for name in names:
            verdicts.judge(name, partial(check, name))
    verdicts.check(LEAST, request)
