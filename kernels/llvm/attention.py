"""llvm.attention: fp32 attention of many queries; the lanes of its vectors are queries, keys and values stay in place.
"""

from __future__ import annotations

from functools import lru_cache

from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import KernelSource
from ..problem import Problem
from .attention_views import AttentionViews
from .ir.attention.query_loops import source
from .ir.attention.query_tile import FIELDS, QueryTile
from .ir.attention.transposition import transpositions
from .ir.tiling import pieces
from .launch import Launch, LLVMImplementation, Phase
from .text.writer import in_order

# SSE multiplies in place, so no register is reserved for a key's number.
_INPUT_REGISTER = "(0 if instruction_set == 'sse' else 1)"

KERNEL = Kernel.of(
    name="llvm.attention",
    operation="attention",
    meaning="attention of many queries: a tile of queries in the lanes of vectors visits blocks of keys",
    parameters=(
        Parameter("vector", (4, 8, 16), "queries in a vector"),
        Parameter("vectors", (1, 2, 3, 4), "vectors of queries in a tile"),
        Parameter("rows", (4, 6, 8, 9, 10, 12, 14, 16, 24, 28), "keys, or columns of the values, in registers"),
        Parameter("unroll", (1, 2, 4), "numbers of a key in the innermost loop's body"),
        Parameter("block", (32, 64, 128, 256, 512), "keys whose scores are held at once"),
        Parameter("copy", (0, 1), "1: keys and values are first copied, head by head"),
    ),
    derived=(
        ("lanes", "vector * vectors"),
        ("accumulators", "rows * vectors"),
        ("loads_per_fma", "(rows + vectors) / accumulators"),
        ("q_vectors", "ceil_div(q_len, vector)"),
        ("tiles", "ceil_div(q_vectors, vectors)"),
        ("q_waste", "q_vectors * vector / q_len"),
        ("key_waste", "ceil_div(kv_len, rows) * rows / kv_len"),
        ("column_waste", "ceil_div(value_dim, rows) * rows / value_dim"),
        ("blocks", "ceil_div(kv_len, block)"),
        ("tasks", "n * heads * tiles"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("queries_bytes", "head_dim * lanes * 4"),
        ("scores_bytes", "min(block, kv_len) * lanes * 4"),
        ("values_bytes", "min(block, kv_len) * value_dim * 4"),
        ("head_bytes", "kv_len * (head_dim + value_dim) * 4"),
    ),
    solves=(
        ("dtype == 'fp32'", "it computes in fp32 only"),
        ("q_len >= 4", "it needs at least 4 queries"),
        ("kv_len >= 4", "it needs at least 4 keys"),
        ("head_dim >= 4 and value_dim >= 4", "it needs heads of at least 4 numbers"),
    ),
    constraints=(
        ("vector <= vector_floats", "a vector must fit the widest register"),
        ("vector <= head_dim and vector <= value_dim", "a vector must not have more lanes than a head has numbers"),
        ("mask != 'scores' or vector <= kv_len", "a vector must not have more lanes than the mask has keys"),
        ("lanes <= q_len", "a tile must not have more queries than there are"),
        ("vector == min(vector_floats, 16) or vector * 4 > min(head_dim, value_dim) or vector * 8 > q_len",
         "vectors below the register's width pay only where there are few queries"),
        ("rows <= kv_len and rows <= value_dim", "a tile must not have more rows than there are keys, or columns"),
        (f"accumulators + vectors + {_INPUT_REGISTER} <= vector_registers",
         "sums, queries and one number of a key must fit the registers"),
        ("accumulators >= 8 or rows * 2 > min(kv_len, value_dim) or lanes * 2 > q_len",
         "fewer than 8 sums only wait for each other"),
        ("head_dim % unroll == 0", "unrolled numbers must divide a head"),
        ("block == 32 or block < 2 * kv_len", "a smaller block holds all keys"),
        ("copy == 0 or layout == 'tokens' and heads > group", "copies pay only where the keys of a head lie apart"),
    ),
    default={"vector": 16, "vectors": 2, "rows": 12, "unroll": 2, "block": 128, "copy": 0},
    implementation="seqtune.kernels.llvm.attention:IMPLEMENTATION",
)


class LLVMAttention(LLVMImplementation):
    """Runs llvm.attention."""

    includes = "mask and softmax; keys and values are not packed before"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               views: AttentionViews | None = None) -> KernelSource:
        """The text; it depends on the tile, the step between keys, kinds of masks and what tiles leave over.

        Raises KernelError for views whose y is not stored as fp32.
        """
        views = views or AttentionViews.of(problem)
        views.check_single(KERNEL.name)
        tile = _tile(problem, configuration, views)
        vectors = -(-problem.size("q_len") // tile.vector)
        return _source(tile, vectors % tile.vectors, configuration["copy"] == 1)

    def launch(self, problem: Problem, device: Device, configuration: Configuration,
               views: AttentionViews | None = None) -> Launch:
        """The launch for these views, by default those of the problem's operands.

        Its last argument is the address of the mask, 0 here.
        """
        views = views or AttentionViews.of(problem)
        tile = _tile(problem, configuration, views)
        n, heads, kv_heads, dim, value_dim = (
            problem.size(name) for name in ("n", "heads", "kv_heads", "head_dim", "value_dim"))
        vectors, block = -(-problem.size("q_len") // tile.vector), configuration.number("block")
        tiles = -(-vectors // tile.vectors)
        tasks, copies = n * heads * tiles, configuration["copy"] == 1
        piece = -(-tile.scratch(dim, value_dim, block) // 16) * 16  # whole cache lines
        begin = pieces(device.threads, tasks) * piece
        arguments = in_order(
            FIELDS, mask=0, **views.arguments(problem), v_step=value_dim if copies else views.v[2], block=block,
            threads=device.threads, tasks=tasks, piece=piece, tiles=tiles, copies_at=begin, kv_heads=kv_heads,
            whole_tiles=vectors // tile.vectors if vectors % tile.vectors else tiles)
        phases = [Phase("copy", n * kv_heads)] if copies else []
        copied = n * kv_heads * problem.size("kv_len") * (dim + value_dim) if copies else 0
        return Launch(arguments, (*phases, Phase("attention", tasks)), begin + copied)


def _tile(problem: Problem, configuration: Configuration, views: AttentionViews) -> QueryTile:
    rows, key_step = configuration.number("rows"), views.k[2]
    return QueryTile(
        vector=configuration.number("vector"), vectors=configuration.number("vectors"), rows=rows,
        unroll=configuration.number("unroll"), columns_rest=problem.size("value_dim") % rows,
        key_step=problem.size("head_dim") if configuration["copy"] == 1 else key_step,
        mask=str(problem["mask"]), causal=problem["causal"] == "yes")


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def _source(tile: QueryTile, rest: int, copies: bool) -> KernelSource:
    return KernelSource(source(tile, rest, copies), (transpositions(tile.vector),))


IMPLEMENTATION = LLVMAttention()
