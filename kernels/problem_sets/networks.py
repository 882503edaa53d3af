"""Networks: named sets of problems, written from the architectures themselves at their usual input of 224 x 224.

Each set holds distinct problems, in the order in which the network runs them. Sources: ResNet-18 as in Table 1 of
"Learning to Optimize Tensor Programs" (AutoTVM), ResNet-50 in the v1.5 form of torchvision (the 3x3 filter strides),
VGG-16, MobileNet-V2 at width 1.0; `transformers` has the matrix products of BERT, GPT-2, LSTM cells and classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from seqtune.errors import ProblemError

from ..problem import Problem


def _conv(batch: int, c: int, size: int, k: int, r: int, stride: int = 1, groups: int = 1) -> Problem:
    """A square convolution padded so that only its stride changes the size."""
    return Problem.make("conv2d", n=batch, c=c, h=size, w=size, k=k, r=r, s=r, pad_h=r // 2, pad_w=r // 2,
                        stride_h=stride, stride_w=stride, groups=groups)


def _resnet18(batch: int) -> Iterator[Problem]:
    layers = (  # C1 ... C12 of the table: input channels, size, output channels, filter, stride
        (3, 224, 64, 7, 2), (64, 56, 64, 3, 1), (64, 56, 64, 1, 1), (64, 56, 128, 3, 2), (64, 56, 128, 1, 2),
        (128, 28, 128, 3, 1), (128, 28, 256, 3, 2), (128, 28, 256, 1, 2), (256, 14, 256, 3, 1), (256, 14, 512, 3, 2),
        (256, 14, 512, 1, 2), (512, 7, 512, 3, 1))
    return (_conv(batch, *layer) for layer in layers)


def _resnet50(batch: int) -> Iterator[Problem]:
    yield _conv(batch, 3, 224, 64, 7, 2)
    c, size = 64, 56
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            yield _conv(batch, c, size, width, 1)
            yield _conv(batch, width, size, width, 3, stride)
            yield _conv(batch, width, size // stride, 4 * width, 1)
            if block == 0:
                yield _conv(batch, c, size, 4 * width, 1, stride)
            c, size = 4 * width, size // stride


def _vgg16(batch: int) -> Iterator[Problem]:
    c, size = 3, 224
    for k, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            yield _conv(batch, c, size, k, 3)
            c = k
        size //= 2


def _mobilenet_v2(batch: int) -> Iterator[Problem]:
    yield _conv(batch, 3, 224, 32, 3, 2)
    c, size = 32, 112
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, k, blocks, first_stride in stages:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            inner = expansion * c
            if expansion > 1:
                yield _conv(batch, c, size, inner, 1)
            yield _conv(batch, inner, size, inner, 3, stride, groups=inner)
            size //= stride
            yield _conv(batch, inner, size, k, 1)
            c = k
    yield _conv(batch, c, size, 1280, 1)


def _transformers(batch: int) -> Iterator[Problem]:
    # m, n, k, is B stored as (n, k)? torch.nn.Linear does; GPT-2 and attention times values do not.
    shapes = (
        *((m, n, k, True) for m in (1, 16, 128, 384) for n, k in ((768, 768), (3072, 768), (768, 3072))),  # BERT-base
        (128, 128, 64, True), (128, 64, 128, False), (384, 384, 64, True), (384, 64, 384, False),  # one attention head
        *((m, n, k, True) for m in (1, 64, 128) for n, k in ((1024, 1024), (4096, 1024), (1024, 4096))),  # BERT-large
        *((m, n, k, False) for m in (1, 32, 512) for n, k in ((2304, 768), (768, 768))),  # GPT-2
        (1, 3072, 768, False), (32, 3072, 768, False), (32, 768, 3072, False),
        (1, 1000, 512, True), (1, 1000, 2048, True), (1, 1000, 1280, True), (1, 4096, 4096, True),  # classifiers
        (1, 1000, 4096, True), (16, 1000, 2048, True), (64, 1000, 2048, True),
        *((m, 4 * hidden, hidden, True) for hidden in (256, 512) for m in (1, 8, 64)),  # LSTM: four gates at once
    )
    for m, n, k, stored_by_column in shapes:
        yield Problem.make("gemm", m=m * batch, n=n, k=k, trans_b="yes" if stored_by_column else "no")


NETWORKS: dict[str, Callable[[int], Iterator[Problem]]] = {
    "resnet18": _resnet18,
    "resnet50": _resnet50,
    "vgg16": _vgg16,
    "mobilenet_v2": _mobilenet_v2,
    "transformers": _transformers,
}


@lru_cache(maxsize=32)
def _distinct(name: str, batch: int) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(NETWORKS[name](batch)))


def network(name: str, batch: int = 1) -> list[Problem]:
    """The distinct problems of a named network; `batch` multiplies N (the rows of a matrix product)."""
    key = name.lower()
    if key not in NETWORKS:
        raise ProblemError(f"no problem set {name[:60]!r}; there are {', '.join(NETWORKS)}")
    if batch < 1:
        raise ProblemError(f"batch {batch} is not positive")
    return list(_distinct(key, batch))
