"""Tuned files in SGLang's wheel, with what their names do not tell: the model's width and the experts per token."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from seqtune.data.serving.gpu import gpu_of
from seqtune.data.serving.table_file import TableFile
from seqtune.errors import DeviceError, FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.triton.fused_moe import KERNEL as FUSED_MOE

LARGEST_MEMBER = 1_000_000  # bytes
KEYS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")

# experts, width inside an expert, hidden width, experts per token; from the models' config.json
MODELS: dict[str, tuple[int, int, int, int]] = {
    "Mixtral-8x7B": (8, 14336, 4096, 2), "Mixtral-8x22B": (8, 16384, 6144, 2), "Grok-1": (8, 32768, 6144, 2),
    "DBRX": (16, 10752, 6144, 4), "Phi-3.5-MoE": (16, 6400, 4096, 2), "Jamba-1.5": (16, 14336, 4096, 2),
    "Llama-4-Scout": (16, 8192, 5120, 1), "Llama-4-Maverick": (128, 8192, 5120, 1),
    "OLMoE": (64, 1024, 2048, 8), "Qwen1.5-MoE": (60, 1408, 2048, 4), "Qwen2-57B": (64, 2560, 3584, 8),
    "Qwen3-30B": (128, 768, 2048, 8), "Qwen3-235B": (128, 1536, 4096, 8), "Qwen3-Coder-480B": (160, 2560, 6144, 8),
    "Qwen3-Next": (512, 512, 2048, 10), "DeepSeek-V2-Lite": (64, 1408, 2048, 6), "DeepSeek-V2": (160, 1536, 5120, 6),
    "DeepSeek-V3": (256, 2048, 7168, 8), "Kimi-K2": (384, 2048, 7168, 8), "GLM-4.5": (160, 1536, 5120, 8),
    "GLM-4.5-Air": (128, 1408, 4096, 8), "gpt-oss-20b": (32, 2880, 2880, 4), "gpt-oss-120b": (128, 2880, 2880, 4),
    "ERNIE-4.5-300B": (64, 3584, 8192, 8), "MiniMax-M2": (256, 1536, 3072, 8),
}
MOST_GPUS = 32  # of one model; a power of two


@dataclass(frozen=True, slots=True)
class TunedChoice:
    """The tuned settings of one number of tokens."""

    source: str  # the file
    model: str  # of experts, or the sizes of a linear layer
    device: Device
    problem: Problem
    settings: dict[str, int]


def model_of(file: TableFile) -> tuple[str, int, int] | None:
    """The model of a file of experts, its width and its experts per token; None if no known model has the sizes.

    Its experts may be divided among GPUs, or its width may be; a shared expert may be one more.
    """
    for name, (experts, width, hidden, top_k) in MODELS.items():
        gpus = width // file.n
        if width % file.n == 0 and gpus & (gpus - 1) == 0 and gpus <= MOST_GPUS:
            extra = file.experts - experts
            if extra in (0, 1):
                return name, hidden, top_k + extra
    for name, (experts, width, hidden, top_k) in MODELS.items():
        if width == file.n and experts % file.experts == 0:
            return name, hidden, top_k
    return None


def tuned_choices(wheel: Path, left_out: Counter[str]) -> Iterator[TunedChoice]:
    """The choices in a wheel; counts in `left_out` why entries are not judged. Raises FormatError."""
    try:
        archive = zipfile.ZipFile(wheel)
    except (OSError, zipfile.BadZipFile) as error:
        raise FormatError(f"{wheel} is no wheel: {error!s:.80}") from None
    with archive:
        for entry in archive.infolist():
            path = PurePosixPath(entry.filename)
            if path.suffix != ".json" or not path.name.startswith(("E=", "N=")) or "lora" in path.parts:
                continue
            if entry.file_size > LARGEST_MEMBER:
                raise FormatError(f"{path.name} in {wheel} is too large")
            yield from _choices(path, json.loads(archive.read(entry)), left_out)


def _choices(path: PurePosixPath, table: dict[str, dict[str, int] | None],
             left_out: Counter[str]) -> Iterator[TunedChoice]:
    try:
        file = TableFile.parse(path.name)
        device = gpu_of(file.device)
    except (FormatError, DeviceError) as error:
        reason = "a GPU without known facts" if isinstance(error, DeviceError) else "another kind of file"
        left_out[reason] += len(table)
        return
    found = model_of(file) if file.experts else (f"{file.n} x {file.k}", 0, 0)
    if found is None:
        left_out["experts of a model that is not in the program's list"] += len(table)
        return
    model, hidden, top_k = found
    parallel = MODELS[model][0] // file.experts if file.experts and file.n == MODELS[model][1] else 1
    for tokens, settings in table.items():
        if settings is None or not set(KEYS) <= set(settings):
            left_out["no value of every parameter"] += 1
        elif {"SPLIT_K", "SWAP_AB", "num_ctas"} & set(settings):
            left_out["parameters that the family lacks"] += 1
        else:
            implied = dict(FUSED_MOE.default)
            values = {name: int(settings.get(name, implied[name])) for name in FUSED_MOE.by_name}
            yield TunedChoice(f"{path.parent.name}/{path.name}", model, device,
                              file.problem(int(tokens), hidden, top_k, max(1, parallel)), values)
