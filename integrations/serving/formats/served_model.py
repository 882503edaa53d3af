"""ServedModel: the sizes in a Hugging Face config.json that decide which files vLLM and SGLang look for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from seqtune.data.json_content import parse_json
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.files import read_bounded
from seqtune.kernels.operations.feature import LARGEST_SIZE

LARGEST_FILE = 10_000_000  # bytes
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "ffn_config")  # parts of larger models
_DEEPEST = 4  # nested configurations
_CHANNEL_SCALES = {"channel": True, "per_channel": True, "tensor": False, "per_tensor": False, "block": False}

Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Blocks = Annotated[list[Size], Field(min_length=2, max_length=2)]
Count = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]


class Quantization(BaseModel):
    """The part of `quantization_config` that names of files depend on."""

    model_config = ConfigDict(extra="ignore", strict=True)

    quant_method: str = ""
    weight_block_size: Blocks | None = None
    config_groups: Any = None  # of compressed-tensors: layers that are quantized alike, by name
    global_quant_config: Any = None  # of Quark: how all layers are

    @property
    def blocks(self) -> tuple[int, int]:
        """The outputs and inputs that share a scale; zeros without blocks, or if they are unknown."""
        if self.weight_block_size is not None:
            return self.weight_block_size[0], self.weight_block_size[1]
        sizes = [_block_of(weights) for weights in self._weights()]
        return next((size for size in sizes if size is not None), (0, 0))

    @property
    def has_channel_scales(self) -> bool | None:
        """Whether each output of the experts has a scale of its own, as SGLang reads it; None if that is unknown.

        The methods `w8a8_fp8` and `w8a8_int8` always have such scales; `fp8` has blocks, or one scale.
        """
        if any(self.blocks) or self.quant_method in ("fp8", "modelopt", "modelopt_fp8"):
            return False
        if self.quant_method in ("w8a8_fp8", "w8a8_int8"):
            return True
        words = {str(weights.get("strategy") or weights.get("qscheme")) for weights in self._weights()}
        known = {_CHANNEL_SCALES.get(word) for word in words}
        return known.pop() if len(known) == 1 else None

    def _weights(self) -> list[Mapping[str, Any]]:
        """How the weights of the experts are quantized: by groups that name experts, else by all groups."""
        named = self.config_groups.values() if isinstance(self.config_groups, Mapping) else ()
        groups = [group for group in (*named, self.global_quant_config) if isinstance(group, Mapping)]
        of_experts = [group for group in groups if "expert" in str(group.get("targets"))]
        weights = [group.get("weights", group.get("weight")) for group in of_experts or groups]
        return [each for each in weights if isinstance(each, Mapping)]


def _block_of(weights: Mapping[str, Any]) -> tuple[int, int] | None:
    """The outputs and inputs of a block of weights, which compressed-tensors writes as [128, 128] or "128x128"."""
    if weights.get("strategy") != "block":
        return None
    given = weights.get("block_structure")
    sizes = given if isinstance(given, list) else re.findall(r"[0-9]{1,7}", given) if isinstance(given, str) else []
    numbers = [int(size) for size in sizes if re.fullmatch(r"[0-9]{1,7}", str(size))]
    return (numbers[0], numbers[1]) if len(numbers) == len(sizes) == 2 and 0 < min(numbers) <= max(numbers) <= (
        LARGEST_SIZE) else None


class ServedModel(BaseModel):
    """The sizes of a language model, under the names of Mixtral, Qwen, DeepSeek, GLM, Llama, Phi, OLMoE and others."""

    model_config = ConfigDict(extra="ignore", strict=True)

    hidden: Size = Field(validation_alias=AliasChoices("hidden_size", "d_model"))
    experts: Count | None = Field(None, validation_alias=AliasChoices(
        "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"))
    top_k: Size | None = Field(None, validation_alias=AliasChoices(
        "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k"))
    expert_width: Size | None = Field(None, validation_alias=AliasChoices(
        "moe_intermediate_size", "expert_intermediate_size", "ffn_hidden_size"))
    width: Size | None = Field(None, validation_alias=AliasChoices("intermediate_size", "ffn_dim"))
    dense_width: Size | None = Field(None, validation_alias="intermediate_size_mlp")  # Llama 4: layers without experts
    shared_experts: Count | None = Field(None, validation_alias=AliasChoices("n_shared_experts", "num_shared_experts"))
    shared_width: Count | None = Field(None, validation_alias="shared_expert_intermediate_size")
    first_dense: Count | None = Field(None, validation_alias="first_k_dense_replace")
    heads: Size | None = Field(None, validation_alias="num_attention_heads")
    key_value_heads: Size | None = Field(None, validation_alias="num_key_value_heads")
    head_width: Size | None = Field(None, validation_alias="head_dim")
    gated_attention: bool = Field(False, validation_alias="attn_output_gate")
    query_rank: Size | None = Field(None, validation_alias="q_lora_rank")  # multi-head latent attention
    latent_rank: Size | None = Field(None, validation_alias="kv_lora_rank")
    plain_width: Count | None = Field(None, validation_alias="qk_nope_head_dim")
    rotary_width: Count | None = Field(None, validation_alias="qk_rope_head_dim")
    value_width: Size | None = Field(None, validation_alias="v_head_dim")
    element_type: str | None = Field(None, validation_alias=AliasChoices("torch_dtype", "dtype"))
    quantization: Quantization | None = Field(None, validation_alias="quantization_config")

    @property
    def inside(self) -> int:
        """The width inside an expert. Raises FormatError."""
        width = self.expert_width or self.width
        if width is None:
            raise FormatError("config.json has neither moe_intermediate_size nor intermediate_size")
        return width


def read_model(path: Path) -> ServedModel:
    """Read a config.json. Raises FormatError."""
    content: Any = parse_json(read_bounded(path, LARGEST_FILE), path)
    if not isinstance(content, dict):
        raise FormatError(f"{path} is not the config.json of a model: it holds no object")
    for _ in range(_DEEPEST):
        inner = next((content[name] for name in _NESTED if isinstance(content.get(name), dict)), None)
        if inner is None:
            break
        content = {name: value for name, value in content.items() if name not in _NESTED} | inner
    content = {name: _shared(value) for name, value in content.items() if value is not None}
    try:
        model = ServedModel.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise FormatError(f"{path}: {name:.60}: {first['msg']:.120}") from None
    if fault := _fault(model):
        raise FormatError(f"{path}: {fault}")
    return model


def _shared(value: Any) -> Any:
    """The number that all layers share, where there is one for each layer, as in Hunyuan; else the value itself."""
    if isinstance(value, list) and value and all(type(layer) is int and layer == value[0] for layer in value):
        return value[0]
    return value


def _fault(model: ServedModel) -> str | None:
    """The reason why the sizes are those of no model; None if they fit together."""
    if model.latent_rank is not None and not (model.plain_width and model.rotary_width):
        return "kv_lora_rank needs qk_nope_head_dim and qk_rope_head_dim of at least 1"
    if model.heads is not None and model.latent_rank is None and not (model.head_width or model.hidden // model.heads):
        return f"num_attention_heads={model.heads} is more than hidden_size={model.hidden}, and there is no head_dim"
    if model.experts and model.top_k is not None and model.top_k > model.experts:
        return f"a token goes to {model.top_k} experts of {model.experts}"
    return None


def part(size: int, gpus: int, name: str) -> int:
    """The share of one GPU. Raises MisuseError if the GPUs do not divide the size."""
    if size % gpus:
        raise MisuseError(f"{gpus} GPUs do not divide {name}={size}")
    return size // gpus
