"""PyTorch's operations as peers: cuBLAS and cuDNN on a GPU (oneDNN on a CPU), and what torch.compile makes of them.

Before timing each is checked against the reference in float64, with the tolerance that our kernels have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.common.contest import Contestant
from seqtune.errors import one_line
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Expected

COMPILED = "torch.compile max-autotune"
PEERS: Mapping[str, tuple[str, ...]] = {  # by operation
    "gemm": ("torch.matmul", COMPILED),
    "conv2d": ("conv2d NCHW", "conv2d channels_last", COMPILED),
}
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
LOOSER = 4.0  # a library may sum in another order or element type; a wrong result is off by far more

Calls = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]  # method -> the call, and its result in our layout


def peers_of(problem: Problem, compiled: bool) -> tuple[str, ...]:
    """The names of the peers of a problem, with torch.compile or without it."""
    return tuple(method for method in PEERS[problem.type] if compiled or method != COMPILED)


def torch_contestants(problem: Problem, operands: Operands, expected: Expected, device: str,
                      compiled: bool) -> tuple[list[Contestant], list[str]]:
    """Make PyTorch's contestants on a device of PyTorch, and notes about those that are left out.

    `compiled` says whether torch.compile takes part.
    """
    import torch

    torch.backends.cudnn.benchmark = True  # cuDNN tries its algorithms in the first call, which is not timed
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
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
    stride, padding, dilation = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                 for name in ("stride", "pad", "dilation"))
    rest: tuple[Any, ...] = (None, stride, padding, dilation, problem.size("groups"))
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
