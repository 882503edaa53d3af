"""Architectures that transformers builds from its own configurations, with random weights.

Every class here takes and returns plain tensors, so that each peer can be called in the same way. Values that differ
from the defaults of a configuration are those of the published checkpoint that is named above it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from .plain import CLASSES

PAST = 128  # tokens in the cache from which GPT-2 computes the next one


class Field(nn.Module):
    """A model of transformers of whose results one is returned."""

    def __init__(self, model: Any, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        """Compute the named result."""
        result: Tensor = getattr(self.model(x), self.name)
        return result


class Prefill(nn.Module):
    """The first call of a text generation: the logits of the next token, then the keys and values of all layers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        """Compute (batch, 1, vocabulary), and the keys and values (batch, heads, tokens, size of a head)."""
        result = self.model(tokens, use_cache=True, logits_to_keep=1)
        return (result.logits, *(part for layer in result.past_key_values.layers
                                 for part in (layer.keys, layer.values)))


class Decode(nn.Module):
    """A later call of a text generation: one token with the keys and values of those before it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Compute the logits (batch, 1, vocabulary), and the keys and values of this token."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self.model(token, past_key_values=cache, use_cache=True)
        return (result.logits, *(part[:, :, -1:] for layer in result.past_key_values.layers
                                 for part in (layer.keys, layer.values)))


def _built(name: str, task: str, result: str, **values: Any) -> Field:
    """The model of a name for a task, with the values of its configuration that are not the defaults."""
    import transformers

    configuration = getattr(transformers, f"{name}Config")(**values)
    return Field(getattr(transformers, f"{name}{task}")(configuration), result)


_classifier = partial(_built, task="ForImageClassification", result="logits", num_labels=CLASSES)
_encoder = partial(_built, result="last_hidden_state")

# microsoft/resnet-18 and resnet-50
resnet18 = partial(_classifier, "ResNet", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")
resnet50 = partial(_classifier, "ResNet")
# facebook/regnet-y-008
regnet_y_800mf = partial(_classifier, "RegNet", depths=[1, 3, 8, 2], hidden_sizes=[64, 128, 320, 768], groups_width=16)
# google/mobilenet_v2_1.0_224 with the padding of the paper, the same on all sides
mobilenet_v2 = partial(_classifier, "MobileNetV2", tf_padding=False)
# facebook/convnext-tiny-224. Blocks count from the start (0.1, not 1e-6), so that an error in one is seen
convnext_tiny = partial(_classifier, "ConvNext", layer_scale_init_value=0.1)
# microsoft/swin-tiny-patch4-window7-224, google/vit-base-patch16-224
swin_tiny = partial(_classifier, "Swin")
vit_base = partial(_classifier, "ViT")
# bert-base-uncased, distilbert-base-uncased, and the encoder of t5-small
bert_base = partial(_encoder, "Bert", "Model")
distilbert = partial(_encoder, "DistilBert", "Model")
t5_small_encoder = partial(_encoder, "T5", "EncoderModel")


def whisper_tiny_encoder() -> nn.Module:
    """The encoder of openai/whisper-tiny."""
    from transformers import WhisperConfig, WhisperModel

    return Field(WhisperModel(WhisperConfig()).get_encoder(), "last_hidden_state")


def gpt2_prefill() -> nn.Module:
    """gpt2, from the first tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return Prefill(GPT2LMHeadModel(GPT2Config()))


def gpt2_decode() -> nn.Module:
    """gpt2, with a cache."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return Decode(GPT2LMHeadModel(GPT2Config()))
