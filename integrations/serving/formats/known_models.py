"""KnownModels: sizes of served language models, for what the names of vLLM's and SGLang's files do not tell.

A file of experts names their number and width on one GPU, not the model's width nor the experts of a token. Both follow
from the model that has such experts. Sources: the models' config.json on Hugging Face.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from seqtune.kernels.problem import Problem

MOST_GPUS = 32  # that share the width or the experts of a model; a power of two


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of one model."""

    experts: int
    width: int  # inside an expert
    hidden: int  # of the model
    top_k: int  # experts of a token


MODELS: dict[str, Experts] = {
    "Mixtral-8x7B": Experts(8, 14336, 4096, 2), "Mixtral-8x22B": Experts(8, 16384, 6144, 2),
    "Grok-1": Experts(8, 32768, 6144, 2), "DBRX": Experts(16, 10752, 6144, 4),
    "Phi-3.5-MoE": Experts(16, 6400, 4096, 2), "Jamba-1.5": Experts(16, 14336, 4096, 2),
    "Llama-4-Scout": Experts(16, 8192, 5120, 1), "Llama-4-Maverick": Experts(128, 8192, 5120, 1),
    "OLMoE": Experts(64, 1024, 2048, 8), "Qwen1.5-MoE": Experts(60, 1408, 2048, 4),
    "Qwen2-57B": Experts(64, 2560, 3584, 8), "Qwen3-30B": Experts(128, 768, 2048, 8),
    "Qwen3-235B": Experts(128, 1536, 4096, 8), "Qwen3-Coder-480B": Experts(160, 2560, 6144, 8),
    "Qwen3-Next": Experts(512, 512, 2048, 10), "DeepSeek-V2-Lite": Experts(64, 1408, 2048, 6),
    "DeepSeek-V2": Experts(160, 1536, 5120, 6), "DeepSeek-V3": Experts(256, 2048, 7168, 8),
    "Kimi-K2": Experts(384, 2048, 7168, 8), "GLM-4.5": Experts(160, 1536, 5120, 8),
    "GLM-4.5-Air": Experts(128, 1408, 4096, 8), "gpt-oss-20b": Experts(32, 2880, 2880, 4),
    "gpt-oss-120b": Experts(128, 2880, 2880, 4), "ERNIE-4.5-300B": Experts(64, 3584, 8192, 8),
    "MiniMax-M2": Experts(256, 1536, 3072, 8), "Nemotron-3-Nano": Experts(128, 1856, 2688, 6),
    "LFM2-8B": Experts(32, 1792, 2048, 4), "Hunyuan-A13B": Experts(64, 3072, 4096, 8),
    "Kimi-Linear": Experts(256, 1024, 2304, 8),
}


def completed(problem: Problem) -> Problem:
    """The problem with the model's width and the experts of a token, where they are unknown.

    They are those of the model with such experts, which GPUs may share, or else of the model with the most similar
    number and width. Problems of other operations stay as they are.
    """
    if problem.type != "fused_moe" or (problem["hidden"] is not None and problem["top_k"] is not None):
        return problem
    features = dict(problem)
    hidden, top_k, parallel = _sizes(problem.size("experts"), problem.size("intermediate"))
    return Problem.make("fused_moe", **{**features, "hidden": features["hidden"] or hidden,
                                        "top_k": features["top_k"] or top_k, "expert_parallel": parallel})


def _sizes(experts: int, width: int) -> tuple[int, int, int]:
    """The model's width, the experts of a token, and the GPUs that share the experts."""
    for model in MODELS.values():  # one shared expert may be counted as one more
        if experts - model.experts in (0, 1) and _parts(model.width, width):
            return model.hidden, model.top_k + experts - model.experts, 1
    for model in MODELS.values():
        if model.width == width and model.experts % experts == 0:
            return model.hidden, model.top_k, model.experts // experts
    nearest = min(MODELS.values(), key=lambda model: (abs(math.log2(model.experts / experts)),
                                                      abs(math.log2(model.width / width))))
    return nearest.hidden, nearest.top_k, max(1, -(-nearest.top_k // experts))


def _parts(whole: int, part: int) -> bool:
    """Whether the part is that of one of 1, 2, 4, ... MOST_GPUS GPUs."""
    gpus, rest = divmod(whole, part)
    return rest == 0 and gpus & (gpus - 1) == 0 and 0 < gpus <= MOST_GPUS
