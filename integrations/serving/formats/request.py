"""ServingRequest: the files that a user wants for a server, and the list of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from seqtune.errors import FormatError, MisuseError, shown
from seqtune.kernels.devices.device import Device
from seqtune.kernels.operations.feature import LARGEST_SIZE
from seqtune.kernels.problem import Problem

from .served_model import ServedModel, part, read_model
from .server_log import missing_files
from .table_file import DTYPES, TableFile

TOKENS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)  # the projects' counts
MOST_TOKENS = 100
MOST_GPUS = 4096
TRITON = "3.6.0"  # SGLang looks in the folder of its own version first, then in all others
PLAIN = ("bf16", "fp16")  # dtypes that names do not contain
_TYPES = {"bfloat16": "bf16", "float16": "fp16", None: "bf16"}


@dataclass(frozen=True, slots=True)
class ServingRequest:
    """The wanted files: those of a model on a number of GPUs, or those that a server's log says are missing."""

    model_config: Path | None = None  # the model's config.json
    missing_from: Path | None = None  # a log
    tp: int = 1  # GPUs of tensor parallelism
    ep: int = 1  # GPUs of expert parallelism
    dtype: str | None = None  # None: as the config.json says
    triton_version: str | None = None
    tokens: tuple[int, ...] = TOKENS
    min_confidence: float | None = None  # share of the best speed that every prediction in a file is expected to reach


@dataclass(frozen=True, slots=True)
class WantedFile:
    """One file to write, with the features of its problems that its name does not contain."""

    file: TableFile
    layer: str
    hidden: int | None = None
    top_k: int | None = None
    expert_parallel: int = 1
    dtype: str = "bf16"
    note: str = ""  # what the user should know of the name

    def problem(self, tokens: int) -> Problem:
        """The problem of a number of tokens. Raises ProblemError."""
        return self.file.problem(tokens, self.hidden, self.top_k, self.expert_parallel, self.dtype)


def wanted_files(request: ServingRequest, project: str,
                 device: Device | None) -> tuple[list[WantedFile], dict[str, str]]:
    """The files of a request, and the names in its log that are left out, with the reason.

    Raises MisuseError and FormatError.
    """
    _check(request)
    model = None if request.model_config is None else read_model(request.model_config)
    if request.missing_from is not None:
        files, left_out = missing_files(request.missing_from, project)
        return [_missing(file, project, model, request) for file in files], left_out
    return _model_files(request, model, project, device), {}


def _model_files(request: ServingRequest, model: ServedModel | None, project: str,
                 device: Device | None) -> list[WantedFile]:
    """The files of a model. Raises MisuseError and FormatError."""
    if model is None or device is None:
        raise MisuseError(f"files for {project} need --model-config and --device, or --missing-from")
    name = _name_of(device, project)
    dtype, scale_n, scale_k = _types(model, request.dtype)
    files = _expert_files(model, request, project, name, dtype, scale_n, scale_k)
    if project == "sglang" and int(device.names()["compute_capability"]) >= 90:
        files += [_down(wanted) for wanted in files]  # the second product with the tensor memory accelerator
    if scale_n:
        files += [WantedFile(TableFile(0, n, k, name, dtype, scale_n, scale_k), layer)
                  for (n, k), layer in linear_layers(model, request.tp).items()]
    if not files:
        raise FormatError(f"{request.model_config} has no experts and no layers with block-wise scales, so the server "
                          "looks for no file")
    return files


def _check(request: ServingRequest) -> None:
    for name, value, most in (("--tp", request.tp, MOST_GPUS), ("--ep", request.ep, MOST_GPUS)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise MisuseError(f"{name}={shown(value)} is not a number of GPUs (1 to {most})")
    version = request.triton_version
    if version is not None and not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}", version):
        raise MisuseError(f"--triton-version={version!r:.30} is not a version such as {TRITON}")
    if not 1 <= len(request.tokens) <= MOST_TOKENS or not all(
            isinstance(count, int) and 1 <= count <= LARGEST_SIZE for count in request.tokens):
        raise MisuseError(f"--tokens takes 1 to {MOST_TOKENS} positive numbers with commas between them")
    least = request.min_confidence
    if least is not None and (isinstance(least, bool) or not isinstance(least, int | float) or not 0 < least <= 1):
        raise MisuseError(f"--min-confidence={shown(least)} is not a share of the best speed, above 0 and up to 1")
    if request.dtype is not None and request.dtype not in (*PLAIN, *DTYPES):
        raise MisuseError(f"--dtype={request.dtype!r:.30} is not one of {', '.join((*PLAIN, *DTYPES))}")


