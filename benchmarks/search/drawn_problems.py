"""Drawn problems: layers of networks that no data hold, drawn at random for comparisons of searches.

The candidates are all layers of the networks below, written from the architectures themselves. A candidate is left out
if it is similar to a problem that was measured for training or evaluation, or to one of the locked test set; if it
takes so long to compute that a search would take minutes, or so short that times are those of waking threads; if its
search space is so small that a hundred trials search a third of it; or if building the space would take too long.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.data.locked_problems import locked_problems
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import further_training
from seqtune.kernels.problem_sets.collected import problems as collected
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.task import Task

FLOP = (5_000_000, 250_000_000)  # a problem's work: above the cost of a launch, and 2 ms or less on one core
OPENCL_FLOP = 30_000_000  # least of an OpenCL problem: PoCL wakes threads for every launch, and kernels of 80 us differ
#                           by 10 % from run to run
CONFIGURATIONS = (300, 20_000)  # least and most in a task
OPENCL_CONFIGURATIONS = 700  # most of an OpenCL task: PoCL takes half a second to build one


def _conv(c: int, size: int, k: int, r: int, stride: int = 1, groups: int = 1) -> Problem:
    return Problem.make("conv2d", n=1, c=c, h=size, w=size, k=k, r=r, s=r, pad_h=r // 2, pad_w=r // 2,
                        stride_h=stride, stride_w=stride, groups=groups)


def _googlenet() -> Iterator[Problem]:
    """Szegedy et al. (2015), table 1: input channels, size, and the filters of the six convolutions of each module."""
    yield _conv(64, 56, 64, 1)
    yield _conv(64, 56, 192, 3)
    modules = ((192, 28, 64, 96, 128, 16, 32, 32), (256, 28, 128, 128, 192, 32, 96, 64),
               (480, 14, 192, 96, 208, 16, 48, 64), (512, 14, 160, 112, 224, 24, 64, 64),
               (512, 14, 128, 128, 256, 24, 64, 64), (512, 14, 112, 144, 288, 32, 64, 64),
               (528, 14, 256, 160, 320, 32, 128, 128), (832, 7, 256, 160, 320, 32, 128, 128),
               (832, 7, 384, 192, 384, 48, 128, 128))
    for c, size, direct, narrow3, wide3, narrow5, wide5, pooled in modules:
        for k in (direct, narrow3, narrow5, pooled):
            yield _conv(c, size, k, 1)
        yield _conv(narrow3, size, wide3, 3)
        yield _conv(narrow5, size, wide5, 5)


def _squeezenet() -> Iterator[Problem]:
    """Iandola et al. (2016), version 1.1: input channels, size, squeeze and expand filters of each fire module."""
    modules = ((64, 55, 16, 64), (128, 55, 16, 64), (128, 27, 32, 128), (256, 27, 32, 128), (256, 13, 48, 192),
               (384, 13, 48, 192), (384, 13, 64, 256), (512, 13, 64, 256))
    for c, size, squeeze, expand in modules:
        yield _conv(c, size, squeeze, 1)
        yield _conv(squeeze, size, expand, 1)
        yield _conv(squeeze, size, expand, 3)
    yield _conv(512, 13, 1000, 1)


def _efficientnet() -> Iterator[Problem]:
    """Tan and Le (2019), table 1 (B0): input channels, size, output channels, filter, first stride of each stage."""
    stages = ((16, 112, 24, 3, 2), (24, 56, 40, 5, 2), (40, 28, 80, 3, 2), (80, 14, 112, 5, 1), (112, 14, 192, 5, 2),
              (192, 7, 320, 3, 1))
    for c, size, k, r, stride in stages:
        yield _conv(c, size, 6 * c, 1)
        yield _conv(6 * c, size, 6 * c, r, stride, groups=6 * c)
        yield _conv(6 * c, size // stride, k, 1)


def _products() -> Iterator[Problem]:
    """The matrix products of DeiT-Tiny and DeiT-Small (197 tokens), MiniLM and T5-Small (64 and 200 tokens)."""
    for rows, width in ((197, 192), (197, 384), (64, 384), (200, 384), (64, 512), (200, 512)):
        for n, k in ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width)):
            yield Problem.make("gemm", m=rows, n=n, k=k, trans_b="yes")


NETWORKS: tuple[Callable[[], Iterator[Problem]], ...] = (_googlenet, _squeezenet, _efficientnet, _products)


def candidates(data: Iterable[Problem] = ()) -> list[Problem]:
    """The layers of all networks that are of a suitable size and not similar to a known problem, or one of `data`."""
    split = collected()
    known = SimilarityIndex([*split.training, *split.held_out, *further_training(), *locked_problems(), *data])
    layers = dict.fromkeys(layer for network in NETWORKS for layer in network())
    return [layer for layer in layers if FLOP[0] <= _flop(layer) <= FLOP[1] and not known.has_near(layer)]


def drawn(devices: Sequence[Device], count: int, seed: int = 0,
          data: Iterable[Problem] = ()) -> list[tuple[Device, Problem]]:
    """Draw `count` problems, on the devices in turn; every problem occurs once.

    Convolutions and products take turns on each device, as long as there are both. Fewer problems are returned if there
    are not enough candidates.
    """
    problems = candidates(data)
    random.Random(seed).shuffle(problems)
    chosen: list[tuple[Device, Problem]] = []
    while len(chosen) < count:
        device = devices[len(chosen) % len(devices)]
        last = next((problem.type for earlier, problem in reversed(chosen) if earlier == device), "")
        in_turn = sorted(problems, key=lambda problem: problem.type == last)  # stable: keeps the drawn order
        suitable = next((problem for problem in in_turn if is_searchable(problem, device)), None)
        if suitable is None:
            break
        problems.remove(suitable)
        chosen.append((device, suitable))
    return chosen


def _flop(problem: Problem) -> int:
    flop = problem.names().get("flop")
    return flop if isinstance(flop, int) else 0


def is_searchable(problem: Problem, device: Device) -> bool:
    """Whether the problem and its space on a device are of a size that a search says something about."""
    is_opencl = device.backend == "opencl"
    if is_opencl and _flop(problem) < OPENCL_FLOP:
        return False
    least, most = CONFIGURATIONS
    return least <= len(Task.of(problem, device)) <= (OPENCL_CONFIGURATIONS if is_opencl else most)
