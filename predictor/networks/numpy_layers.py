"""The layers of a transformer in NumPy, for predictions without PyTorch.

A prediction is a few hundred products of a few rows each; PyTorch would spend most of the time between them. The same
functions as in `seqtune.predictor.networks.transformer` are rearranged here, exactly. Everything that is added to the
residual stream is centred beforehand: only layer norms read the stream, so they only have to scale it. Gains, offsets
and scales are merged into the products that follow. Query, keys and values are one product.
Shapes: B sentences, T positions, S source positions, W width, A heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dimensions import Dimensions

EPSILON = 1e-5  # of PyTorch's layer norm

Floats = NDArray[np.float32]
Tensors = Mapping[str, Floats]  # the state of a network by name


# ln of the normal distribution function of -|x| as a polynomial of |x|; the first coefficient is that of |x|^5. It was
# fitted so that the greatest error of gelu is least: 5e-7, which is the spacing of float32 numbers around 4.
GELU_TAIL = tuple(map(np.float32, (-0.0003280729636587605, 0.004910640277841955, -0.03592400208323824,
                                   -0.3188424656785892, -0.7976653527835121, -0.6931732588960425)))


def gelu(x: Floats) -> Floats:
    """x times the normal distribution function of x, with errors below 1e-6."""
    size = np.abs(x)
    tail = size * GELU_TAIL[0]
    for coefficient in GELU_TAIL[1:-1]:
        tail += coefficient
        tail *= size
    tail += GELU_TAIL[-1]
    np.exp(tail, out=tail)
    tail *= size
    result: Floats = np.maximum(x, 0)
    result -= tail
    return result


def unit(x: Floats) -> Floats:
    """Scale centred rows to length 1. Layer norm would scale them to the square root of their number of elements."""
    length = np.einsum("...i,...i->...", x, x)
    length += EPSILON * x.shape[-1]
    np.sqrt(length, out=length)
    scaled: Floats = x / length[..., None]
    return scaled


def attend(query: Floats, keys: Floats, values: Floats, bias: Floats | None = None) -> Floats:
    """Attend from a scaled query (B, T, A, W/A) to keys and values (B or 1, S, A, W/A): (B, T, W).

    `bias` is added to the scores; it can be broadcast to (B, A, T, S).
    """
    scores: Floats = query.transpose(0, 2, 1, 3) @ keys.transpose(0, 2, 3, 1)
    if bias is not None:
        scores += bias
    soften(scores)
    attended: Floats = (scores @ values.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(*query.shape[:2], -1)
    return attended


def soften(scores: Floats) -> None:
    """Replace scores by their softmax over the last axis."""
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear map: x @ weight + bias."""

    weight: Floats  # (in, out)
    bias: Floats  # (out,)

    @classmethod
    def of(cls, tensors: Tensors, name: str) -> Linear:
        """Make the map from a PyTorch layer's tensors."""
        return cls(np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"])

    def __call__(self, x: Floats) -> Floats:
        result: Floats = x.reshape(-1, len(self.weight)) @ self.weight  # one product, not one for each sentence
        result += self.bias
        return result.reshape(*x.shape[:-1], len(self.bias))

    def after(self, tensors: Tensors, norm: str) -> Linear:
        """The map of `unit(x)` that equals this map of the layer norm of x."""
        gain = tensors[f"{norm}.weight"] * math.sqrt(len(self.weight))
        return Linear(gain[:, None] * self.weight, self.bias + tensors[f"{norm}.bias"] @ self.weight)

    def centred(self) -> Linear:
        """The map with a centred result, for adding to the residual stream."""
        return Linear(centred(self.weight), centred(self.bias))

    def times(self, factor: float) -> Linear:
        """The map multiplied by a factor."""
        return Linear(self.weight * factor, self.bias * factor)

    def joined(self, *others: Linear) -> Linear:
        """Join several maps of the same x into one, with their results side by side."""
        maps = (self, *others)
        return Linear(np.ascontiguousarray(np.concatenate([linear.weight for linear in maps], axis=1)),
                      np.concatenate([linear.bias for linear in maps]))


def centred(x: Floats) -> Floats:
    """Subtract the mean of each row."""
    return np.ascontiguousarray(x - np.add.reduce(x, axis=-1, keepdims=True) / np.float32(x.shape[-1]))


class ArrayLayer:
    """The products of one layer of the encoder or, with `cross` attention to the source, of the decoder."""

    def __init__(self, tensors: Tensors, name: str, heads: int, cross: bool) -> None:
        query, pair, out = (Linear.of(tensors, f"{name}.attention.{part}") for part in ("query", "pair", "out"))
        scale = math.sqrt(heads / query.weight.shape[1])
        self.words = query.times(scale).joined(pair).after(tensors, f"{name}.norm1")
        self.out = out.centred()
        if cross:
            self.cross_query = Linear.of(tensors, f"{name}.cross.query").times(scale).after(tensors, f"{name}.norm2")
            self.cross_out = Linear.of(tensors, f"{name}.cross.out").centred()
        self.inner = Linear.of(tensors, f"{name}.feed.0").after(tensors, f"{name}.norm3" if cross else f"{name}.norm2")
        self.outer = Linear.of(tensors, f"{name}.feed.2").centred()

    def feed(self, x: Floats) -> None:
        """Add the feed-forward block to x in place."""
        x += self.outer(gelu(self.inner(unit(x))))


def layer_shapes(size: Dimensions) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of an encoder and a decoder, with the norms after them, by name."""
    width = size.width
    linear: dict[str, tuple[int, ...]] = {}
    norms = ["encoded", "decoded"]
    for name, count, layers in (("encoder", 2, size.layers), ("decoder", 3, size.depth)):
        for layer in (f"{name}.{number}" for number in range(layers)):
            norms += [f"{layer}.norm{number + 1}" for number in range(count)]
            for block in ("attention", "cross")[:count - 1]:
                linear |= {f"{layer}.{block}.query": (width, width), f"{layer}.{block}.pair": (2 * width, width),
                           f"{layer}.{block}.out": (width, width)}
            linear |= {f"{layer}.feed.0": (size.hidden, width), f"{layer}.feed.2": (width, size.hidden)}
    return with_biases(linear) | {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}


def with_biases(linear: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights and biases of linear layers, given the shapes of their weights."""
    return {f"{name}.{part}": shape[:axes] for name, shape in linear.items()
            for part, axes in (("weight", 2), ("bias", 1))}
