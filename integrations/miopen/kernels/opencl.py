"""MIOpen's OpenCL solvers: direct convolution, 1x1 filters, and the weight gradient by batch loops.

`from_*` names the image that a kernel reads and `to_*` the image that it writes; backward kernels read the gradient of
the output.
"""

from __future__ import annotations

from .solver import (
    BACKWARD_WEIGHTS,
    FORWARD_OR_DATA,
    LEGACY,
    NCHW,
    NO_BIAS,
    NO_DILATION,
    ONE_GROUP,
    POINTWISE,
    Solver,
    Tunable,
    dtypes,
    solver,
)

_LEGACY_FIELDS = ("grp_tile1 grp_tile0 in_tile1 in_tile0 out_pix_tile1 out_pix_tile0 n_out_pix_tiles n_in_data_tiles "
                  "n_stacks")
_ALL_TYPES = dtypes("fp32", "fp16", "bf16")

DIRECT = solver(
    "ConvOclDirectFwd",
    _LEGACY_FIELDS,
    (
        Tunable("in_tile1", (8, 16, 32, 64), "rows of a work-group's tile", (8, 16, 32)),
        Tunable("in_tile0", (8, 16, 32, 64), "columns of a work-group's tile", (8, 16, 32)),
        Tunable("out_pix_tile1", (1, 2, 4), "output rows of a work-item"),
        Tunable("out_pix_tile0", (1, 2, 4), "output columns of a work-item"),
        Tunable("n_out_pix_tiles", (1, 2, 4, 8), "output channels of a work-item"),
        Tunable("n_in_data_tiles", (1, 2, 4), "input channels in local memory at once"),
    ),
    (
        ("group0 * group1 <= 256", "a work-group has at most 256 work-items"),
        ("lds_used <= local_memory", "the tile and its weights must fit into local memory"),
    ),
    (16, 16, 2, 2, 4, 2),
    meaning="direct convolution, OpenCL",
    solves=(FORWARD_OR_DATA, NCHW, _ALL_TYPES, NO_DILATION, NO_BIAS,
            ("stride_h == stride_w and stride_h <= 2 and pad_h == pad_w", "stride and padding are the same both ways"),
            ("not (direction == 'forward' and dtype == 'fp16' and stride_h == 2)", "no strided 16-bit forward pass"),
            LEGACY),
    derived=(
        # for strided backward kernels the stride determines the number of pixels of a work-item
        ("pixels1", "stride_h if direction != 'forward' and stride_h > 1 else out_pix_tile1"),
        ("pixels0", "stride_w if direction != 'forward' and stride_w > 1 else out_pix_tile0"),
        ("group1", "max(8, in_tile1 // pixels1)"),
        ("group0", "max(8, in_tile0 // pixels0)"),
        ("few_outputs", "min(to_c // groups, 8)"),
        ("few_inputs", "min(from_c // groups, 4)"),
        ("outputs", "min(few_outputs, n_out_pix_tiles)"),
        ("inputs", "min(few_inputs, n_in_data_tiles)"),
        ("local_h", "(group1 * pixels1 - 1) * stride_h + r if direction == 'forward'"
                    " else (group1 * pixels1 + r - 1 + stride_h - 1) // stride_h"),
        ("local_w", "(group0 * pixels0 - 1) * stride_w + s if direction == 'forward'"
                    " else (group0 * pixels0 + s - 1 + stride_w - 1) // stride_w"),
        ("lds_used", "(local_w * local_h * inputs + outputs * inputs * r * s) * element_bytes"),
    ),
    prior=(
        ("in_tile1 // out_pix_tile1 >= 8 and in_tile0 // out_pix_tile0 >= 8", "the tuner skips smaller work-groups"),
        ("to_c >= n_out_pix_tiles and from_c >= n_in_data_tiles", "the tuner skips more channels than there are"),
        ("out_pix_tile1 * out_pix_tile0 * n_out_pix_tiles < 128", "the tuner fears for registers"),
        ("(in_tile1 <= 8 or to_h * 2 > in_tile1) and (in_tile0 <= 8 or to_w * 2 > in_tile0)",
         "the tuner skips tiles much larger than the image"),
        ("(in_tile0 in (16, 32) or to_w < 16) and (in_tile1 in (16, 32) or to_h < 16)",
         "the tuner skips the smallest tiles of larger images"),
        ("to_w <= 32 or in_tile1 <= in_tile0", "the tuner skips tall tiles of wide images"),
    ),
    ignored={"grp_tile1": "max(8, in_tile1 // out_pix_tile1)", "grp_tile0": "max(8, in_tile0 // out_pix_tile0)",
             "n_stacks": "1"},  # the solver works the group out itself, and always takes one image
)
DIRECT_FUSED = DIRECT.renamed("ConvOclDirectFwdFused")

