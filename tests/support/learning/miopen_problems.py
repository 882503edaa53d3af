"""Random convolutions for MIOpen's solvers: usual and odd sizes in every direction, type and layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqtune.integrations.miopen.kernels.gpus import device as gpu
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

GPUS = ("gfx803_36", "gfx900_56", "gfx906_60", "gfx906_64", "gfx90878", "gfx90a6e", "gfx942130", "gfx1030_36")
_FILTERS = (1, 1, 1, 1, 2, 3, 3, 3, 4, 5, 6, 7, 11)
_CHANNELS = (3, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)


def gpus() -> list[Device]:
    """One or two GPUs of every generation."""
    return [gpu(name) for name in GPUS]


def draw(count: int, generator: np.random.Generator) -> ProblemColumns:
    """Draw at most `count` valid convolutions; a few have sizes that only unusual solvers support."""
    def choose(values: Sequence[int | str], shares: Sequence[float] | None = None) -> NDArray[np.generic]:
        return generator.choice(np.array(values), count, p=shares)

    def choose_mixed(usual: Sequence[int], most: int) -> NDArray[np.int64]:
        return np.where(generator.random(count) < 0.6, choose(usual), generator.integers(1, most, count))

    groups = np.where(generator.random(count) < 0.9, 1, choose((2, 3, 4, 8, 32)))
    r = choose(_FILTERS)
    s = np.where(generator.random(count) < 0.85, r, choose(_FILTERS))
    deep = generator.random(count) < 0.1
    usual = generator.random(count) < 0.7  # no stride, no dilation, and the padding that keeps the size
    features = {
        "n": choose_mixed((1, 2, 4, 8, 16, 32, 64, 128, 256), 300), "groups": groups,
        "c": groups * np.maximum(choose_mixed(_CHANNELS, 700) // groups, 1),
        "k": groups * np.maximum(choose_mixed(_CHANNELS, 700) // groups, 1),
        "h": choose_mixed((7, 14, 28, 56, 112, 224), 260), "r": r, "s": s,
        "pad_h": np.where(usual, r // 2, choose((0, 0, 1, 2, 3))),
        "pad_w": np.where(usual, s // 2, choose((0, 0, 1, 2, 3))),
        "dtype": choose(("fp32", "fp16", "bf16", "int8"), (0.5, 0.25, 0.2, 0.05)),
        "direction": choose(("forward", "backward_data", "backward_weights")),
        "layout": np.where(deep, choose(("NCDHW", "NDHWC")), choose(("NCHW", "NHWC"), (0.65, 0.35))),
        "bias": choose(("no", "yes"), (0.95, 0.05)),
        "d": np.where(deep, generator.integers(1, 20, count), 1), "t": np.where(deep, choose((1, 1, 3)), 1),
    }
    features["w"] = np.where(generator.random(count) < 0.7, features["h"], choose_mixed((7, 14, 28, 56, 112, 224), 260))
    for name in ("stride_h", "dilation_h"):
        features[name] = np.where(usual, 1, choose((1, 1, 2, 3)))
        features[name[:-1] + "w"] = np.where(generator.random(count) < 0.8, features[name], choose((1, 2, 3)))
    columns, valid = ProblemColumns.read("convnd", {name: column.tolist() for name, column in features.items()})
    for broken, _ in columns.refusals():
        valid &= ~broken
    return columns.take(np.flatnonzero(valid))


def solved(kernel: Kernel, columns: ProblemColumns, devices: Sequence[Device], most: int,
           generator: np.random.Generator) -> list[tuple[Problem, Device]]:
    """Choose at most `most` pairs of a problem and a device on which the kernel solves it."""
    pairs = []
    for device in devices:
        names = {**device.names(), **columns.values}
        rows = np.ones(len(columns), np.bool_)
        for condition in kernel.solves:
            rows &= np.broadcast_to(np.asarray(condition.expression(names), np.bool_), len(columns))
        pairs += [(row, device) for row in np.flatnonzero(rows).tolist()]
    chosen = [pairs[index] for index in generator.permutation(len(pairs))[:most].tolist()]
    problems = [problem for _, problem in columns.take(np.array([row for row, _ in chosen], np.int64)).problems()]
    return [(problem, device) for problem, (_, device) in zip(problems, chosen, strict=True)
            if kernel.why_not(problem, device) is None]
