"""Problems of a run: matrix products of language and vision models, odd ones, ResNet-50's convolutions, or a file's.

Whole models are held out, and no training problem is near a held-out one, so that models are evaluated on new shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from seqtune.errors import MisuseError
from seqtune.kernels.operations.feature import DTYPE
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.problem_sets.parse import problem_set
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

# Output and input features of linear layers (n, k), from the models' public configurations; tp: tensor parallelism.
LAYERS: dict[str, tuple[tuple[int, int], ...]] = {
    "llama-3-8b tp4": ((1536, 4096), (4096, 1024), (7168, 4096), (4096, 3584)),
    "llama-3-8b": ((6144, 4096), (4096, 4096)),
    "qwen-2.5-7b tp2": ((2304, 3584), (3584, 3584), (3584, 1792), (3584, 9472)),
    "qwen-2.5-0.5b": ((1152, 896), (896, 896), (9728, 896), (896, 4864)),
    "deepseek-v3 tp8": ((1536, 7168), (3072, 1536), (4096, 512), (7168, 2048), (4608, 7168), (7168, 2304)),
    "gpt-2": ((2304, 768), (768, 768), (3072, 768), (768, 3072)),
    "bert-large": ((3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096)),
    "vit-l": ((3072, 1024), (1000, 1024)),
    "whisper-small": ((768, 768), (3072, 768), (12992, 768)),
    "stable-diffusion": ((320, 320), (2560, 320), (640, 640), (5120, 640), (1280, 1280), (10240, 1280)),
    "llama-3-70b tp8": ((1280, 8192), (8192, 1024), (3584, 8192), (8192, 3584)),
    "gemma-2-2b": ((4096, 2304), (2304, 2048), (18432, 2304), (2304, 9216)),
}
HELD_OUT = ("llama-3-70b tp8", "gemma-2-2b")
ROWS = (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # tokens at once: decoding to prefill
MOST_FLOP = 1.5e11  # the reference on the host takes half a second
MOST_OUTPUTS = 1 << 23  # numbers that are copied to the host and compared for every configuration
MOST_WEIGHTS = 1 << 25  # numbers of B, which the host packs for every shape of a tile
ODD = 0.2  # share of shapes with sizes that no model has
BATCHES = (1, 16)  # batch sizes of ResNet-50's convolutions


@dataclass(frozen=True, slots=True)
class Problems:
    """Training and held-out problems, in the order of measuring: any beginning is a fair sample."""

    ordered: tuple[Problem, ...]
    held_out: frozenset[str] = frozenset()  # Problem.key


def problems_of(names: Sequence[str], count: int) -> Problems:
    """The problems of several names in turns, at most `count` of each.

    A name is an operation and an element type (`gemm:bf16`, `conv2d:fp16`), a set of problems (`resnet18:8`) or a file.
    Raises MisuseError, ProblemError, FormatError.
    """
    parts = [_problems_of(name, count) for name in names]
    turns = chain.from_iterable(zip_longest(*(part.ordered for part in parts)))
    return Problems(tuple(dict.fromkeys(problem for problem in turns if problem is not None)),
                    frozenset().union(*(part.held_out for part in parts)))


def _problems_of(name: str, count: int) -> Problems:
    operation, _, dtype = name.partition(":")
    if operation not in ("gemm", "conv2d"):
        return Problems(tuple(problem_set(name)[:count]))
    if dtype not in DTYPE.choices:
        raise MisuseError(f"{name!r:.40} names no element type; write {operation}:{DTYPE.choices[-2]}, for example")
    return products(dtype, count) if operation == "gemm" else convolutions(dtype, count)


def products(dtype: str, count: int, seed: int = 0) -> Problems:
    """Choose `count` matrix products in an element type; every call returns the same ones."""
    held_out = [problem for name in HELD_OUT for problem in _layers(name, dtype)]
    training = [problem for name in LAYERS if name not in HELD_OUT for problem in _layers(name, dtype)]
    training = _apart(training, held_out)
    generator = np.random.default_rng(seed)
    held_out_count = max(1, min(len(held_out), count // 5))
    few = [held_out[index] for index in generator.permutation(len(held_out))[:held_out_count]]
    odd = _apart(list(_odd(dtype, round(ODD * count), generator)), held_out)
    usual = [training[index] for index in generator.permutation(len(training))[:max(0, count - len(few) - len(odd))]]
    chosen = list(dict.fromkeys([*few, *usual, *odd]))
    order = generator.permutation(len(chosen))
    return Problems(tuple(chosen[index] for index in order), frozenset(problem.key for problem in few))


def convolutions(dtype: str, count: int) -> Problems:
    """Choose at most `count` of ResNet-50's convolutions in an element type, in both layouts; a fifth is held out."""
    plain = [problem for batch in BATCHES for problem in network("resnet50", batch)]
    order = np.random.default_rng(0).permutation(len(plain))
    held_out = [_convolution(plain[index], dtype, layout) for index in order[::5] for layout in ("NCHW", "NHWC")]
    training = [_convolution(plain[index], dtype, layout) for index in order for layout in ("NCHW", "NHWC")]
    training = [problem for problem in _apart(training, held_out) if problem not in held_out]
    held_out_count = max(1, min(len(held_out), count // 5))
    held_out = held_out[:held_out_count]
    chosen = list(dict.fromkeys([*held_out, *training[:count - held_out_count]]))
    shuffled = np.random.default_rng(1).permutation(len(chosen))
    return Problems(tuple(chosen[index] for index in shuffled), frozenset(problem.key for problem in held_out))


def _layers(name: str, dtype: str) -> Iterator[Problem]:
    """The products of a model's linear layers, whose weights are stored as (n, k); GPT-2's are stored as (k, n)."""
    stored = "no" if name == "gpt-2" else "yes"
    for n, k in LAYERS[name]:
        for m in ROWS:
            if 2.0 * m * n * k <= MOST_FLOP and m * n <= MOST_OUTPUTS and n * k <= MOST_WEIGHTS:
                yield Problem.make("gemm", m=m, n=n, k=k, trans_b=stored, dtype=dtype)


def _odd(dtype: str, count: int, generator: np.random.Generator) -> Iterator[Problem]:
    """Products of random sizes, a quarter of them not multiples of 8, which vector loads need."""
    while count > 0:
        m, n, k = (round(2 ** generator.uniform(low, 12.5)) for low in (2, 5, 5))
        if generator.random() < 0.75:
            n, k = -(-n // 8) * 8, -(-k // 8) * 8
        if 2.0 * m * n * k <= MOST_FLOP and m * n <= MOST_OUTPUTS:
            count -= 1
            yield Problem.make("gemm", m=m, n=n, k=k, trans_b="yes" if generator.random() < 0.5 else "no", dtype=dtype)


def _convolution(problem: Problem, dtype: str, layout: str) -> Problem:
    return Problem.make("conv2d", **{**dict(problem), "dtype": dtype, "layout": layout})


def _apart(problems: list[Problem], held_out: Sequence[Problem]) -> list[Problem]:
    """The problems that are not near a held-out one."""
    index = SimilarityIndex(held_out)
    return [problem for problem in problems if not index.has_near(problem)]
