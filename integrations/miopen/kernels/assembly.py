"""MIOpen's assembly solvers: 1x1 and 3x3 filters, forward, data gradient and weight gradient.

`from_*` names the image that a kernel reads and `to_*` the image that it writes; backward kernels read the gradient of
the output.
"""

from __future__ import annotations

from .solver import (
    BACKWARD_WEIGHTS,
    FORWARD_OR_DATA,
    GFX9,
    LEGACY,
    NCHW,
    NO_BIAS,
    NO_DILATION,
    ONE_GROUP,
    POINTWISE,
    Condition,
    Tunable,
    dtypes,
    solver,
)

_DWORD = ("per_dword", "4 // element_bytes")  # elements in 32 bits
_SQUARE_STRIDE = ("stride_h == stride_w and stride_h <= 2", "its stride is 1 or 2, the same both ways")
_SIDE_BY_SIDE = (  # waves of a work-group that split the channels
    ("c_per_wave", "ceil_div(from_c, waves_c_in_group)"),
    ("c_per_last_wave", "from_c - c_per_wave * (waves_c_in_group - 1)"),
)
def _waves(k: str) -> tuple[Condition, ...]:
    return (
        ("waves_c_in_group <= from_c", "each wave needs a channel"),
        ("c_per_wave % c_mult == 0 and c_per_last_wave % c_mult == 0", "the loop over channels has no tail"),
        (f"k_mult * waves_k_in_group <= {k}", "no wave may be idle"),
        ("waves_c_in_group * waves_k_in_group <= group_waves", "so many waves fit into a work-group"),
        ("(vector_registers // vgprs) * 4 >= waves_c_in_group * waves_k_in_group",
         "the whole work-group must fit into a compute unit of four SIMDs"),
    )


_NO_K_TAIL = ("direction != 'backward_data' or to_c % k_mult == 0", "backward there is no tail over channels")

ASM_1X1U = solver(
    "ConvAsm1x1U",
    "read_size k_mult chunks_per_wave chunk_size n_mult c_mult waves_c_in_group waves_k_in_group",
    (
        Tunable("read_size", range(1, 5), "dwords that a lane loads at once"),
        Tunable("k_mult", (1, 4, 8, 12, 16, 20, 24, 28, 32), "output channels of a wave", (1, 4, 8, 16, 32)),
        Tunable("chunks_per_wave", range(1, 17), "chunks of the image that a wave computes", range(1, 9)),
        Tunable("chunk_size", (1, 2, 4, 8, 16, 32, 64), "pixels of a chunk; 64 // chunk_size images share a register",
                (1, 4, 16, 32, 64)),
        Tunable("n_mult", range(1, 9), "images of a wave, by 64 // chunk_size", (1, 2, 3, 4)),
        Tunable("c_mult", (1, 2, 4, 8, 16, 32), "input channels of one iteration", (1, 2, 4)),
        Tunable("waves_c_in_group", range(1, 9), "waves of a work-group that split the input channels", (1, 2, 4)),
        Tunable("waves_k_in_group", (1, 2, 4, 8), "waves of a work-group that split the output channels"),
    ),
    (
        ("k_mult % per_dword == 0", "16-bit values go in pairs"),
        ("few_k % k_mult == 0 or direction == 'forward'", _NO_K_TAIL[1]),
        ("read_size * per_dword <= chunks_per_wave", "what is loaded at once must fit into a wave's chunks"),
        ("chunks_per_wave % per_dword == 0", "16-bit values go in pairs"),
        ("chunks_per_wave <= ceil_div(few_pixels, chunk_size)", "the image has no more chunks"),
        ("n_mult <= ceil_div(few_n, 64 // chunk_size)", "the batch has no more images"),
        ("c_mult % per_dword == 0", "16-bit values go in pairs"),
        ("vgprs < vector_registers", "vector registers run out"),
        ("sgprs < scalar_registers", "scalar registers, which hold the weights, run out"),
        *_waves("few_k"),
    ),
    (1, 16, 1, 16, 1, 1, 1, 2),
    meaning="1x1 filters, assembly",
    solves=(FORWARD_OR_DATA, NCHW, dtypes("fp32", "fp16"), POINTWISE, _SQUARE_STRIDE, NO_DILATION, ONE_GROUP, NO_BIAS,
            ("from_c % (4 // element_bytes) == 0 and to_c % (4 // element_bytes) == 0", "16-bit channels go in pairs"),
            GFX9, LEGACY),
    derived=(
        _DWORD,
        # only as much of the sizes as the constraints distinguish, so that many problems share one space
        ("few_pixels", "min(to_h * to_w, 1024)"),
        ("odd_pixels", "1 if to_h * to_w % per_dword != 0 else 0"),
        ("few_n", "min(n, 512)"),
        ("few_k", "min(to_c, 256) if direction == 'forward' else to_c"),
        ("in_gprs", "ceil_div(chunks_per_wave * n_mult * c_mult, per_dword)"),
        ("acc_gprs", "chunks_per_wave * n_mult * k_mult"),
        ("vgprs", "4 + 2 * in_gprs + acc_gprs + odd_pixels + 1"),
        ("sgprs", "25 + 2 * k_mult * c_mult"),
        *_SIDE_BY_SIDE,
    ),
    prior=(("(k_mult in (8, 16, 32)) == (chunk_size in (16, 32, 64))",
            "the tuner scans k_mult 8, 16, 32 with chunk_size 16, 32, 64, and small values of both only where those "
            "leave nothing"),),
)
ASM_1X1U_FUSED = ASM_1X1U.renamed("ConvBiasActivAsm1x1U")

