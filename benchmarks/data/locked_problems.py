"""The locked test set: problems that no model learns from and no choice is made on, looked at once per release.

Two thirds are layers of networks that the data does not hold, written from the architectures; the others are seeded, so
that each kind (`kinds.kind_of`) has at least LEAST problems. None is near a training or held-out problem in
either layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import problems
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of
from seqtune.kernels.problem_sets.sampler import LARGEST_OPERAND, largest_tensor
from seqtune.kernels.problem_sets.similarity import SimilarityIndex

from .seeded_problems import seeded_problems

LOCKED_VERSION = 1  # the set's version; results of different versions cannot be compared
LEAST = 10  # problems of each kind; an interval over fewer says little
SEED = 2026  # draws the seeded problems
MOST_FLOP = 1.5e9  # 10 to 100 ms on two cores: a contest of 50 kernels takes a minute

_EPILOGUES: dict[str, dict[str, Value]] = {
    "": {}, "bias": {"bias": "yes"}, "relu": {"bias": "yes", "activation": "relu"}}

# Convolutions: layout, epilogue, batch, then layers (c, size, k, r x s, stride, dilation, groups, network). A filter is
# padded so that only its stride changes the size. A size is height x width, or one number for both.
_CONVOLUTIONS = """
NHWC relu 1
32 75 192 1x1 1 1 1 efficientnet_b3
192 38 48 1x1 1 1 1 efficientnet_b3
576 19 136 1x1 1 1 1 efficientnet_b3
232 10 1392 1x1 1 1 1 efficientnet_b3
1392 10 384 1x1 1 1 1 efficientnet_b3
192 75 192 5x5 2 1 192 efficientnet_b3
288 38 288 5x5 1 1 288 efficientnet_b3
576 19 576 3x3 1 1 576 efficientnet_b3
816 19 816 5x5 2 1 816 efficientnet_b3
2304 10 2304 3x3 1 1 2304 efficientnet_b3
3 300 40 3x3 2 1 1 efficientnet_b3
48 56 48 3x3 2 1 6 regnet_y_400mf
104 28 104 3x3 1 1 13 regnet_y_400mf
208 14 208 3x3 1 1 26 regnet_y_400mf
440 7 440 3x3 1 1 55 regnet_y_400mf
288 35 384 3x3 2 1 1 inception_v3
64 160 128 3x3 2 1 1 yolo_v5
128 80 256 3x3 2 1 1 yolo_v5
128 128 64 1x1 1 1 1 fpn
NHWC bias 1
96 56 96 7x7 1 1 96 convnext_tiny
384 14 384 7x7 1 1 384 convnext_tiny
768 7 768 7x7 1 1 768 convnext_tiny
96 56 192 2x2 2 1 1 convnext_tiny
192 28 384 2x2 2 1 1 convnext_tiny
3 224 96 4x4 4 1 1 convnext_tiny
3 224 384 16x16 16 1 1 vit_small
4 64 320 3x3 1 1 1 latent_diffusion
320 64 4 3x3 1 1 1 latent_diffusion
320 32 320 3x3 1 1 1 latent_diffusion
NCHW relu 1
128 17 128 1x7 1 1 1 inception_v3
128 17 192 7x1 1 1 1 inception_v3
160 17 160 1x7 1 1 1 inception_v3
192 17 192 7x1 1 1 1 inception_v3
384 8 384 1x3 1 1 1 inception_v3
448 8 384 3x3 1 1 1 inception_v3
48 35 64 5x5 1 1 1 inception_v3
64 35 96 3x3 1 1 1 inception_v3
768 17 160 1x1 1 1 1 inception_v3
1280 8 320 1x1 1 1 1 inception_v3
16 28 32 5x5 1 1 1 googlenet
48 14 128 5x5 1 1 1 googlenet
832 7 384 1x1 1 1 1 googlenet
320 33 64 3x3 1 6 1 deeplab_v3
320 17 256 3x3 1 6 1 deeplab_v3
320 17 256 3x3 1 12 1 deeplab_v3
512 28 128 3x3 1 2 1 deeplab_v3
256 14 256 3x3 1 4 1 deeplab_v3
64 96 64 3x3 1 4 1 context_network
32 128 32 3x3 1 8 1 context_network
NCHW relu 2
64 72 64 3x3 1 1 1 unet
128 48 96 3x3 1 1 1 unet
384 24 128 3x3 1 1 1 unet
768 12 384 3x3 1 1 1 unet
64 96 2 1x1 1 1 1 unet
NCHW  1
128 56 32 3x3 1 1 1 densenet_121
128 14 32 3x3 1 1 1 densenet_121
416 28 128 1x1 1 1 1 densenet_121
800 14 128 1x1 1 1 1 densenet_121
992 7 128 1x1 1 1 1 densenet_121
96 54 16 1x1 1 1 1 squeezenet
16 54 64 3x3 1 1 1 squeezenet
48 13 192 3x3 1 1 1 squeezenet
240 28 60 1x1 1 1 3 shufflenet
480 14 120 1x1 1 1 3 shufflenet
116 28 116 3x3 1 1 116 shufflenet_v2
464 7 464 3x3 1 1 464 shufflenet_v2
72 56 72 5x5 2 1 72 mobilenet_v3
672 14 672 5x5 2 1 672 mobilenet_v3
960 7 160 1x1 1 1 1 mobilenet_v3
3 227 64 11x11 4 1 1 alexnet
64 27 192 5x5 1 1 1 alexnet
1 28 20 5x5 1 1 1 lenet
20 14 50 5x5 1 1 1 lenet
1 96 64 9x9 1 1 1 srcnn
64 48 32 5x5 1 1 1 espcn
1 80x300 64 3x3 2 1 1 speech
64 40x150 64 3x3 2 1 1 speech
NHWC relu 4
128 56 128 3x3 1 1 32 resnext_50
512 14 512 3x3 1 1 32 resnext_50
1024 7 1024 3x3 1 1 32 resnext_50
4 96 32 3x3 2 1 1 depth_camera
NCHW relu 8
3 32 64 3x3 1 1 1 cifar
64 32 64 3x3 1 1 1 cifar
256 8 256 3x3 1 1 1 cifar
128 16 256 3x3 2 1 1 cifar
64 32 128 1x1 2 1 1 cifar
1 28 32 3x3 1 1 1 mnist
NCHW bias 4
32 1x256 64 1x5 1 1 1 text
64 1x512 64 1x3 1 8 1 wavenet
"""

# Matrix products: m, n, k, trans_b, epilogue, network
_PRODUCTS = """
1 384 1536 yes bias minilm
1 1536 384 yes relu minilm
1 1200 312 yes bias tinybert
1 2048 512 yes relu t5_small
1 512 2048 yes  t5_small
1 1536 1536 yes bias gpt2_large
1 1280 3072 no bias gpt2_large
1 600 200 yes  gru
1 4000 1000 no  random_access
1 10 84 yes bias lenet
197 576 192 yes bias vit_tiny
197 1152 384 yes bias vit_small
197 197 64 yes  vit_attention
197 64 197 no  vit_attention
784 768 192 yes bias swin_tiny
3136 96 384 yes bias swin_tiny
49 2304 768 yes bias swin_tiny
77 2048 512 yes bias clip_text
77 77 64 yes  clip_attention
256 1024 256 yes relu electra_small
64 1024 256 yes relu electra_small
1500 384 384 no  whisper_tiny
1024 256 64 no  feature_maps
64 480 96 no relu small_products
24 96 64 yes  small_products
16 128 48 no bias small_products
128 512 13 yes relu dlrm
128 64 256 yes relu dlrm
2048 1 256 yes  dlrm
33 257 129 no bias odd_sizes
100 1003 301 yes  odd_sizes
511 255 513 no  odd_sizes
7 31 1021 yes relu odd_sizes
640 640 640 no  squares
1000 400 600 no bias squares
300 3 500 yes  narrow_products
"""


@lru_cache(maxsize=1)
def locked_problems() -> tuple[Problem, ...]:
    """The locked problems, sorted by kind; every call returns the same ones."""
    split = problems()
    known = [twin for problem in (*split.training, *split.held_out) for twin in _in_both_layouts(problem)]
    avoided = SimilarityIndex(known)
    chosen: list[Problem] = []
    for problem in dict.fromkeys((*_convolutions(), *_products())):
        if (problem.size("flop") <= MOST_FLOP and largest_tensor(problem) <= LARGEST_OPERAND
                and not avoided.has_near(problem)):
            chosen.append(problem)
    for kind in KINDS:
        missing = LEAST - sum(kind_of(problem) == kind for problem in chosen)
        if missing > 0:
            chosen += seeded_problems(kind, missing, SEED, avoid=(*known, *chosen))
    return tuple(sorted(chosen, key=lambda problem: KINDS.index(kind_of(problem))))


def traits_of(problem: Problem) -> tuple[str, ...]:
    """Properties that problems of every kind can have: "NHWC", "epilogue" (bias or ReLU) and "batch" (above 1)."""
    features = dict(problem)
    traits = {"NHWC": features.get("layout") == "NHWC",
              "epilogue": features.get("bias") == "yes" or features.get("activation") == "relu",
              "batch": problem.type == "conv2d" and features.get("n") != 1}
    return tuple(name for name, holds in traits.items() if holds)


def _in_both_layouts(problem: Problem) -> Iterator[Problem]:
    yield problem
    if problem.type == "conv2d":
        other = "NHWC" if problem["layout"] == "NCHW" else "NCHW"
        yield Problem.make("conv2d", **{**dict(problem), "layout": other})


def _convolutions() -> Iterator[Problem]:
    common: dict[str, Value] = {}
    for line in _CONVOLUTIONS.strip().splitlines():
        words = line.split(" ")
        if len(words) == 3:
            layout, epilogue, batch = words
            common = {"n": int(batch), "layout": layout, **_EPILOGUES[epilogue]}
            continue
        (h, w), (r, s) = _both(words[1]), _both(words[3])
        c, k, stride, dilation, groups = (int(words[index]) for index in (0, 2, 4, 5, 6))
        fills = stride < min(r, s) or stride == 1  # a filter that steps by its own size needs no padding
        yield Problem.make("conv2d", c=c, h=h, w=w, k=k, r=r, s=s, groups=groups, stride_h=stride, stride_w=stride,
                           pad_h=dilation * (r - 1) // 2 if fills else 0, pad_w=dilation * (s - 1) // 2 if fills else 0,
                           dilation_h=dilation if r > 1 else 1, dilation_w=dilation if s > 1 else 1, **common)


def _products() -> Iterator[Problem]:
    for line in _PRODUCTS.strip().splitlines():
        m, n, k, trans_b, epilogue, _ = line.split(" ")
        yield Problem.make("gemm", m=int(m), n=int(n), k=int(k), trans_b=trans_b, **_EPILOGUES[epilogue])


def _both(text: str) -> tuple[int, int]:
    first, _, second = text.partition("x")
    return int(first), int(second or first)
