"""Random convolutions for MIOpen's solvers: usual and odd sizes in every direction, type and layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.gpus import device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

GPUS = ("gfx803_36", "gfx900_56", "gfx906_60", "gfx906_64", "gfx90878", "gfx90a6e", "gfx942130", "gfx1030_36")
_FILTERS = (1, 1, 1, 1, 2, 3, 3, 3, 4, 5, 6, 7, 11)
_CHANNELS = (3, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)


def gpus() -> list[Device]:
    """One or two of every generation."""
    return [device(name) for name in GPUS]


def draw(count: int, generator: np.random.Generator) -> ProblemColumns:
    """At most so many convolutions that exist; a few are ones that an unusual solver asks for."""
    def some(values: Sequence[int | str], shares: Sequence[float] | None = None) -> NDArray[np.generic]:
        return generator.choice(np.array(values), count, p=shares)

    def mixed(usual: Sequence[int], most: int) -> NDArray[np.int64]:
        return np.where(generator.random(count) < 0.6, some(usual), generator.integers(1, most, count))

    groups = np.where(generator.random(count) < 0.9, 1, some((2, 3, 4, 8, 32)))
    r = some(_FILTERS)
    s = np.where(generator.random(count) < 0.85, r, some(_FILTERS))
    deep = generator.random(count) < 0.1
    usual = generator.random(count) < 0.7  # no stride, no dilation, and the padding that keeps the size
    given = {
        "n": mixed((1, 2, 4, 8, 16, 32, 64, 128, 256), 300), "groups": groups,
        "c": groups * np.maximum(mixed(_CHANNELS, 700) // groups, 1),
        "k": groups * np.maximum(mixed(_CHANNELS, 700) // groups, 1),
        "h": mixed((7, 14, 28, 56, 112, 224), 260), "r": r, "s": s,
        "pad_h": np.where(usual, r // 2, some((0, 0, 1, 2, 3))),
        "pad_w": np.where(usual, s // 2, some((0, 0, 1, 2, 3))),
        "dtype": some(("fp32", "fp16", "bf16", "int8"), (0.5, 0.25, 0.2, 0.05)),
        "direction": some(("forward", "backward_data", "backward_weights")),
        "layout": np.where(deep, some(("NCDHW", "NDHWC")), some(("NCHW", "NHWC"), (0.65, 0.35))),
        "bias": some(("no", "yes"), (0.95, 0.05)),
        "d": np.where(deep, generator.integers(1, 20, count), 1), "t": np.where(deep, some((1, 1, 3)), 1),
    }
    given["w"] = np.where(generator.random(count) < 0.7, given["h"], mixed((7, 14, 28, 56, 112, 224), 260))
    for name in ("stride_h", "dilation_h"):
        given[name] = np.where(usual, 1, some((1, 1, 2, 3)))
        given[name[:-1] + "w"] = np.where(generator.random(count) < 0.8, given[name], some((1, 2, 3)))
    columns, sound = ProblemColumns.read("convnd", {name: column.tolist() for name, column in given.items()})
    for broken, _ in columns.refusals():
        sound &= ~broken
    return columns.take(np.flatnonzero(sound))


def solved(kernel: Kernel, columns: ProblemColumns, devices: Sequence[Device], most: int,
           generator: np.random.Generator) -> list[tuple[Problem, Device]]:
    """Questions for the kernel: at most so many of the problems, each on one of the devices on which it solves it."""
    found = []
    for place in devices:
        names = {**place.names(), **columns.values}
        rows = np.ones(len(columns), np.bool_)
        for condition in kernel.solves:
            rows &= np.broadcast_to(np.asarray(condition.expression(names), np.bool_), len(columns))
        found += [(row, place) for row in np.flatnonzero(rows).tolist()]
    chosen = [found[place] for place in generator.permutation(len(found))[:most].tolist()]
    problems = [problem for _, problem in columns.take(np.array([row for row, _ in chosen], np.int64)).problems()]
    return [(problem, place) for problem, (_, place) in zip(problems, chosen, strict=True)
            if kernel.why_not(problem, place) is None]
