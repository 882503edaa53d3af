"""Modules: functions that read properties of a torch.nn module without importing torch."""

from __future__ import annotations

from typing import Any

from seqtune.errors import ProblemError

from ..devices.element_types import BY_TORCH_NAME
from .feature import DTYPE

_DTYPES = {f"torch.{name}": dtype for name, dtype in BY_TORCH_NAME.items() if dtype in DTYPE.choices}


def pair_of(name: str, value: Any) -> tuple[int, int]:
    """The argument `name` of a 2-D layer as a pair (height, width), from a number or a pair. Raises ProblemError."""
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2:
        raise ProblemError(f"{name} {pair} has not the two values of a 2-D convolution")
    return int(pair[0]), int(pair[1])


def dtype_of(module: Any) -> str:
    """The element type of a module's weights. Raises ProblemError."""
    name = str(getattr(getattr(module, "weight", None), "dtype", "torch.float32"))
    if name not in _DTYPES:
        raise ProblemError(f"weights of {name[:40]} are not supported; supported are {', '.join(_DTYPES)}")
    return _DTYPES[name]


def has_bias(module: Any) -> str:
    """Whether a module adds a bias: "yes" or "no", the values of the feature `bias`."""
    return "no" if getattr(module, "bias", None) is None else "yes"
