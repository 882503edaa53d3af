"""convnd: 2-D or 3-D convolution as AMD's MIOpen records it; sizes may be unknown, and nothing here runs it."""

from __future__ import annotations

from ..devices.element_types import sizes_expression
from ..expression import Expression
from .feature import BIAS, DIRECTION, DTYPE, Feature
from .operation import Operation

_FORWARD = "direction == 'forward'"


def _size(axis: str, filter_size: str) -> str:
    """The input's size along an axis. A backward pass has the smallest one with its output, even where it is known:
    MIOpen's keys do not have it."""
    return (f"(x_{axis} if {_FORWARD} else (out_{axis} - 1) * stride_{axis} + dilation_{axis} * ({filter_size} - 1) + 1"
            f" - 2 * pad_{axis})")


_READ, _WRITTEN = (f"({first} if {_FORWARD} else {second})" for first, second in (
    ("read_pixels", "write_pixels"), ("write_pixels", "read_pixels")))  # of the forward pass
# A pass reads one image and writes the other. The weight gradient reads both and counts as a backward pass.
_SENTENCE = {
    "batch": {"n": "n"},
    "read channels": {"from_c": "from_c", "from_c_group": "from_c // groups"},
    "written channels": {"to_c": "to_c", "to_c_group": "to_c // groups", "groups": "groups"},
    "read image": {"read_h": f"{_size('h', 'r')} if {_FORWARD} else out_h",
                   "read_w": f"{_size('w', 's')} if {_FORWARD} else out_w", "read_pixels": "read_h * read_w"},
    "written image": {"write_h": f"out_h if {_FORWARD} else {_size('h', 'r')}",
                      "write_w": f"out_w if {_FORWARD} else {_size('w', 's')}", "write_pixels": "write_h * write_w"},
    "products": {"points": f"n * out_d * {_WRITTEN}", "images": f"n * {_READ}",  # sides of the matrix products
                 "taps": "(c // groups) * t * r * s", "filters": "(k // groups) * t * r * s"},  # that it comes down to
    "filter": {name: name for name in ("r", "s", "t", "pad_h", "pad_w", "stride_h", "stride_w", "dilation_h",
                                       "dilation_w", "out_d")},
    "work": {"weights": "k * taps", "input": "c * images", "output": f"n * k * {_WRITTEN}",
             "flop": "2 * points * weights",
             "ambiguous": f"0 if {_FORWARD} or (stride_h == 1 and stride_w == 1) else 1",
             "shape": "(from_c * 1.0) / to_c", "aspect": "(read_h * 1.0) / read_w", "element_bytes": "element_bytes",
             **{f"{name}_per_unit": f"{name} * 1.0 / compute_units"
                for name in ("flop", "output", "weights", "points")}},
    "device": {name: name for name in (
        "compute_units", "wave_size", "vector_registers", "scalar_registers", "local_memory", "l3_bytes",
        "peak_gflops", "bandwidth_gbs", "generation", "dot2", "matrix_units", "legacy")},
    "words": {name: name for name in ("direction", "dtype", "layout", "bias", "architecture")},
}


class ConvNd(Operation):
    """2-D or 3-D convolution in any direction."""

    name = "convnd"
    meaning = "2-D or 3-D convolution of which sizes may be unknown, as AMD's MIOpen records them"
    example = "convnd c=64 h=56 w=56 k=64 r=3 s=3 pad=1 direction=backward_data"
    features = (
        Feature("n", "batch", 1),
        Feature("c", "input channels", required=True),
        Feature("d", "input depth", 1),
        Feature("h", "input height", required=True),
        Feature("w", "input width", required=True),
        Feature("k", "output channels", required=True),
        Feature("t", "filter depth", 1),
        Feature("r", "filter height", required=True),
        Feature("s", "filter width", required=True),
        Feature("pad_d", "zero planes added before and behind", 0, low=0),
        Feature("pad_h", "zero rows added above and below", 0, low=0),
        Feature("pad_w", "zero columns added left and right", 0, low=0),
        Feature("stride_d", "step between output planes", 1),
        Feature("stride_h", "step between output rows", 1),
        Feature("stride_w", "step between output columns", 1),
        Feature("dilation_d", "step between filter planes", 1),
        Feature("dilation_h", "step between filter rows", 1),
        Feature("dilation_w", "step between filter columns", 1),
        Feature("groups", "independent groups of channels", 1),
        Feature("out_d", "output depth; given where d does not tell it"),
        Feature("out_h", "output height; given where h does not tell it"),
        Feature("out_w", "output width; given where w does not tell it"),
        DTYPE,
        Feature("layout", "order of the axes in memory", "NCHW", choices=("NCHW", "NHWC", "NCDHW", "NDHWC")),
        DIRECTION,
        BIAS,
    )
    derived = (
        ("out_d", Expression("(d + 2 * pad_d - dilation_d * (t - 1) - 1) // stride_d + 1")),
        ("out_h", Expression("(h + 2 * pad_h - dilation_h * (r - 1) - 1) // stride_h + 1")),
        ("out_w", Expression("(w + 2 * pad_w - dilation_w * (s - 1) - 1) // stride_w + 1")),
        ("x_h", Expression("h")),  # the input's size, or the smallest one with this output
        ("x_h", Expression("(out_h - 1) * stride_h + dilation_h * (r - 1) + 1 - 2 * pad_h")),
        ("x_w", Expression("w")),
        ("x_w", Expression("(out_w - 1) * stride_w + dilation_w * (s - 1) + 1 - 2 * pad_w")),
        ("from_c", Expression(f"c if {_FORWARD} else k")),  # the image that a kernel reads: dy when it goes backward
        ("from_h", Expression(f"x_h if {_FORWARD} else out_h")),
        ("from_w", Expression(f"x_w if {_FORWARD} else out_w")),
        ("to_c", Expression(f"k if {_FORWARD} else c")),  # the other image
        ("to_h", Expression(f"out_h if {_FORWARD} else x_h")),
        ("to_w", Expression(f"out_w if {_FORWARD} else x_w")),
        ("element_bytes", Expression(sizes_expression(DTYPE.choices))),
        ("flop", Expression("2 * n * k * out_d * out_h * out_w * (c // groups) * t * r * s")),
    )
    rules = (
        (Expression("c % groups == 0 and k % groups == 0"), "groups must divide c and k"),
        (Expression("out_d >= 1 and out_h >= 1 and out_w >= 1"), "the filter is larger than the padded input"),
        (Expression("x_h >= 1 and x_w >= 1"), "no input has so small an output"),
    )
    elements = {"the input": "n * c * d * x_h * x_w", "the filter": "k * (c // groups) * t * r * s",  # noqa: RUF012
                "the output": "n * k * out_d * out_h * out_w"}
    sentence = {position: {name: Expression(text) for name, text in facts.items()}  # noqa: RUF012
                for position, facts in _SENTENCE.items()}
    shorthands = {"pad": ("pad_h", "pad_w"), "stride": ("stride_h", "stride_w"),  # noqa: RUF012
                  "dilation": ("dilation_h", "dilation_w"), "filter": ("r", "s"), "size": ("h", "w")}
    repeated = {"s": "r", "w": "h"}  # noqa: RUF012


OPERATION = ConvNd()
