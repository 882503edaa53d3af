"""convnd: 2-D or 3-D convolution as AMD's MIOpen records it; sizes may be unknown, and nothing here runs it."""

from __future__ import annotations

from ..devices.element_types import sizes_expression
from ..expression import Expression
from .feature import BIAS, DIRECTION, DTYPE, Feature
from .operation import Operation

_FORWARD = "direction == 'forward'"


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
    shorthands = {"pad": ("pad_h", "pad_w"), "stride": ("stride_h", "stride_w"),  # noqa: RUF012
                  "dilation": ("dilation_h", "dilation_w"), "filter": ("r", "s"), "size": ("h", "w")}
    repeated = {"s": "r", "w": "h"}  # noqa: RUF012


OPERATION = ConvNd()
