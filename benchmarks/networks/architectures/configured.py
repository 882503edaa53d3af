"""Architectures that transformers builds from its own configurations, with random weights.

Every class here takes and returns plain tensors, so that each peer can be called in the same way. Values that differ
from the defaults of a configuration are those of the published checkpoint that the function names.
"""

from __future__ import annotations

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


def resnet18() -> nn.Module:
    """microsoft/resnet-18."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic", num_labels=CLASSES)
    return Field(ResNetForImageClassification(config), "logits")


def resnet50() -> nn.Module:
    """microsoft/resnet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(num_labels=CLASSES)
    return Field(ResNetForImageClassification(config), "logits")


def regnet_y_800mf() -> nn.Module:
    """facebook/regnet-y-008."""
    from transformers import RegNetConfig, RegNetForImageClassification

    config = RegNetConfig(depths=[1, 3, 8, 2], hidden_sizes=[64, 128, 320, 768], groups_width=16, num_labels=CLASSES)
    return Field(RegNetForImageClassification(config), "logits")


def mobilenet_v2() -> nn.Module:
    """google/mobilenet_v2_1.0_224 with the padding of the paper, the same on all sides."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(tf_padding=False, num_labels=CLASSES)
    return Field(MobileNetV2ForImageClassification(config), "logits")


def convnext_tiny() -> nn.Module:
    """facebook/convnext-tiny-224. Blocks count from the start (0.1, not 1e-6), so that an error in one is seen."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(layer_scale_init_value=0.1, num_labels=CLASSES)
    return Field(ConvNextForImageClassification(config), "logits")


def swin_tiny() -> nn.Module:
    """microsoft/swin-tiny-patch4-window7-224."""
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(num_labels=CLASSES)
    return Field(SwinForImageClassification(config), "logits")


def vit_base() -> nn.Module:
    """google/vit-base-patch16-224."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(num_labels=CLASSES)
    return Field(ViTForImageClassification(config), "logits")


def bert_base() -> nn.Module:
    """bert-base-uncased."""
    from transformers import BertConfig, BertModel

    return Field(BertModel(BertConfig()), "last_hidden_state")


def distilbert() -> nn.Module:
    """distilbert-base-uncased."""
    from transformers import DistilBertConfig, DistilBertModel

    return Field(DistilBertModel(DistilBertConfig()), "last_hidden_state")


def t5_small_encoder() -> nn.Module:
    """The encoder of t5-small."""
    from transformers import T5Config, T5EncoderModel

    return Field(T5EncoderModel(T5Config()), "last_hidden_state")


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
