"""Problems from PyTorch modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqtune.errors import ProblemError

from ..problem import Problem


def _pair(module: Any, name: str) -> tuple[int, int]:
    value = getattr(module, name)
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2:
        raise ProblemError(f"{name} {pair} is not that of a 2-D convolution")
    return int(pair[0]), int(pair[1])


def _dtype(module: Any) -> str:
    name = str(getattr(getattr(module, "weight", None), "dtype", "torch.float32"))
    known = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16", "torch.int8": "int8"}
    if name not in known:
        raise ProblemError(f"weights of {name[:40]}; known are {', '.join(known)}")
    return known[name]


def from_conv2d(module: Any, input_shape: Sequence[int], layout: str = "NCHW") -> Problem:
    """The problem that a torch.nn.Conv2d solves on an input of (N, C, H, W) or (C, H, W). Raises ProblemError.

    The shape is PyTorch's, (N, C, H, W) for both layouts; `layout="NHWC"` is its channels_last.
    """
    wanted = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
    if any(not hasattr(module, name) for name in wanted) or getattr(module, "transposed", False):
        raise ProblemError(f"a {type(module).__name__} is no Conv2d")
    if module.padding_mode != "zeros":
        raise ProblemError(f"padding_mode={module.padding_mode!r:.40}; only zeros can be described")
    shape = tuple(int(size) for size in input_shape)
    shape = (1, *shape) if len(shape) == 3 else shape
    if len(shape) != 4 or shape[1] != module.in_channels:
        raise ProblemError(f"an input of shape {tuple(input_shape)} does not fit; it should be "
                           f"(batch, {module.in_channels}, height, width)")
    r, s = _pair(module, "kernel_size")
    dilation_h, dilation_w = _pair(module, "dilation")
    stride_h, stride_w = _pair(module, "stride")
    if module.padding == "valid":
        pad_h, pad_w = 0, 0
    elif module.padding == "same":
        both = (dilation_h * (r - 1), dilation_w * (s - 1))
        if both[0] % 2 or both[1] % 2:
            raise ProblemError(f"padding='same' of an even {r}x{s} filter is not the same on both sides")
        pad_h, pad_w = both[0] // 2, both[1] // 2
    else:
        pad_h, pad_w = _pair(module, "padding")
    return Problem.make(
        "conv2d", n=shape[0], c=shape[1], h=shape[2], w=shape[3], k=int(module.out_channels), r=r, s=s,
        pad_h=pad_h, pad_w=pad_w, stride_h=stride_h, stride_w=stride_w, dilation_h=dilation_h, dilation_w=dilation_w,
        groups=int(module.groups), dtype=_dtype(module), layout=layout,
        bias="no" if getattr(module, "bias", None) is None else "yes")


def from_linear(module: Any, input_shape: Sequence[int]) -> Problem:
    """The gemm that a torch.nn.Linear solves on an input of (..., in_features); its weights are (n, k)."""
    if not hasattr(module, "in_features") or not hasattr(module, "out_features"):
        raise ProblemError(f"a {type(module).__name__} is no Linear")
    shape = tuple(int(size) for size in input_shape)
    if not shape or shape[-1] != module.in_features:
        raise ProblemError(f"an input of shape {tuple(input_shape)} does not end in {module.in_features}")
    m = 1
    for size in shape[:-1]:
        m *= size
    return Problem.make("gemm", m=m, n=int(module.out_features), k=int(module.in_features), trans_b="yes",
                        dtype=_dtype(module), bias="no" if getattr(module, "bias", None) is None else "yes")