def _name_of(device: Device, project: str) -> str:
    """The device as file names spell it. vLLM gives all variants of the H200 one name."""
    name = device.model.replace(" ", "_")
    return "NVIDIA_H200" if project == "vllm" and "H200" in name.split("_") else name


def _types(model: ServedModel, dtype: str | None) -> tuple[str, int, int]:
    """The dtype, and the sizes of a scale's block, which are 0 without blocks. Raises FormatError."""
    quantization = model.quantization
    blocks = quantization.blocks if quantization is not None else (0, 0)
    if dtype is None and quantization is not None:
        if quantization.quant_method != "fp8":
            raise FormatError(f"the model's quantization {quantization.quant_method!r:.30} does not tell the kernel's "
                              f"element types; name them with --dtype ({', '.join((*PLAIN, *DTYPES))})")
        dtype = "fp8_w8a8"
    if dtype is None:
        if model.element_type not in _TYPES:
            raise FormatError(f"the model's element type {model.element_type!r:.30} is neither bfloat16 nor float16; "
                              "name one with --dtype")
        dtype = _TYPES[model.element_type]
    return (dtype, blocks[0], blocks[1]) if dtype.endswith("w8a8") else (dtype, 0, 0)


def _expert_files(model: ServedModel, request: ServingRequest, project: str, device: str, dtype: str, scale_n: int,
                  scale_k: int) -> list[WantedFile]:
    """The file of the experts; for SGLang also the file with the shared expert as one more, as it runs them."""
    if not model.experts:
        return []
    if model.top_k is None:
        raise FormatError(f"{request.model_config} has experts, but not the number of them that a token goes to")
    if request.ep > request.tp if project == "sglang" else 1 < request.ep < request.tp:
        raise MisuseError(f"--ep={request.ep} does not fit --tp={request.tp}: " + (
            "SGLang divides experts among GPUs of one tensor-parallel group" if project == "sglang" else
            "vLLM's expert parallelism takes all GPUs of a tensor-parallel group, or more"))
    width = part(model.inside, part(request.tp, min(request.ep, request.tp), "--tp"), "the width inside an expert")
    if scale_n and width % scale_n:
        raise MisuseError(f"blocks of {scale_n} outputs do not divide an expert's width of {width} with "
                          f"--tp={request.tp}, so no server runs the model so; choose another")
    counts = [(part(model.experts, request.ep, "the number of experts"), model.top_k, "experts")]
    if project == "sglang" and model.shared_experts and request.ep == 1:
        counts.append((model.experts + model.shared_experts, model.top_k + model.shared_experts,
                       "experts with the shared one"))
    named = "" if dtype in PLAIN else dtype
    per_channel, note = _channel_scales(model, project, dtype, bool(scale_n))
    return [WantedFile(TableFile(experts, width, 0, device, named, scale_n, scale_k, per_channel), layer, model.hidden,
                       top_k, request.ep, dtype if not named else "bf16", note) for experts, top_k, layer in counts]


def _channel_scales(model: ServedModel, project: str, dtype: str, has_blocks: bool) -> tuple[bool, str]:
    """Whether SGLang's names say that each output has a scale of its own, and a note where config.json does not tell.

    Its get_config_file_name appends per_channel_quant=True; vLLM's names do not have it.
    """
    if project != "sglang" or not dtype.endswith("w8a8") or has_blocks:
        return False, ""
    known = None if model.quantization is None else model.quantization.has_channel_scales
    if known is not None:
        return known, ""
    return False, ("config.json does not tell whether each output of the experts has a scale of its own; if it has, "
                   "SGLang looks for these names with ,per_channel_quant=True before .json or _down.json: rename them")


