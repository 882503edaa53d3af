"""Collected problems: those that the shipped data sets measure, split into training problems and held-out ones.

`problems` are ResNet-18, ResNet-50, every other layer of VGG-16, two thirds of the transformers' matrix products and
seeded samples; MobileNet-V2, the other layers of VGG-16, the other products and a few samples are held out. A training
problem is not near a held-out one. A problem is held out on every device or on none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from seqtune.kernels.cache_lines import PERIOD
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

IMAGES = (1, 3, 4, 6)  # channels
RARE = 32  # problems of each kind that is rare in a plain sample: images, groups, planes that share cache sets
LARGEST_PARTLY = 6e8  # FLOP of the largest problem on devices that measure only a part of the problems


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
    # problems of networks near a held-out one are removed here; samples near a held-out one were never drawn
    avoided = SimilarityIndex(held_out)
    training = [problem for problem in dict.fromkeys(candidates) if not avoided.has_near(problem)]
    return ProblemSplit(tuple(training), tuple(dict.fromkeys(held_out)))


def smaller_problems(split: ProblemSplit) -> ProblemSplit:
    """The problems of a device that measures only a part: the smaller ones, and a third of those held out."""
    training, held_out = ([problem for problem in part if problem.size("flop") <= LARGEST_PARTLY]
                          for part in (split.training, split.held_out))
    return ProblemSplit(tuple(training), tuple(held_out[::3]))
