"""Peers: PyTorch's operations (cuBLAS and cuDNN on a GPU, oneDNN on a CPU), torch.compile, and NVIDIA's heuristics.

Before timing each is checked against the reference in float64, with the tolerance that our kernels have.
nvidia-matmul-heuristics is an optional package that answers analytically. It is a peer to time: nothing here learns
from it, and its answers are in no data set.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from benchmarks.common.contest import Contestant
from benchmarks.kernels.problem_sets import window_of
from seqtune.errors import UnavailableError, one_line
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Expected

COMPILED = "torch.compile max-autotune"
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
PRECISIONS = {"fp16": "HSH", "bf16": "TST", "fp32": "SSS"}  # the heuristics' names: operands, sum, result
LOOSER = 4.0  # a library may sum in another order or element type; a wrong result is off by far more

Calls = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]  # method -> the call, and its result in our layout


def torch_contestants(problem: Problem, operands: Operands, expected: Expected, device: str,
                      compiled: bool) -> tuple[list[Contestant], list[str]]:
    """Make PyTorch's contestants on a device of PyTorch, and notes about those that are left out.

    `compiled` says whether torch.compile takes part. Operations other than products and convolutions have no peers.
    """
    import torch

    torch.backends.cudnn.benchmark = True  # cuDNN tries its algorithms in the first call, which is not timed
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if problem.type not in ("gemm", "conv2d") or problem["dtype"] not in DTYPES:
        return [], []
    dtype = getattr(torch, DTYPES[str(problem["dtype"])])
    tensors = {name: torch.from_numpy(array.copy()).to(device, dtype) for name, array in operands.items()}
    calls = _products(problem, tensors) if problem.type == "gemm" else _convolutions(problem, tensors)
    if not compiled:
        del calls[COMPILED]
    contestants, notes = [], []
    for method, (call, result) in calls.items():
        try:
            error = expected.error(result(call()).float().cpu().contiguous().numpy())
        except Exception as failure:  # compilers and libraries raise errors of their own; the others go on
            notes.append(f"{problem.brief()}: {method} is left out: {one_line(f'{type(failure).__name__}: {failure}')}")
            continue
        if math.isnan(error) or error > LOOSER * expected.tolerance:
            notes.append(f"{problem.brief()}: {method} is left out: its error is {error:.1e}")
            continue
        contestants.append(Contestant(method, call, error))
    return contestants, notes


def _products(problem: Problem, tensors: Mapping[str, Any]) -> Calls:
    import torch

    a = tensors["x"].T if problem["trans_a"] == "yes" else tensors["x"]
    b = tensors["weights"].T if problem["trans_b"] == "yes" else tensors["weights"]
    compiled = torch.compile(torch.matmul, mode="max-autotune-no-cudagraphs", dynamic=False)
    same = _same
    return {"torch.matmul": (partial(torch.matmul, a, b), same), COMPILED: (partial(compiled, a, b), same)}


def _convolutions(problem: Problem, tensors: Mapping[str, Any]) -> Calls:
    import torch
    from torch.nn.functional import conv2d

    nhwc = problem["layout"] == "NHWC"
    x = tensors["x"].permute(0, 3, 1, 2) if nhwc else tensors["x"]
    rest: tuple[Any, ...] = (None, *window_of(problem))
    last, weights = torch.channels_last, tensors["weights"]
    plain = x.contiguous(), weights.contiguous()
    channels_last = x.contiguous(memory_format=last), weights.contiguous(memory_format=last)
    compiled = torch.compile(conv2d, mode="max-autotune-no-cudagraphs", dynamic=False)
    result = _to_nhwc if nhwc else _same
    return {"conv2d NCHW": (partial(conv2d, *plain, *rest), result),
            "conv2d channels_last": (partial(conv2d, *channels_last, *rest), result),
            COMPILED: (partial(compiled, *(channels_last if nhwc else plain), *rest), result)}


def _same(y: Any) -> Any:
    return y


def _to_nhwc(y: Any) -> Any:
    return y.permute(0, 2, 3, 1)


@cache
def _heuristics() -> Any:
    """NVIDIA's package. Raises UnavailableError if it is not installed."""
    try:
        return importlib.import_module("nvMatmulHeuristics")
    except (ImportError, OSError) as error:
        raise UnavailableError(f"nvidia-matmul-heuristics is not usable here: {error!s:.100}") from None


def gpu_of(model: str, names: list[str]) -> str | None:
    """The package's name of a GPU: the first one whose letters and digits begin the model's, SXM before PCIe."""
    words = re.sub(r"[^A-Z0-9]+", " ", model.upper()).split()
    order = sorted(names, key=lambda name: ("SXM" not in name, name))
    for name in order:
        first, *rest = name.split("_")
        number = first if any(letter.isdigit() for letter in first) else "".join(rest[:1])
        if number in words:
            return name
    return None


@cache
def _interface(gpu: str, layout: str, precision: str) -> Any:
    """The package's interface with the table of a layout loaded."""
    library = _heuristics()
    heuristics = library.NvMatmulHeuristicsInterfaceEx(
        backend=library.NvMatmulHeuristicsTarget.TRITON,
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        gpu=getattr(library.NvMatmulHeuristicsNvidiaGpu, gpu))
    heuristics.loadInternalDiscoverySet(getattr(library.NvMatmulHeuristicsMatmulLayout, layout), precision=precision)
    return heuristics


def heuristics_answer(problem: Problem, model: str) -> Mapping[str, int]:
    """The first answer for a matrix product on a GPU, in the words of triton.gemm.

    Raises UnavailableError if the package is missing or does not know the GPU or the element type.
    """
    library = _heuristics()
    gpu = gpu_of(model, [name for name in dir(library.NvMatmulHeuristicsNvidiaGpu) if name[0].isupper()])
    precision = PRECISIONS.get(str(problem["dtype"]))
    if gpu is None or precision is None:
        raise UnavailableError(f"nvidia-matmul-heuristics does not know {model} with {problem['dtype']}")
    layout = "".join("T" if problem[f"trans_{operand}"] == "yes" else "N" for operand in "ab") + "_ROW_MAJOR"
    heuristics = _interface(gpu, layout, precision)
    asked = heuristics.makeNvMatmulHeuristicsProblem(
        problem.size("m"), problem.size("n"), problem.size("k"),
        getattr(library.NvMatmulHeuristicsMatmulLayout, layout))
    answers = heuristics.get(asked, 1, precision=precision)
    if not answers:
        raise UnavailableError(f"nvidia-matmul-heuristics has no answer for {problem.brief()}")
    answer = answers[0]["kernel"]
    warps = (answer.cta_tile_m // answer.warp_tile_m) * (answer.cta_tile_n // answer.warp_tile_n)
    return {"BLOCK_M": answer.cta_tile_m, "BLOCK_N": answer.cta_tile_n, "BLOCK_K": answer.cta_tile_k,
            "GROUP_M": answer.swizzle_factor, "SPLIT_K": answer.split_k, "num_warps": warps,
            "num_stages": answer.stages}