ASM_1X1U_V2 = solver(
    "ConvAsm1x1UV2",
    "chunk_size dwords_per_ld k_mult c_mult n_mult w_mult h_mult h_per_chunk waves_k_in_group waves_c_in_group",
    (
        Tunable("chunk_size", (1, 2, 4, 8, 16, 32, 64), "lanes of a chunk", (16, 32, 64)),
        Tunable("dwords_per_ld", (1, 2, 3, 4), "dwords that a lane loads at once", (1, 2, 3)),
        # MIOpen accepts all multipliers up to 32, billions of configurations; these are the values that its tuner
        # tries, and their neighbours.
        Tunable("k_mult", (1, 2, 3, 4, 8, 16, 32), "output channels of a wave", (1, 2, 3, 4, 8, 16)),
        Tunable("c_mult", (1, 2, 4), "input channels of one iteration"),
        Tunable("n_mult", (1, 2, 4), "images of a wave, by 64 // chunk_size", (1, 2)),
        Tunable("w_mult", (1, 2, 4), "columns of a wave", (1, 2)),
        Tunable("h_mult", (1, 2, 4), "rows of a wave, by h_per_chunk", (1, 2)),
        Tunable("h_per_chunk", (1, 2, 4, 8, 16, 32, 64), "rows of a chunk", (2, 4, 8)),
        Tunable("waves_k_in_group", (1, 2, 4, 8), "waves of a work-group that split the output channels", (2, 4)),
        Tunable("waves_c_in_group", (1, 2, 4, 8), "waves of a work-group that split the input channels", (1, 2)),
    ),
    (
        ("h_per_chunk <= chunk_size", "a chunk has no more rows than lanes"),
        ("25 + 2 * k_mult * c_mult < scalar_registers", "scalar registers run out"),
        ("n_mult <= ceil_div(n, 64 // chunk_size)", "the batch has no more images"),
        _NO_K_TAIL,
        ("(from_c + n_miss) * from_w * from_h * from_c * 4 < 2**31"
         " and (to_c + n_miss) * to_w * to_h * to_c * 4 < 2**31",
         "buffer offsets have 32 bits"),
        ("vgprs < vector_registers", "vector registers run out"),
        *_waves("to_c"),
    ),
    (64, 1, 16, 1, 1, 1, 1, 4, 2, 1),
    meaning="strided 1x1 filters, assembly",
    solves=(FORWARD_OR_DATA, NCHW, dtypes("fp32"), POINTWISE, NO_DILATION, ONE_GROUP, NO_BIAS,
            ("stride_h == 2 and stride_w == 2", "its stride is 2"), LEGACY),
    derived=(
        _DWORD,
        ("read_stride_h", "stride_h if direction == 'forward' else 1"),
        ("read_stride_w", "stride_w if direction == 'forward' else 1"),
        ("w_per_wave", "ceil_div(dwords_per_ld, read_stride_w) * w_mult * (chunk_size // h_per_chunk)"),
        # width against rows and height against columns, as in MIOpen
        ("grid", "ceil_div(ceil_div(from_w, read_stride_w), h_per_chunk * h_mult)"
                 " * ceil_div(ceil_div(from_h, read_stride_h), max(1, w_per_wave))"),
        ("in_gprs", "dwords_per_ld * w_mult * h_mult * c_mult * n_mult * 2"),
        ("acc_gprs", "ceil_div(dwords_per_ld * per_dword, read_stride_w) * w_mult * h_mult * k_mult * n_mult"),
        ("extra_gprs", "(1 if grid >= 65536 else 0)"
                       " + (max(0, (2 if dwords_per_ld == 1 else 4) - (in_gprs - 1))"
                       " if direction != 'forward' and stride_w > 1"
                       " else (1 if grid >= 65536 and in_gprs < 2 else 0))"),
        ("vgprs", "5 + in_gprs + acc_gprs + extra_gprs + 1"),
        ("n_miss", "n_mult * (64 // chunk_size) - 1"),
        *_SIDE_BY_SIDE,
    ),
)

