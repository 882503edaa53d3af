"""Collected problems: those that the shipped data sets measure, split into training problems and held-out ones.

`problems` are ResNet-18, ResNet-50, every other layer of VGG-16, two thirds of the transformers' matrix products and
seeded samples; MobileNet-V2, the other layers of VGG-16, the other products and a few samples are held out. A training
problem is not near a held-out one. A problem is held out on every device or on none.

`further_training` are training problems of the kinds and traits of which these have few: NHWC, bias and ReLU, batches,
dilated and oblong filters, dense 3x3 filters over many channels, images, products of one row. They were drawn once,
near no held-out problem and none of the locked test set. They are written out because only benchmarks know that set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..cache_lines import PERIOD
from ..problem import Problem
from .networks import network
from .parse import parse_problem
from .probes import probes
from .sampler import sample_problems
from .similarity import SimilarityIndex

IMAGES = (1, 3, 4, 6)  # channels
RARE = 32  # problems of each kind that is rare in a plain sample: images, groups, planes that share cache sets
LARGEST_PARTLY = 6e8  # FLOP of the largest problem of `smaller_problems`

_FURTHER = """
conv2d c=384 h=13 w=13 k=256 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d n=2 c=384 h=12 w=12 k=384 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC bias=yes activation=relu
conv2d c=448 h=10 w=10 k=448 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC bias=yes activation=relu
conv2d c=512 h=10 w=10 k=512 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d n=2 c=512 h=9 w=9 k=384 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC bias=yes activation=relu
conv2d n=4 c=480 h=7 w=7 k=480 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d c=512 h=7 w=7 k=512 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC bias=yes activation=relu
conv2d n=4 c=1 h=224 w=224 k=24 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 layout=NHWC
conv2d n=4 c=3 h=128 w=128 k=8 r=7 s=7 pad_h=3 pad_w=3 bias=yes
conv2d n=2 c=1 h=192 w=192 k=12 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC
conv2d c=3 h=160 w=160 k=64 r=7 s=7 pad_h=3 pad_w=3 stride_h=2 stride_w=2
conv2d c=4 h=192 w=192 k=32 r=7 s=7 pad_h=3 pad_w=3 layout=NHWC
conv2d c=3 h=256 w=256 k=32 r=5 s=5 pad_h=2 pad_w=2 stride_h=2 stride_w=2 layout=NHWC
conv2d c=3 h=28 w=28 k=48 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC
conv2d n=4 c=192 h=38 w=38 k=192 r=5 s=5 pad_h=2 pad_w=2 groups=192 bias=yes
conv2d c=72 h=64 w=64 k=72 r=5 s=5 pad_h=2 pad_w=2 stride_h=2 stride_w=2 groups=72 layout=NHWC bias=yes activation=relu
conv2d n=2 c=32 h=192 w=192 k=32 r=5 s=5 pad=2 stride=2 groups=32 layout=NHWC bias=yes activation=relu
conv2d c=16 h=192 w=192 k=16 r=3 s=3 pad_h=1 pad_w=1 groups=16 layout=NHWC bias=yes activation=relu
conv2d c=96 h=27 w=27 k=96 r=5 s=5 pad_h=2 pad_w=2 groups=96 layout=NHWC bias=yes activation=relu
conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 groups=2 bias=yes activation=relu
conv2d c=64 h=8 w=8 k=64 r=5 s=5 pad_h=2 pad_w=2 groups=2 layout=NHWC
conv2d n=2 c=192 h=17 w=17 k=192 r=3 s=3 pad_h=1 pad_w=1 groups=8 layout=NHWC bias=yes activation=relu
conv2d c=768 h=38 w=38 k=768 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 groups=32
conv2d n=2 c=32 h=56 w=56 k=32 r=3 s=3 pad_h=1 pad_w=1 groups=8 layout=NHWC
conv2d c=1536 h=7 w=7 k=1536 r=3 s=3 pad_h=1 pad_w=1 groups=32 bias=yes activation=relu
conv2d c=1024 h=20 w=20 k=1024 r=1 s=1 groups=32 bias=yes activation=relu
conv2d c=113 h=48 w=48 k=64 r=3 s=3 pad_h=6 pad_w=6 dilation_h=6 dilation_w=6 layout=NHWC
conv2d c=224 h=17 w=17 k=96 r=3 s=3 pad_h=3 pad_w=3 dilation_h=3 dilation_w=3 bias=yes activation=relu
conv2d c=768 h=53 w=53 k=1 r=5 s=5 pad_h=4 pad_w=4 dilation_h=2 dilation_w=2 bias=yes activation=relu
conv2d n=2 c=16 h=55 w=61 k=6 r=3 s=3 pad_h=6 pad_w=6 dilation_h=6 dilation_w=6
conv2d c=53 h=9 w=9 k=53 r=3 s=3 pad_h=4 pad_w=4 dilation_h=4 dilation_w=4 bias=yes activation=relu
conv2d n=4 c=21 h=39 w=39 k=168 r=3 s=3 pad_h=6 pad_w=6 dilation_h=6 dilation_w=6 bias=yes
conv2d c=224 h=20 w=20 k=576 r=3 s=3 pad_h=6 pad_w=6 dilation_h=6 dilation_w=6 layout=NHWC
conv2d c=40 h=28 w=28 k=168 r=3 s=3 pad_h=3 pad_w=3 dilation_h=3 dilation_w=3
conv2d c=24 h=28 w=28 k=144 r=3 s=3 pad_h=12 pad_w=12 dilation_h=12 dilation_w=12 bias=yes activation=relu
conv2d c=40 h=26 w=26 k=32 r=1 s=5 pad_w=2 layout=NHWC
conv2d c=264 h=19 w=19 k=33 r=1 s=9 pad_w=4
conv2d c=96 h=11 w=11 k=64 r=1 s=7 pad_w=3 layout=NHWC bias=yes activation=relu
conv2d n=4 c=204 h=30 w=30 k=4 r=1 s=5 pad_w=2 layout=NHWC
conv2d c=224 h=56 w=56 k=24 r=3 s=1 pad_h=1
conv2d c=112 h=128 w=128 k=24 r=1 s=5 pad_w=2 layout=NHWC bias=yes activation=relu
conv2d c=40 h=17 w=17 k=48 r=1 s=7 pad_w=3 layout=NHWC bias=yes activation=relu
conv2d n=4 c=180 h=10 w=10 k=768 r=1 s=9 pad_w=4
conv2d n=2 c=960 h=14 w=14 k=64 r=1 s=5 pad_w=2 bias=yes activation=relu
conv2d n=4 c=384 h=13 w=14 k=40 r=5 s=5 pad_h=2 pad_w=2 stride_h=2 stride_w=2 layout=NHWC bias=yes activation=relu
conv2d c=82 h=8 w=8 k=56 r=5 s=5 pad_h=2 pad_w=2 stride_h=2 stride_w=2 layout=NHWC bias=yes activation=relu
conv2d n=2 c=152 h=26 w=26 k=40 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 layout=NHWC bias=yes activation=relu
conv2d c=144 h=24 w=24 k=160 r=3 s=3 pad_h=1 pad_w=1 stride_h=2 stride_w=2 bias=yes activation=relu
conv2d c=64 h=52 w=52 k=320 r=2 s=2 stride_h=2 stride_w=2 layout=NHWC bias=yes activation=relu
conv2d n=4 c=128 h=77 w=77 k=128 r=1 s=1
conv2d c=96 h=27 w=27 k=32 r=1 s=1
conv2d n=4 c=96 h=17 w=17 k=251 r=1 s=1 layout=NHWC bias=yes activation=relu
conv2d c=464 h=12 w=12 k=464 r=1 s=1 layout=NHWC bias=yes activation=relu
conv2d n=4 c=80 h=13 w=13 k=600 r=1 s=1
conv2d c=192 h=38 w=38 k=768 r=1 s=1
conv2d c=204 h=43 w=43 k=256 r=1 s=1 layout=NHWC bias=yes activation=relu
conv2d c=672 h=12 w=12 k=264 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d n=4 c=32 h=31 w=31 k=32 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC
conv2d c=320 h=8 w=9 k=856 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d c=128 h=8 w=8 k=184 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC
conv2d c=24 h=15 w=13 k=378 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC bias=yes activation=relu
conv2d c=160 h=96 w=96 k=24 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC bias=yes activation=relu
conv2d c=768 h=32 w=32 k=3 r=3 s=3 pad_h=1 pad_w=1
conv2d n=4 c=160 h=48 w=48 k=16 r=3 s=3 pad_h=1 pad_w=1 bias=yes activation=relu
conv2d c=24 h=18 w=18 k=24 r=7 s=7 pad_h=3 pad_w=3 layout=NHWC bias=yes activation=relu
conv2d c=320 h=13 w=13 k=320 r=5 s=5 pad_h=2 pad_w=2 layout=NHWC
conv2d n=4 c=44 h=19 w=18 k=1 r=7 s=7 pad_h=3 pad_w=3 layout=NHWC
conv2d n=4 c=1032 h=12 w=12 k=6 r=5 s=5 pad_h=2 pad_w=2 layout=NHWC bias=yes
conv2d c=1024 h=6 w=6 k=48 r=7 s=7 pad_h=3 pad_w=3 layout=NHWC bias=yes
gemm m=1 n=2048 k=1344 bias=yes activation=relu
gemm m=1 n=1152 k=3072 trans_b=yes bias=yes activation=relu
gemm m=1 n=768 k=2048 bias=yes activation=relu
gemm m=1 n=3072 k=1152 trans_b=yes
gemm m=1 n=512 k=1000 trans_b=yes
gemm m=53 n=1338 k=1152
gemm m=512 n=384 k=192
gemm m=384 n=640 k=1536
gemm m=96 n=384 k=1536 trans_b=yes bias=yes
gemm m=185 n=768 k=384
"""


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
    return (*probes(), *map(parse_problem, _FURTHER.strip().splitlines()))


def smaller_problems(split: ProblemSplit) -> ProblemSplit:
    """The problems for a device that does not measure all: the smaller ones, and a third of the held-out ones."""
    training, held_out = ([problem for problem in part if problem.size("flop") <= LARGEST_PARTLY]
                          for part in (split.training, split.held_out))
    return ProblemSplit(tuple(training), tuple(held_out[::3]))
