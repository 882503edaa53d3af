"""TranslatorModel: the Translator as a Hugging Face model that `generate` can decode.

It reads and writes the same config.json and model.safetensors as `checkpoint`, which does not need to import
transformers (3 s).
Shapes: B problems, S source positions, T target words, V target vocabulary, D derived quantities.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from seqtune.errors import MisuseError

from .checkpoint_folder import MODEL_TYPE
from .sequence.numeric_codes import CODE_SIZE
from .translator.numpy_layers import Dimensions
from .translator.sentences import Sentences
from .translator.translator import Source, Translator

_SMALLEST = {"names": 2, "words": 2, "targets": 2, "groups": 2, "derived": 0, "longest": 1, "code": CODE_SIZE,
             "quantities": 1}


class TranslatorConfig(PretrainedConfig):  # type: ignore[misc]
    """The dimensions of a Translator as a configuration: the fields have the same names as those of Dimensions."""

    model_type = MODEL_TYPE

    def __init__(self, **fields_given: Any) -> None:
        size = Dimensions(**_SMALLEST | {field.name: fields_given.pop(field.name) for field in fields(Dimensions)
                                         if field.name in fields_given})
        super().__init__(**{"is_encoder_decoder": True, **fields_given})
        for name, value in asdict(size).items():
            setattr(self, name, value)

    @classmethod
    def of(cls, size: Dimensions) -> TranslatorConfig:
        """The configuration of a Translator of these dimensions."""
        return cls(**asdict(size))

    @property
    def size(self) -> Dimensions:
        """The dimensions of the Translator."""
        return Dimensions(**{field.name: getattr(self, field.name) for field in fields(Dimensions)})


class _Encoder(nn.Module):
    """The encoder with the interface that `generate` calls once for each problem."""

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self._translator = (translator,)  # in a tuple: not a child, or every weight would have two names

    def forward(self, names: Tensor, words: Tensor, codes: Tensor, mask: Tensor, quantities: Tensor,
                positions: Tensor | None = None, **ignored: Any) -> BaseModelOutput:
        """The encoder's states (B, S, W) for the fields of a Source."""
        source = Source(names, words, codes, mask, quantities, positions)
        return BaseModelOutput(last_hidden_state=self._translator[0].read(source))


class TranslatorModel(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A Hugging Face model that owns the children of a Translator, so that both name their weights equally."""

    config_class = TranslatorConfig
    main_input_name = "names"

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__(config)
        self._adopt(Translator(config.size))
        self.post_init()

    def _adopt(self, translator: Translator) -> None:
        """Make the children of a Translator children of this model."""
        for name, child in translator.named_children():
            self.add_module(name, child)
        self._inner = (translator,)  # in a tuple: not a child, or every weight would have two names
        self.encoder.main_input_name = self.main_input_name  # which `generate` reads from the encoder

    @classmethod
    def of(cls, translator: Translator) -> TranslatorModel:
        """Wrap a Translator; the weights are shared, not copied."""
        model = cls(TranslatorConfig.of(translator.size))
        model._adopt(translator)
        return model

    @property
    def translator(self) -> Translator:
        """The wrapped Translator, with the same weights and in the same mode (training or evaluation)."""
        return self._inner[0].train(self.training)

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: the Translator has initialised its weights."""

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """The encoder for `generate`; `modality` is ignored, since there is only one encoder."""
        return _Encoder(self.translator)

    def prepare_inputs_for_generation(self, input_ids: Tensor, next_sequence_length: int | None = None,
                                      sentences: Sentences | None = None, **kwargs: Any) -> dict[str, Any]:
        """The arguments of `forward` for the next word after `input_ids` (sentence, T), which belong to `sentences`.

        `generate` accepts the arguments of `forward` because this parameter has the name `kwargs`. Raises MisuseError
        without `sentences`.
        """
        if sentences is None:
            raise MisuseError("generate needs the valid sentences; call it with "
                              "**Sentences(vocabulary, tasks).arguments()")
        resolved, following = sentences.resolved(input_ids)
        names = ("encoder_outputs", "words", "codes", "mask", "quantities", "positions")
        return {"decoder_input_ids": input_ids, "resolved": resolved, "following": following,
                **{name: kwargs.get(name) for name in names}}

    def forward(self, names: Tensor | None = None, words: Tensor | None = None, codes: Tensor | None = None,
                mask: Tensor | None = None, quantities: Tensor | None = None, positions: Tensor | None = None,
                decoder_input_ids: Tensor | None = None, resolved: Tensor | None = None,
                following: Tensor | None = None, encoder_outputs: BaseModelOutput | None = None,
                **ignored: Any) -> Seq2SeqLMOutput:
        """Logits (B, K, V) of every target word after each of the last K words of `decoder_input_ids` (B, T).

        The first six arguments are the fields of a Source. `resolved` (B, T, D) is log2 of the derived
        quantities that the words resolve, `following` (B, K, V, D) that of those that each next word would resolve; NaN
        elsewhere.
        """
        assert mask is not None
        assert quantities is not None
        assert decoder_input_ids is not None
        assert resolved is not None
        assert following is not None
        model = self.translator
        if encoder_outputs is None:
            assert names is not None
            encoder_outputs = _Encoder(model)(names, words, codes, mask, quantities, positions)
        memory = model.memory(encoder_outputs.last_hidden_state, mask, quantities)
        count, steps, targets = following.shape[:3]
        owners = torch.arange(count, device=mask.device)
        x = model.settled(memory.look_up(owners[:, None], decoder_input_ids), resolved)
        states = model.decode(x, memory.pairs, memory.mask)[:, -steps:].flatten(0, 1)  # (B * K, W)
        after = torch.arange(count * steps, device=mask.device).repeat_interleave(targets)
        vectors = memory.vectors[:, None].expand(count, steps, -1, -1).flatten(0, 2)
        scores = model.settled.score(states, after, vectors, following.flatten(0, 2))
        return Seq2SeqLMOutput(logits=scores.view(count, steps, targets))
