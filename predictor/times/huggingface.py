"""TranslatorModel: the Translator as a Hugging Face pretrained model, for tools that expect one.

It reads and writes the same config.json and model.safetensors as `checkpoint`, which does so without importing
transformers (3 s).
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..checkpoint_folder import MODEL_TYPE
from ..networks.dimensions import Dimensions
from ..sequence.numeric_codes import CODE_SIZE
from .translator import Choices, Source, Translator

_SMALLEST = {"names": 2, "words": 2, "targets": 2, "groups": 2, "derived": 0, "longest": 1, "code": CODE_SIZE,
             "quantities": 1}


class TranslatorConfig(PretrainedConfig):  # type: ignore[misc]
    """The fields of Dimensions, under the same names."""

    model_type = MODEL_TYPE

    def __init__(self, **given: Any) -> None:
        size = Dimensions(**_SMALLEST | {field.name: given.pop(field.name) for field in fields(Dimensions)
                                         if field.name in given})
        super().__init__(**given)
        for name, value in asdict(size).items():
            setattr(self, name, value)

    @classmethod
    def of(cls, size: Dimensions) -> TranslatorConfig:
        """The configuration of a Translator of those dimensions."""
        return cls(**asdict(size))

    @property
    def size(self) -> Dimensions:
        """What the Translator is built from."""
        return Dimensions(**{field.name: getattr(self, field.name) for field in fields(Dimensions)})


class TranslatorModel(PreTrainedModel):  # type: ignore[misc]
    """Owns the children of a Translator, so that the names of the weights are the same in both."""

    config_class = TranslatorConfig
    main_input_name = "names"

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__(config)
        inner = Translator(config.size)
        for name, child in inner.named_children():
            self.add_module(name, child)
        self._inner = (inner,)  # in a tuple: not a child, or every weight would have two names
        self.post_init()

    @classmethod
    def of(cls, translator: Translator) -> TranslatorModel:
        """A view of a Translator: the same weights, not a copy."""
        model = cls(TranslatorConfig.of(translator.size))
        for name, child in translator.named_children():
            model.add_module(name, child)
        model._inner = (translator,)
        return model

    @property
    def translator(self) -> Translator:
        """The Translator within, with the same weights and in the same mode (training or not)."""
        return self._inner[0].train(self.training)

    def _init_weights(self, module: nn.Module) -> None:
        """The Translator has drawn its own."""

    def forward(self, names: Tensor, words: Tensor, codes: Tensor, mask: Tensor, quantities: Tensor,
                target: Tensor, settled: Tensor, place: Tensor, choices: Tensor, choices_settled: Tensor) -> Tensor:
        """The fields of a Source, then what `Translator.forward` takes, Choices field by field: scores (R,)."""
        scores: Tensor = self.translator(Source(names, words, codes, mask, quantities), target, settled,
                                         Choices(place, choices, choices_settled))
        return scores
