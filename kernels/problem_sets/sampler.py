"""Sampler: seeded problems like those of real networks, so that a model sees more than a few networks' layers.

Sizes are those that networks use, often jittered, so that divisibility varies as magnitude does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from seqtune.errors import ProblemError

from ..problem import Problem, Value
from .similarity import near

LEAST_FLOP = {"conv2d": 2e6, "gemm": 1e6}
MOST_FLOP = {"conv2d": 1.2e9, "gemm": 1e9}  # so that a few hundred configurations are measured in a minute
LARGEST_OPERAND = 16_000_000  # bytes of any one tensor

_SIZES = (7, 8, 10, 12, 13, 14, 16, 17, 19, 20, 24, 26, 27, 28, 32, 35, 38, 40, 48, 52, 55, 56, 64, 75, 80, 96, 112,
          128, 150, 160, 192, 208, 224)
_CHANNELS = (16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 480, 512, 576, 672, 768,
             960, 1024)
_ROWS = (1, 1, 2, 4, 8, 10, 16, 32, 49, 64, 100, 128, 196, 197, 256, 384, 512)
_WIDTHS = (32, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1000, 1024, 1152, 1280, 1536, 2048, 2304,
           3072, 4096)


def sample_problems(type_name: str, count: int, seed: int, avoid: Sequence[Problem] = ()) -> list[Problem]:
    """`count` distinct problems, the same for the same seed; none is near one to avoid. Raises ProblemError."""
    draws: dict[str, Callable[[np.random.Generator], dict[str, Value]]] = {"conv2d": _conv2d, "gemm": _gemm}
    if type_name not in draws:
        raise ProblemError(f"no sampler of {type_name[:40]!r}; there are {', '.join(draws)}")
    generator = np.random.default_rng(seed)
    found: dict[Problem, None] = {}
    for _ in range(200 * count + 1000):
        if len(found) >= count:
            break
        try:
            problem = Problem.make(type_name, **draws[type_name](generator))
        except ProblemError:
            continue  # a filter larger than its input, for one
        if (LEAST_FLOP[type_name] <= problem.size("flop") <= MOST_FLOP[type_name]
                and max(_operands(problem)) < LARGEST_OPERAND
                and not any(near(problem, other) for other in avoid)):
            found.setdefault(problem)
    if len(found) < count:
        raise ProblemError(f"found only {len(found)} of {count} problems; avoid fewer, or ask for fewer")
    return list(found)






def _operands(problem: Problem) -> tuple[int, ...]:
    """fp32 bytes of both inputs and the output."""
    at = problem.names()
    numbers = {name: value for name, value in at.items() if isinstance(value, int)}
    if problem.type == "gemm":
        m, n, k = numbers["m"], numbers["n"], numbers["k"]
        return 4 * m * k, 4 * k * n, 4 * m * n
    n, c, k = numbers["n"], numbers["c"], numbers["k"]
    return (4 * n * c * numbers["h"] * numbers["w"], 4 * k * numbers["c_per_group"] * numbers["r"] * numbers["s"],
            4 * n * k * numbers["out_h"] * numbers["out_w"])


def _one(generator: np.random.Generator, values: Sequence[int], chances: Sequence[float] | None = None) -> int:
    return int(generator.choice(np.asarray(values), p=chances))


def _jitter(generator: np.random.Generator, value: int, chance: float, step: int = 1) -> int:
    """`value`, or with `chance` one up to a fifth away, in multiples of `step`."""
    if generator.random() >= chance:
        return value
    factor = float(generator.uniform(0.8, 1.2))
    return max(step, round(value * factor / step) * step)


def _channels(generator: np.random.Generator) -> int:
    draw = generator.random()
    if draw < 0.06:
        return _one(generator, (1, 3, 4, 6))  # images and their like
    value = _jitter(generator, _one(generator, _CHANNELS), 0.4, step=8)
    return _jitter(generator, value, 1.0) if draw > 0.88 else value


def _conv2d(generator: np.random.Generator) -> dict[str, Value]:
    h = _jitter(generator, _one(generator, _SIZES), 0.35)
    w = h if generator.random() < 0.85 else _jitter(generator, h, 1.0)
    r = _one(generator, (1, 3, 5, 7), (0.38, 0.48, 0.09, 0.05))
    s = r if generator.random() < 0.95 else _one(generator, (1, 3, 5))
    stride = _one(generator, (1, 2), (0.75, 0.25))
    dilation = 2 if r > 1 and stride == 1 and generator.random() < 0.06 else 1
    same = generator.random() < 0.88
    c, k, groups = _channels(generator), _channels(generator), 1
    draw = generator.random()
    if draw < 0.12 and r > 1:
        k = groups = c  # depthwise
    elif draw < 0.18:
        groups = _one(generator, (2, 4, 8, 32))
        c, k = max(1, c // groups) * groups, max(1, k // groups) * groups
    return {
        "n": _one(generator, (1, 2, 4, 8), (0.85, 0.06, 0.05, 0.04)), "c": c, "h": h, "w": w, "k": k, "r": r, "s": s,
        "pad_h": dilation * (r - 1) // 2 if same else 0, "pad_w": dilation * (s - 1) // 2 if same else 0,
        "stride_h": stride, "stride_w": stride, "dilation_h": dilation, "dilation_w": dilation, "groups": groups,
        "layout": "NHWC" if generator.random() < 0.15 else "NCHW",
    }


def _gemm(generator: np.random.Generator) -> dict[str, Value]:
    return {
        "m": _jitter(generator, _one(generator, _ROWS), 0.4),
        "n": _jitter(generator, _one(generator, _WIDTHS), 0.4, step=1 if generator.random() < 0.25 else 8),
        "k": _jitter(generator, _one(generator, _WIDTHS), 0.4, step=1 if generator.random() < 0.25 else 8),
        "trans_a": "yes" if generator.random() < 0.06 else "no",
        "trans_b": "yes" if generator.random() < 0.4 else "no",
    }