DIRECT_1X1 = solver(
    "ConvOclDirectFwd1x1",
    _LEGACY_FIELDS,
    (
        Tunable("grp_tile0", (8, 16, 64, 128, 256), "work-items of a work-group", (64, 128, 256)),
        Tunable("out_pix_tile0", (0, 1, 2, 4), "pixels of a work-item; of the blocked variant, how the compiler is "
                "kept from reordering"),
        Tunable("n_out_pix_tiles", (1, 2, 4, 8, 16, 32, 64), "output channels of a work-item", (4, 8, 16, 32, 64)),
        Tunable("n_in_data_tiles", (1, 2, 3, 4, 8, 64, 128, 256, 2048),
                "input channels of one iteration; of the blocked variant, in local memory at once",
                (4, 8, 64, 128, 256, 2048)),
    ),
    (),  # MIOpen accepts every value
    (64, 1, 16, 4),
    meaning="1x1 filters, OpenCL",
    solves=(FORWARD_OR_DATA, NCHW, _ALL_TYPES, POINTWISE, NO_DILATION, ONE_GROUP, NO_BIAS, LEGACY),
    derived=(("blocked", "1 if dtype == 'fp32' and direction == 'forward' and from_c % 16 == 0 and to_c % 16 == 0"
                         " else 0"),),
    prior=(
        ("not blocked or (grp_tile0 == 64 and out_pix_tile0 in (0, 1, 4))",
         "what the tuner tries of the blocked variant"),
        ("not blocked or n_out_pix_tiles in (16, 32, 64)", "what the tuner tries of the blocked variant"),
        ("not blocked or n_in_data_tiles in (64, 128, 256, 2048)", "what the tuner tries of the blocked variant"),
        ("blocked or out_pix_tile0 in (1, 2, 4)", "what the tuner tries of the plain variant"),
        ("blocked or n_out_pix_tiles <= (64 if to_c % 64 == 0 else 32 if to_c % 32 == 0 else 16)",
         "the tuner keeps to divisors of the channels"),
        ("blocked or n_in_data_tiles in (4, 8)", "what the tuner tries of the plain variant"),
        ("blocked or n_in_data_tiles == 4 or from_c % 8 == 0", "the tuner keeps to divisors of the channels"),
        ("blocked or not ((n_out_pix_tiles == 32 and out_pix_tile0 >= 4)"
         " or (n_out_pix_tiles == 64 and out_pix_tile0 >= 2))", "the tuner fears for registers"),
        ("blocked or out_pix_tile0 <= ((1 if from_h * from_w % 2 else 2 if from_h * from_w % 4 else 4)"
         " if stride_w == 1 else (1 if to_w % 2 else 2) if direction == 'forward'"
         " else (1 if to_w % 2 or from_w % 2 else 2))", "the tuner keeps to divisors of the image"),
    ),
    written={"out_pix_tile1": "blocked"},
    ignored={"grp_tile1": "1", "in_tile1": "1", "in_tile0": "1", "n_stacks": "0"},
)


def _weights(images: int) -> Solver:
    return solver(
        f"ConvOclBwdWrW2<{images}>",
        "n_waves read_size n_out_channels_per_tile n_out_channels_tiles n_out_rows_in_lcl",
        (
            Tunable("n_waves", (1, 2, 3, 4, 8), "waves of a work-group", (1, 3, 8)),
            Tunable("read_size", range(6, 13), "values that a work-item reads at once"),
            Tunable("n_out_channels_per_tile", (1, 2, 3, 4, 8), "output channels of a tile", (1, 3, 8)),
            Tunable("n_out_channels_tiles", (1, 2, 3, 4, 8), "tiles of a work-group", (1, 3, 8)),
            Tunable("n_out_rows_in_lcl", range(2, 12), "output rows in local memory", (2, 3, 5, 7, 9, 11)),
        ),
        (
            ("weight_blocks >= 1", "the work-group must be large enough for the weights"),
            ("from_w >= read_size", "a row has no more values"),
            ("groups == 1 or n_out_channels_tiles == 1", "of groups, one tile at a time"),
            ("n_out_channels_tiles * n_out_channels_per_tile <= from_c // groups", "a group has no more channels"),
            ("n_out_rows_in_lcl >= r", "the rows must cover the filter"),
            ("lds_used <= local_memory", "rows and weights must fit into local memory"),
        ),
        (1, 6, 1, 1, 3),
        meaning=f"weight gradient, OpenCL, {images} images of a batch at a time",
        solves=(BACKWARD_WEIGHTS, NCHW, _ALL_TYPES, NO_DILATION, NO_BIAS,
                (f"n >= {images}", f"it takes {images} images at a time"),
                (f"(to_c // groups) * r * s * from_c * ceil_div(n, {images}) <= alloc_bytes",
                 "its workspace must be allocatable"),
                (f"n <= {images} or (to_c // groups) * r * s * from_c * ceil_div(n, {images}) * element_bytes"
                 " <= 6 * 2**30", "its workspace has at most 6 GiB"), LEGACY),
        derived=(
            ("in_rows", "(n_out_rows_in_lcl - 1) * stride_h + r"),
            ("wanted_w", "max(to_w + 2 * pad_w, pad_w + ceil_div(to_w, read_size) * read_size,"
                         " s + (from_w - 1) * stride_w)"),
            ("right", "max(wanted_w - (to_w + 2 * pad_w), 0)"),
            ("in_row", "((pad_w + to_w + right) // 2) * 2 + 1 if dtype == 'fp32' else pad_w + to_w + right"),
            ("weights_per_item", "s if (s <= 7 or s % 2) else s // 2"),
            ("weight_block", "r * ceil_div(s, weights_per_item)"),
            ("weight_blocks", "(64 * n_waves) // weight_block"),
            ("scans", "ceil_div(from_w, max(1, weight_blocks))"),
            ("blocks", "min(weight_blocks, ceil_div(from_w, scans))"),
            ("lds_used", "max(in_row * in_rows + pad_w + right + n_out_rows_in_lcl * n_out_channels_tiles"
                         " * max(scans * blocks, ceil_div(from_w, read_size) * read_size),"
                         " weight_block * weights_per_item * blocks * n_out_channels_tiles) * element_bytes"),
        ),
    )


WEIGHTS_1, WEIGHTS_2, WEIGHTS_4, WEIGHTS_8, WEIGHTS_16 = (_weights(images) for images in (1, 2, 4, 8, 16))