def _down(wanted: WantedFile) -> WantedFile:
    return replace(wanted, file=replace(wanted.file, down=True), layer=f"{wanted.layer}, second product")


def _missing(file: TableFile, project: str, model: ServedModel | None, request: ServingRequest) -> WantedFile:
    """A file of a log; the model gives the sizes that its name lacks. Raises MisuseError if it is another model's."""
    if not file.experts:
        return WantedFile(file, "linear layer")
    if model is None or model.top_k is None or not model.experts:
        raise MisuseError(f"{request.missing_from} names files of experts: give the --model-config of the model with "
                          "these experts, because names tell neither its width nor the experts per token")
    shared = file.experts == model.experts + (model.shared_experts or 0) != model.experts
    misfit = ""
    if not shared and model.experts % file.experts:
        misfit = f"E={file.experts} is no GPU's share of its {model.experts} experts"
    elif model.inside % file.n:
        misfit = f"N={file.n} is no GPU's share of its experts' width of {model.inside}"
    if misfit:
        raise MisuseError(f"{request.missing_from} names {file.name(project)}, which is no file of the model in "
                          f"{request.model_config} ({misfit}); give the config.json of the model that the server runs")
    return WantedFile(file, "experts", model.hidden, model.top_k + (model.shared_experts or 0 if shared else 0),
                      1 if shared else model.experts // file.experts)


Layers = dict[tuple[int, int], str]  # (outputs, inputs) -> the layer


def linear_layers(model: ServedModel, gpus: int) -> Layers:
    """The sizes of the layers outside the experts, after tensor parallelism, each with the first layer of that size.

    vLLM and SGLang fuse query, key and value, and gate and up. Raises MisuseError if the GPUs do not divide a size.
    """
    layers: Layers = {}
    for name, outputs, inputs in [*_attention(model, gpus), *_feed_forward(model, gpus)]:
        layers.setdefault((outputs, inputs), name)
    return layers


def _attention(model: ServedModel, gpus: int) -> list[tuple[str, int, int]]:
    if model.heads is None:
        return []
    heads = part(model.heads, gpus, "num_attention_heads")
    if model.latent_rank is not None:
        return _latent_attention(model, heads)
    width = model.head_width or model.hidden // model.heads
    shared = model.key_value_heads or model.heads
    keys = part(shared, gpus, "num_key_value_heads") if shared >= gpus else 1  # a head is copied to several GPUs
    queries = heads * (2 if model.gated_attention else 1)
    return [("query, key and value", (queries + 2 * keys) * width, model.hidden),
            ("attention's output", model.hidden, heads * width)]


def _latent_attention(model: ServedModel, heads: int) -> list[tuple[str, int, int]]:
    """DeepSeek's attention: the projections down to the latents are on every GPU, those up are divided by heads."""
    rank, rotary, plain = model.latent_rank or 0, model.rotary_width or 0, model.plain_width or 0
    value = model.value_width or plain
    layers = [("latents up to keys and values", heads * (plain + value), rank),
              ("attention's output", model.hidden, heads * value)]
    if model.query_rank is None:
        return [("query", heads * (plain + rotary), model.hidden), ("latent", rank + rotary, model.hidden), *layers]
    return [("latents", model.query_rank + rank + rotary, model.hidden),
            ("latent up to queries", heads * (plain + rotary), model.query_rank), *layers]


def _feed_forward(model: ServedModel, gpus: int) -> list[tuple[str, int, int]]:
    """Layers without experts, and the experts that every token goes to."""
    widths: list[tuple[str, int, str]] = []
    dense = model.dense_width or model.width
    if dense is not None and (not model.experts or model.first_dense or model.dense_width):
        widths.append(("feed-forward", dense, "intermediate_size"))
    if model.shared_width:
        widths.append(("shared expert", model.shared_width, "shared_expert_intermediate_size"))
    elif model.shared_experts and model.experts:
        widths.append(("shared experts", model.shared_experts * model.inside, "shared experts' width"))
    layers = []
    for name, width, field in widths:
        own = part(width, gpus, field)
        layers += [(f"{name}: gate and up", 2 * own, model.hidden), (f"{name}: down", model.hidden, own)]
    return layers
