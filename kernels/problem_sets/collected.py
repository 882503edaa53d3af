"""Collected problems: those that the shipped data sets measure, split into training problems and held-out ones.

`problems` are ResNet-18, ResNet-50, every other layer of VGG-16, two thirds of the transformers' matrix products and
seeded samples; MobileNet-V2, the other layers of VGG-16, the other products and a few samples are held out. A training
problem is not near a held-out one. A problem is held out on every device or on none.

`further_training` are training problems of the kinds and traits of which these have few: NHWC, bias and ReLU, batches,
dilated and oblong filters, dense 3x3 filters over many channels, images, products of one row. They stand in
`collected.txt`.

Three of every kind (`kinds.KINDS`) are the probes, on which a calibration measures a device, a problem of each kind
first, so that a short calibration sees all kinds. They have at most 6e8 FLOP each: a slow configuration takes a few
milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle

from ..cache_lines import PERIOD
from ..devices.accelerators import BACKENDS
from ..files import sections
from ..problem import Problem
from .networks import network
from .parse import parse_problem
from .sampler import sample_problems
from .similarity import SimilarityIndex

IMAGES = (1, 3, 4, 6)  # channels
RARE = 32  # problems of each kind that is rare in a plain sample: images, groups, planes that share cache sets
LARGEST_PARTLY = 6e8  # FLOP of the largest problem of `smaller_problems`


@dataclass(frozen=True)
class ProblemSplit:
    """The training problems and the held-out problems."""

    training: tuple[Problem, ...]
    held_out: tuple[Problem, ...]


@lru_cache(maxsize=1)
def problems() -> ProblemSplit:
    """Choose the problems; every call returns the same ones."""
    vgg, products = network("vgg16"), network("transformers")
    held_out = [*network("mobilenet_v2"), *vgg[::2], *products[1::3]]
    held_out += [*sample_problems("conv2d", 8, seed=2, avoid=held_out),
                 *sample_problems("gemm", 4, seed=2, avoid=held_out)]
    candidates = [*network("resnet18"), *network("resnet50"), *vgg[1::2],
                  *(problem for index, problem in enumerate(products) if index % 3 != 1)]
    candidates += sample_problems("conv2d", 96, seed=1, avoid=held_out)
    candidates += sample_problems("gemm", 24, seed=1, avoid=held_out)
    drawn = sample_problems("conv2d", 1200, seed=3, avoid=held_out)
    candidates += [problem for problem in drawn if problem["c"] in IMAGES][:RARE]
    candidates += [problem for problem in drawn if problem["groups"] != 1][:RARE]
    candidates += [problem for problem in drawn if problem["groups"] == problem["c"] != 1][:2 * RARE]
    candidates += [problem for problem in drawn if problem.size("out_h") * problem.size("out_w") % PERIOD == 0
                   and problem["groups"] == 1][:RARE]
    # problems of networks that are near a held-out one are removed; the sampler drew none near one
    avoided = SimilarityIndex(held_out)
    training = [problem for problem in dict.fromkeys(candidates) if not avoided.has_near(problem)]
    return ProblemSplit(tuple(training), tuple(dict.fromkeys(held_out)))


def further_training() -> tuple[Problem, ...]:
    """More training problems: the probes of calibrations, and the others that were drawn with them."""
    return (*probes(), *map(parse_problem, sections(__file__, "collected.txt")["further"].splitlines()))


def smaller_problems(split: ProblemSplit) -> ProblemSplit:
    """The problems for a device that does not measure all: the smaller ones, and a third of the held-out ones."""
    training, held_out = ([problem for problem in part if problem.size("flop") <= LARGEST_PARTLY]
                          for part in (split.training, split.held_out))
    return ProblemSplit(tuple(training), tuple(held_out[::3]))


def probes(backend: str = "llvm") -> list[Problem]:
    """The probes of a device of a backend: one of each kind, then the second of each kind, and so on.

    On GPUs they are in half precision, fp16 and bf16 in turn: that is what one has them for.
    """
    types = ("fp16", "bf16") if backend in BACKENDS else ("fp32",)
    lines = sections(__file__, "collected.txt")["probes"].splitlines()
    return [parse_problem(f"{line} dtype={dtype}")
            for line, dtype in zip(lines, cycle(types), strict=False)]
