"""conv2d: 2-D convolution. Letters follow cuDNN and MIOpen (see `seqtune.kernels.problem`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import ProblemError

from ..expression import Expression
from .draws import choose, jitter
from .feature import ACTIVATION, BIAS, DIRECTION, DTYPE, TOLERANCE, Feature, Value, bounded
from .modules import dtype_of, has_bias, pair_of
from .operation import Operands, Operation, ProblemView, Shape

_SIZES = (7, 8, 10, 12, 13, 14, 16, 17, 19, 20, 24, 26, 27, 28, 32, 35, 38, 40, 48, 52, 55, 56, 64, 75, 80, 96, 112,
          128, 150, 160, 192, 208, 224)
_CHANNELS = (16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 480, 512, 576, 672, 768,
             960, 1024)
_IMAGE_CHANNELS = (1, 3, 4, 6)

ELEMENTS = {"the input": "n * c * (h + 2 * pad_h) * (w + 2 * pad_w)", "the filter": "k * (c // groups) * r * s",
            "the output": "n * k * out_h * out_w"}


class Conv2d(Operation):
    """2-D convolution with zero padding, strides, dilation and groups."""

    name = "conv2d"
    meaning = "2-D convolution"
    example = "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1"
    features = (
        Feature("n", "batch", 1),
        Feature("c", "input channels", required=True),
        Feature("h", "input height", required=True),
        Feature("w", "input width", required=True),
        Feature("k", "output channels", required=True),
        Feature("r", "filter height", required=True),
        Feature("s", "filter width", required=True),
        Feature("pad_h", "zero rows added above and below", 0, low=0),
        Feature("pad_w", "zero columns added left and right", 0, low=0),
        Feature("stride_h", "step between output rows", 1),
        Feature("stride_w", "step between output columns", 1),
        Feature("dilation_h", "step between filter rows", 1),
        Feature("dilation_w", "step between filter columns", 1),
        Feature("groups", "independent groups of channels", 1),
        DTYPE,
        Feature("layout", "order of the axes in memory", "NCHW", choices=("NCHW", "NHWC")),
        DIRECTION,
        BIAS,
        ACTIVATION,
        TOLERANCE,
    )
    derived = (
        ("out_h", Expression("(h + 2 * pad_h - dilation_h * (r - 1) - 1) // stride_h + 1")),
        ("out_w", Expression("(w + 2 * pad_w - dilation_w * (s - 1) - 1) // stride_w + 1")),
        ("c_per_group", Expression("c // groups")),
        ("k_per_group", Expression("k // groups")),
        ("pointwise", Expression(
            "1 if r == 1 and s == 1 and pad_h == 0 and pad_w == 0 and stride_h == 1 and stride_w == 1 else 0")),
        ("row_w", Expression("out_h * out_w if pointwise else out_w")),  # a 1x1 filter sees one long row
        ("rows", Expression("1 if pointwise else out_h")),
        ("flop", Expression("2 * n * k * out_h * out_w * (c // groups) * r * s")),
    )
    rules = (
        (Expression("c % groups == 0 and k % groups == 0"), "groups must divide c and k"),
        (Expression("dilation_h * (r - 1) + 1 <= h + 2 * pad_h"), "the filter is higher than the padded input"),
        (Expression("dilation_w * (s - 1) + 1 <= w + 2 * pad_w"), "the filter is wider than the padded input"),
        *bounded(ELEMENTS),
    )
    elements = ELEMENTS
    words = ("conv", "convolution")
    hints = frozenset(("c", "h", "r", "size", "filter"))
    shorthands = {"pad": ("pad_h", "pad_w"), "stride": ("stride_h", "stride_w"),  # noqa: RUF012
                  "dilation": ("dilation_h", "dilation_w"), "filter": ("r", "s"), "size": ("h", "w")}
    repeated = {"s": "r", "w": "h"}  # noqa: RUF012
    sizes = ("n", "c", "h", "w", "k")
    quantities = ("row_w", "rows", "k_per_group", "c_per_group", "r", "n")
    tiled_sizes = ("k_per_group", "c_per_group", "row_w", "out_w", "rows", "out_h", "n")
    constant = "weights"
    least_flop, most_flop = 2e6, 1.2e9

    def kind(self, problem: ProblemView) -> tuple[object, ...]:
        """Filter, strides, element type, layout and grouping of the channels, without padding and epilogue."""
        names = ("r", "s", "stride_h", "stride_w", "dilation_h", "dilation_w", "dtype", "layout", "direction")
        groups, c = problem["groups"], problem["c"]
        return (*(problem[name] for name in names),
                "dense" if groups == 1 else "depthwise" if groups == c else "grouped")

    def operands(self, problem: ProblemView) -> dict[str, Shape]:
        """Shapes: x (n, c, h, w) or (n, h, w, c) by layout; weights (k, c // groups, r, s); bias (k,)."""
        n, c, h, w, k = (problem.size(name) for name in ("n", "c", "h", "w", "k"))
        shapes: dict[str, Shape] = {
            "x": (n, h, w, c) if problem["layout"] == "NHWC" else (n, c, h, w),
            "weights": (k, problem.size("c_per_group"), problem.size("r"), problem.size("s"))}
        return {**shapes, "bias": (k,)} if problem["bias"] == "yes" else shapes

    def output(self, problem: ProblemView) -> Shape:
        """The shape (n, k, out_h, out_w) or (n, out_h, out_w, k), by layout."""
        n, k, h, w = (problem.size(name) for name in ("n", "k", "out_h", "out_w"))
        return (n, h, w, k) if problem["layout"] == "NHWC" else (n, k, h, w)

    def reference(self, problem: ProblemView, operands: Operands) -> NDArray[np.float64]:
        """The convolution as a sum of one matrix product per filter tap."""
        nhwc = problem["layout"] == "NHWC"
        x = (operands["x"].transpose(0, 3, 1, 2) if nhwc else operands["x"]).astype(np.float64)
        pad_h, pad_w = problem.size("pad_h"), problem.size("pad_w")
        x = np.pad(x, ((0, 0), (0, 0), (pad_h, pad_h), (pad_w, pad_w)))
        n, k, groups = problem.size("n"), problem.size("k"), problem.size("groups")
        c, kg = problem.size("c_per_group"), problem.size("k_per_group")
        out_h, out_w = problem.size("out_h"), problem.size("out_w")
        stride_h, stride_w = problem.size("stride_h"), problem.size("stride_w")
        filters = operands["weights"]
        weights = filters.astype(np.float64).reshape(groups, kg, c, *filters.shape[2:])
        y = np.zeros((n, groups, kg, out_h * out_w))
        for r in range(problem.size("r")):
            for s in range(problem.size("s")):
                top, left = r * problem.size("dilation_h"), s * problem.size("dilation_w")
                bottom, right = top + (out_h - 1) * stride_h + 1, left + (out_w - 1) * stride_w + 1
                taps = x[:, :, top:bottom:stride_h, left:right:stride_w]
                y += weights[:, :, :, r, s] @ taps.reshape(n, groups, c, out_h * out_w)
        y = y.reshape(n, k, out_h, out_w)
        if "bias" in operands:
            y += operands["bias"][:, None, None]
        y = y.transpose(0, 2, 3, 1) if nhwc else y
        return np.maximum(y, 0) if problem["activation"] == "relu" else y

    def draw(self, generator: np.random.Generator) -> dict[str, Value]:
        """Draw sizes that networks use, often jittered, so that divisibility varies as well as magnitude."""
        h = jitter(generator, choose(generator, _SIZES), 0.35)
        w = h if generator.random() < 0.85 else jitter(generator, h, 1.0)
        r = choose(generator, (1, 3, 5, 7), (0.38, 0.48, 0.09, 0.05))
        s = r if generator.random() < 0.95 else choose(generator, (1, 3, 5))
        stride = choose(generator, (1, 2), (0.75, 0.25))
        dilation = 2 if r > 1 and stride == 1 and generator.random() < 0.06 else 1
        same = generator.random() < 0.88
        c, k, groups = _channels(generator), _channels(generator), 1
        chance = generator.random()
        if chance < 0.12 and r > 1:
            k = groups = c  # depthwise
        elif chance < 0.18:
            groups = choose(generator, (2, 4, 8, 32))
            c, k = max(1, c // groups) * groups, max(1, k // groups) * groups
        return {
            "n": choose(generator, (1, 2, 4, 8), (0.85, 0.06, 0.05, 0.04)), "c": c, "h": h, "w": w, "k": k,
            "r": r, "s": s,
            "pad_h": dilation * (r - 1) // 2 if same else 0, "pad_w": dilation * (s - 1) // 2 if same else 0,
            "stride_h": stride, "stride_w": stride, "dilation_h": dilation, "dilation_w": dilation, "groups": groups,
            "layout": "NHWC" if generator.random() < 0.15 else "NCHW",
        }

    def is_module(self, module: Any) -> bool:
        """Whether the module is a torch.nn.Conv2d, or one of its relatives, which `features_of_module` refuses."""
        return hasattr(module, "in_channels")

    def features_of_module(self, module: Any, input_shape: Shape) -> dict[str, Value]:
        """The features for an input of (N, C, H, W) or (C, H, W), which is PyTorch's order for both layouts."""
        needed = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
                  "padding_mode")
        if any(not hasattr(module, name) for name in needed) or getattr(module, "transposed", False):
            raise ProblemError(f"a {type(module).__name__} is not a Conv2d")
        if module.padding_mode != "zeros":
            raise ProblemError(f"padding_mode={module.padding_mode!r:.40}; only zeros can be described")
        shape = (1, *input_shape) if len(input_shape) == 3 else input_shape
        if len(shape) != 4 or shape[1] != module.in_channels:
            raise ProblemError(f"an input of shape {input_shape} does not fit; it should be "
                               f"(batch, {module.in_channels}, height, width)")
        return {**layer_features(shape, int(module.out_channels), pair_of("kernel_size", module.kernel_size),
                                 module.stride, module.padding, module.dilation, int(module.groups)),
                "dtype": dtype_of(module), "bias": has_bias(module)}


def layer_features(input_shape: Shape, k: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                   groups: int) -> dict[str, Value]:
    """The features of a convolution from PyTorch's arguments: numbers or pairs, or a padding of "same" or "valid".

    `input_shape` is (N, C, H, W). Raises ProblemError.
    """
    r, s = pair_of("kernel_size", kernel_size)
    dilation_h, dilation_w = pair_of("dilation", dilation)
    stride_h, stride_w = pair_of("stride", stride)
    if padding == "valid":
        pad_h, pad_w = 0, 0
    elif padding == "same":
        both = (dilation_h * (r - 1), dilation_w * (s - 1))
        if both[0] % 2 or both[1] % 2:
            raise ProblemError(f"padding='same' of an even {r}x{s} filter is not the same on both sides")
        pad_h, pad_w = both[0] // 2, both[1] // 2
    else:
        pad_h, pad_w = pair_of("padding", padding)
    n, c, h, w = input_shape
    return {"n": n, "c": c, "h": h, "w": w, "k": k, "r": r, "s": s, "pad_h": pad_h, "pad_w": pad_w,
            "stride_h": stride_h, "stride_w": stride_w, "dilation_h": dilation_h, "dilation_w": dilation_w,
            "groups": groups}


def _channels(generator: np.random.Generator) -> int:
    chance = generator.random()
    if chance < 0.06:
        return choose(generator, _IMAGE_CHANNELS)
    value = jitter(generator, choose(generator, _CHANNELS), 0.4, step=8)
    return jitter(generator, value, 1.0) if chance > 0.88 else value


OPERATION = Conv2d()
