"""llvm.attention_decode: fp32 attention of few queries, as in the decoding of a language model with cached keys.

The time is that of reading keys and values, once for all query heads that share them.
"""

from __future__ import annotations

from functools import lru_cache

from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import KernelSource
from ..problem import Problem
from .attention_views import AttentionViews
from .ir.attention.dot_rows import HEAD, DotRows
from .ir.attention.key_spans import FIELDS, VALUES
from .ir.tiling import pieces
from .launch import Launch, LLVMImplementation, Phase
from .text.writer import in_order

LEAST_SPAN = 64  # keys: shorter spans cost more than they gain

KERNEL = Kernel.of(
    name="llvm.attention_decode",
    operation="attention",
    meaning="attention of few queries: products of vectors along the keys, which may be divided into spans",
    parameters=(
        Parameter("vector", (1, 4, 8, 16), "numbers of a key or value in a vector"),
        Parameter("keys", (1, 2, 4, 8, 16), "keys whose products are summed across lanes together"),
        Parameter("columns", (1, 2, 4, 8), "vectors of columns of the values in registers"),
        Parameter("unroll", (1, 2, 4), "values in the innermost loop's body"),
        Parameter("block", (64, 128, 256, 512, 1024), "keys whose scores are held at once"),
        Parameter("spans", (0, 1, 2, 4, 8, 16, 32), "tasks among which the keys of a head are divided; 0: as many as "
                                                    "give every thread a task"),
    ),
    derived=(
        ("accumulators", "columns * unroll"),
        ("rows", "group * q_len"),
        ("fill", f"max(1, min(ceil_div(threads, n * kv_heads), kv_len // {LEAST_SPAN}))"),
        ("parts", "spans if spans > 0 else fill"),
        ("span", "ceil_div(kv_len, parts)"),
        ("blocks", "ceil_div(span, block)"),
        ("tasks", "n * kv_heads * parts"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("block_bytes", "min(block, span) * (head_dim + value_dim) * 4"),
        ("cache_bytes", "n * kv_heads * kv_len * (head_dim + value_dim) * 4"),
    ),
    solves=(
        ("dtype == 'fp32'", "it computes in fp32 only"),
        ("q_len <= 32 or kv_len < 4 or head_dim < 4 or value_dim < 4", "it is for at most 32 queries"),
    ),
    constraints=(
        ("vector <= vector_floats", "a vector must fit the widest register"),
        ("head_dim % vector == 0 and value_dim % vector == 0", "vectors must divide keys and values"),
        ("vector == min(vector_floats, 16) or head_dim % max(4, 2 * vector) > 0 or value_dim % max(4, 2 * vector) > 0",
         "vectors below the register's width pay only where wider ones do not divide keys and values"),
        ("keys <= vector and keys <= kv_len", "as many keys are summed together as there are lanes, at most"),
        ("keys * 4 >= min(vector, kv_len)", "sums across lanes of so few keys waste most of their steps"),
        ("keys + 2 <= vector_registers", "the products of the keys must fit the registers"),
        ("columns * vector <= value_dim", "there must be as many columns as in registers"),
        ("accumulators + columns + 2 <= vector_registers", "sums, values and a weight must fit the registers"),
        ("block == 64 or block < 2 * span", "a smaller block holds all keys of a task"),
        ("spans != fill", "0 stands for as many spans as give every thread a task"),
        (f"parts == 1 or span >= {LEAST_SPAN}", "spans this short cost more than they gain"),
        ("spans <= 1 or tasks < 8 * threads", "tasks this many gain nothing"),
    ),
    default={"vector": 16, "keys": 16, "columns": 4, "unroll": 2, "block": 128, "spans": 0},
    implementation="seqtune.kernels.llvm.attention_decode:IMPLEMENTATION",
    default_for="q_len < vector_floats",
)


class AttentionDecode(LLVMImplementation):
    """Runs llvm.attention_decode."""

    includes = "mask and softmax; keys and values are not packed before"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               views: AttentionViews | None = None) -> KernelSource:
        """The text; it depends on the registers, kinds of masks, the columns left over and whether keys are divided.

        Raises KernelError for views whose y is not stored as fp32.
        """
        if views is not None:
            views.check_single(KERNEL.name)
        vector, keys, columns, unroll = (
            configuration.number(name) for name in ("vector", "keys", "columns", "unroll"))
        return _source(DotRows(
            vector, keys, columns, unroll, columns_rest=problem.size("value_dim") // vector % columns,
            mask=str(problem["mask"]), causal=problem["causal"] == "yes",
            divided=_parts(problem, device, configuration) > 1))

    def launch(self, problem: Problem, device: Device, configuration: Configuration,
               views: AttentionViews | None = None) -> Launch:
        """The launch for these views, by default those of the problem's operands.

        Its last argument is the address of the mask, 0 here.
        """
        n, kv_heads, group, q_len, kv_len, value_dim = (
            problem.size(name) for name in ("n", "kv_heads", "group", "q_len", "kv_len", "value_dim"))
        block, parts = configuration.number("block"), _parts(problem, device, configuration)
        span, divided = -(-kv_len // parts), parts > 1
        spans, rows = -(-kv_len // span), group * q_len
        tasks = n * kv_heads * spans
        piece, partial = HEAD + block + HEAD, VALUES + value_dim if divided else VALUES
        begin = pieces(device.threads, tasks) * piece
        arguments = in_order(
            FIELDS, mask=0, **(views or AttentionViews.of(problem)).arguments(problem), kv_heads=kv_heads, rows=rows,
            spans=spans, span=span, block=block, threads=device.threads, tasks=tasks, piece=piece,
            partials_at=begin, partial=partial)
        merging = (Phase("merge", n * kv_heads * rows),) if divided else ()
        return Launch(arguments, (Phase("attention", tasks), *merging), begin + tasks * rows * partial)


def _parts(problem: Problem, device: Device, configuration: Configuration) -> int:
    """The number of spans of a head's keys, like the derived quantity of this name."""
    fill = min(-(-device.threads // (problem.size("n") * problem.size("kv_heads"))),
               problem.size("kv_len") // LEAST_SPAN)
    return configuration.number("spans") or max(1, fill)


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def _source(rows: DotRows) -> KernelSource:
    return KernelSource(rows.text())


IMPLEMENTATION = AttentionDecode()