ASM_3X3U = solver(
    "ConvAsm3x3U",
    "limit_wave_cnt filters_per_wave output_lines_per_wave",
    (
        Tunable("limit_wave_cnt", range(10), "waves of a compute unit at once, 0 without a limit"),
        Tunable("filters_per_wave", range(1, 9), "output channels of a wave"),
        Tunable("output_lines_per_wave", range(1, 9), "output rows of a wave"),
    ),
    (
        ("groups == 1 or (to_c % filters_per_wave == 0 and (to_c // filters_per_wave) % groups == 0)",
         "the filters must split evenly over the groups"),
        ("vgprs < vector_registers", "vector registers run out"),
    ),
    (0, 2, 2),
    meaning="3x3 filters, assembly",
    solves=(FORWARD_OR_DATA, NCHW, dtypes("fp32"), NO_DILATION, NO_BIAS,
            ("r == 3 and s == 3 and pad_h == 1 and pad_w == 1 and stride_h == 1 and stride_w == 1",
             "its filter is 3x3 with padding 1 and stride 1"),
            ("(from_c // groups) % 4 == 0", "it reads channels by four"),
            ("3 < from_w <= 1000", "its rows have 4 to 1000 pixels"), LEGACY),
    derived=(
        ("active_lanes", "ceil_div(from_w, ceil_div(from_w, 64))"),
        ("gprs_per_line", "ceil_div(from_w, active_lanes)"),
        ("input_lines", "output_lines_per_wave if from_h == output_lines_per_wave else output_lines_per_wave + 2"),
        ("power_of_two", "1 if ((to_c // groups) & (to_c // groups - 1)) == 0 else 0"),
        ("line_gprs", "gprs_per_line * input_lines"),
        ("vgprs", "(1 if from_h != output_lines_per_wave else 0) + (1 if from_w % active_lanes != 0 else 0)"
                  " + (line_gprs if power_of_two or line_gprs >= 4 else 4)"
                  " + (line_gprs if power_of_two or line_gprs >= 3 else 3)"
                  " + 2 + gprs_per_line * filters_per_wave * output_lines_per_wave"),
    ),
)

ASM_WEIGHTS_1X1 = solver(
    "ConvAsmBwdWrW1x1",
    "chunk_size c_per_gpr c_mult k_per_gpr k_mult n_per_gpr n_part_cnt read_size short_store data_prefetch",
    (
        Tunable("chunk_size", (1, 2, 4, 8, 16), "lanes of a chunk; 16 // chunk_size channels share a register",
                (1, 2, 4)),
        Tunable("c_mult", (1, 2, 4, 8, 16), "input channels, by c_per_gpr", (2, 4, 8)),
        Tunable("k_per_gpr", (1, 2, 4, 8, 16), "output channels that share a register", (1, 2, 4, 8)),
        Tunable("k_mult", (1, 2, 4, 8, 16), "output channels, by k_per_gpr", (2, 4, 8)),
        Tunable("n_per_gpr", (1, 2, 4), "images that share a register", (1, 2)),
        Tunable("n_part_cnt", range(1, 9), "waves of a work-group that split the batch", (1, 2, 4)),
        Tunable("read_size", (1, 2, 3, 4), "dwords that a lane loads at once", (2, 4)),
        Tunable("short_store", (0, 1), "16-bit results are stored singly, not in pairs", (0,)),
        Tunable("data_prefetch", range(5), "loads in flight", (0, 1, 2, 3)),
    ),
    (
        ("k_per_gpr <= c_per_gpr", "the lanes of a row hold no more output channels than input channels"),
        ("hw_per_gpr in (1, 2, 4)", "the lanes of a wave must be filled"),
        ("c_per_gpr * n_per_gpr * hw_per_gpr * chunk_size == wave_size", "the lanes of a wave must be filled"),
        ("dtype == 'fp32' or short_store == 1 or (c_mult % 2 == 0 and even_c)", "pairs need an even number"),
        ("dtype != 'fp32' or short_store == 0", "only 16-bit results are stored singly"),
        ("n_part_cnt == 1 or (n_part_cnt - 1) * wave_size * 4 * acc_gprs <= local_memory",
         "the sums of the batch's parts must fit into local memory"),
        ("acc_gprs + 12 + (c_mult + k_mult) * read_size * (data_prefetch + 1)"
         " + ((c_mult + k_mult) * read_size if dtype == 'bf16' else 0) <= (128 if n_part_cnt > 4 else 256)",
         "vector registers run out"),
    ),
    (4, 4, 1, 4, 1, 1, 2, 0, 1),
    meaning="weight gradient of 1x1 filters, assembly",
    solves=(BACKWARD_WEIGHTS, NCHW, dtypes("fp32", "fp16", "bf16"), POINTWISE, _SQUARE_STRIDE, NO_DILATION, ONE_GROUP,
            NO_BIAS, LEGACY),
    derived=(
        ("even_c", "1 if to_c % 2 == 0 else 0"),
        ("c_per_gpr", "16 // chunk_size"),
        ("hw_per_gpr", "64 // (c_per_gpr * n_per_gpr * chunk_size)"),
        ("acc_gprs", "c_mult * k_mult * k_per_gpr"),
    ),
    prior=(("c_per_gpr in (2, 4, 8, 16)", "the tuner tries no other c_per_gpr"),),
    written={"c_per_gpr": "c_per_gpr"},
)

