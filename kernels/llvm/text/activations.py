"""Activations: the formulas of neural networks' activation functions, by the names that PyTorch gives them.

Each takes the activation's parameters and returns the lines of a formula of one operand, x.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Line = tuple[str | int | float, ...]  # (operation, *arguments); see `formula.Formula`


def _hardtanh(low: float = -1.0, high: float = 1.0) -> tuple[Line, ...]:
    return (("clamp", 0, low, high),)


def _hardsigmoid() -> tuple[Line, ...]:
    return ("add", 0, 3.0), ("clamp", 1, 0.0, 6.0), ("mul", 2, 1 / 6)


def _gelu_tanh() -> tuple[Line, ...]:
    """x (1 + tanh(u)) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    scale = 2 * math.sqrt(2 / math.pi)
    return (("mul", 0, 0), ("mul", 1, 0.044715 * scale), ("add", 2, scale), ("mul", 3, 0), ("sigmoid", 4),
            ("mul", 0, 5))


def _elu(alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> tuple[Line, ...]:
    return (("min", 0, 0.0), ("mul", 1, input_scale), ("expm1", 2), ("mul", 3, alpha), ("gt", 0, 0.0),
            ("where", 5, 0, 4), ("mul", 6, scale))


def _softplus(beta: float = 1.0, threshold: float = 20.0) -> tuple[Line, ...]:
    return (("mul", 0, beta), ("gt", 1, threshold), ("min", 1, threshold), ("exp", 3), ("log1p", 4),
            ("div", 5, beta), ("where", 2, 0, 6))


def _mish() -> tuple[Line, ...]:
    """x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2); the fraction is 1 in fp32 above 20."""
    return (("min", 0, 20.0), ("exp", 1), ("add", 2, 2.0), ("mul", 2, 3), ("add", 4, 2.0), ("div", 4, 5),
            ("mul", 0, 6))


ACTIVATIONS: dict[str, Callable[..., tuple[Line, ...]]] = {
    "none": lambda: (),
    "relu": lambda: (("relu", 0),),
    "relu6": lambda: _hardtanh(0.0, 6.0),
    "hardtanh": _hardtanh,
    "hardswish": lambda: (("add", 0, 3.0), ("clamp", 1, 0.0, 6.0), ("mul", 0, 2), ("mul", 3, 1 / 6)),
    "hardsigmoid": _hardsigmoid,
    "sigmoid": lambda: (("sigmoid", 0),),
    "silu": lambda: (("sigmoid", 0), ("mul", 0, 1)),
    "quick_gelu": lambda: (("mul", 0, 1.702), ("sigmoid", 1), ("mul", 0, 2)),
    "tanh": lambda: (("tanh", 0),),
    "gelu": lambda: (("mul", 0, math.sqrt(0.5)), ("erf", 1), ("add", 2, 1.0), ("mul", 0, 0.5), ("mul", 4, 3)),
    "gelu_tanh": _gelu_tanh,
    "leaky_relu": lambda slope=0.01: (("mul", 0, slope), ("gt", 0, 0.0), ("where", 2, 0, 1)),
    "elu": _elu,
    "softplus": _softplus,
    "mish": _mish,
}