ASM_WEIGHTS_3X3 = solver(
    "ConvAsmBwdWrW3x3",
    "limit_wave_cnt reverse_inout chunk_size k_per_wave pipe_lines_depth n_per_group",
    (
        Tunable("reverse_inout", (0, 1), "input and output channels swap their roles"),
        Tunable("chunk_size", (8, 16), "lanes of a chunk; 64 // chunk_size input channels of a wave"),
        Tunable("k_per_wave", (1, 2, 4, 8), "output channels of a wave"),
        Tunable("pipe_lines_depth", range(1, 17), "rows kept in registers"),
        Tunable("n_per_group", range(1, 9), "waves of a work-group that split the batch"),
    ),
    (
        ("not reverse_inout or (stride_h == 1 and stride_w == 1)", "roles are swapped without a stride only"),
        ("(from_c if reverse_inout else to_c) % (c_per_wave * groups) == 0", "channels must split evenly over waves"),
        ("to_c % c_per_wave == 0 or from_c % c_per_wave == 0", "channels must fill the lanes"),
        ("(to_c if reverse_inout else from_c) % (k_per_wave * groups) == 0", "channels must split evenly over waves"),
        ("chunk_size * k_per_wave <= 64", "a wave has 64 lanes"),
        ("pipe_lines_depth <= min(to_h, 16)", "the image has no more rows"),
        ("vgprs <= 256", "vector registers run out"),
        ("code_size < 32000", "the unrolled code gets too long"),
        ("n_per_group <= n", "the batch has no more images"),
        ("n_per_group <= 4 or vgprs <= 128", "vector registers of a large work-group run out"),
        ("(n_per_group - 1) * wave_size * 4 * sums <= local_memory",
         "the sums of the batch's parts must fit into local memory"),
    ),
    (0, 16, 4, 2, 1),
    meaning="weight gradient of 3x3 filters, assembly",
    solves=(BACKWARD_WEIGHTS, NCHW, dtypes("fp32", "fp16"), NO_DILATION, NO_BIAS,
            ("r == 3 and s == 3 and pad_h == 1 and pad_w == 1", "its filter is 3x3 with padding 1"),
            ("stride_h <= 2 and stride_w <= 2", "its stride is 1 or 2"),
            ("to_w <= 512", "rows have at most 512 pixels"),
            ("dtype != 'fp16' or n % 2 == 0", "16-bit images go in pairs"), LEGACY),
    derived=(
        ("c_per_wave", "64 // chunk_size"),
        ("pair", "2 if dtype == 'fp16' else 1"),
        ("sums", "(s * r * c_per_wave * k_per_wave * chunk_size) // 64"),
        ("line", "ceil_div(ceil_div(to_w, pair), chunk_size if chunk_size == 16 else chunk_size - pad_w)"),
        ("gprs_per_line_in", "line + line % stride_w"),
        ("gprs_per_line_out", "gprs_per_line_in // stride_w if gprs_per_line_in > 1 else 1"),
        ("in_gprs", "(pipe_lines_depth + r - 1) * pair * gprs_per_line_in"),
        ("out_gprs", "ceil_div(pipe_lines_depth, stride_h) * pair * gprs_per_line_out"),
        ("k_group", "from_c // (c_per_wave if reverse_inout else k_per_wave) // groups"),
        ("vgprs", "sums + in_gprs + out_gprs + 6 + (pair - 1) + (0 if (k_group & (k_group - 1)) == 0"
                  " else (0 if in_gprs >= 4 else 4) + (0 if out_gprs >= 3 else 3))"),
        ("unroll", "pipe_lines_depth * (pipe_lines_depth + 2)"),
        ("loops", "pipe_lines_depth + unroll + max(0, to_h - 1 - pipe_lines_depth) % unroll + 1"),
        ("memory_instructions", "3 + (gprs_per_line_in + 3) // 4"),
        ("vector_instructions",
         "(k_per_wave * r * gprs_per_line_out * s * 4 * (2 if pair == 2 and not dot2 else 1)) // 3 * pair"),
        ("code_size",
         "loops * (memory_instructions * (4 if pair == 2 else 1) + vector_instructions) * pair"),
    ),
    written={"limit_wave_cnt": "0"},  # MIOpen's tuner never limits them
)
