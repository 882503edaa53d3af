"""llvm.attention_bf16: llvm.attention of bf16 numbers, whose instruction adds two products to an fp32 sum.

Scores, sums and masks are in fp32; keys and values are packed in pairs, a head at a time.
"""

from __future__ import annotations

from functools import lru_cache

from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import KernelSource
from ..problem import Problem
from .attention import KERNEL as SINGLE
from .attention_views import AttentionViews
from .changed_declaration import changed_conditions
from .ir.attention.pair_tile import PairTile
from .ir.attention.pairs import BF16, pair_functions
from .ir.attention.query_loops import source
from .ir.attention.query_tile import FIELDS
from .ir.attention.transposition import transpositions
from .ir.tiling import pieces
from .launch import Launch, LLVMImplementation, Phase
from .text.elements import FP32
from .text.writer import in_order

KERNEL = Kernel.of(
    name="llvm.attention_bf16",
    operation="attention",
    meaning="attention of many queries in bf16: a tile of queries in the lanes of vectors visits blocks of packed keys",
    parameters=(
        *SINGLE.parameters[:3],
        Parameter("unroll", (1, 2, 4), "pairs of a key's numbers in the innermost loop's body"),
        SINGLE.by_name["block"],
    ),
    derived=(
        *((name, expression.text) for name, expression in SINGLE.derived[:-4]),
        ("queries_bytes", "head_dim * lanes * 2"),
        ("scores_bytes", "min(block, kv_len) * lanes * 4"),
        ("values_bytes", "min(block, kv_len) * value_dim * 2"),
        ("head_bytes", "kv_len * (head_dim + value_dim) * 2"),
    ),
    solves=(
        ("dtype == 'bf16'", "it computes in bf16 only"),
        ("bf16_dots == 1", "the device has no dot products of bf16 numbers"),
        ("head_dim % 2 == 0", "a key must have an even number of numbers: an instruction multiplies pairs of them"),
        ("q_len >= 4", "it needs at least 4 queries"),
        ("kv_len >= 4", "it needs at least 4 keys"),
        ("head_dim >= 8 and value_dim >= 4", "it needs keys of at least 8 numbers, and values of at least 4"),
    ),
    constraints=tuple(condition for condition in changed_conditions(SINGLE, {
        "vector <= head_dim and vector <= value_dim": (
            "vector * 2 <= head_dim and vector <= value_dim",
            "a vector must not have more lanes than a key has pairs, or a value numbers"),
        "head_dim % unroll == 0": ("head_dim % (2 * unroll) == 0", "unrolled pairs must divide a head"),
    }) if "copy" not in condition[0]),
    default={"vector": 16, "vectors": 2, "rows": 8, "unroll": 2, "block": 256},
    implementation="seqtune.kernels.llvm.attention_bf16:IMPLEMENTATION",
)


class LLVMAttentionBF16(LLVMImplementation):
    """Runs llvm.attention_bf16."""

    includes = "mask and softmax; keys and values are packed in every run"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               views: AttentionViews | None = None) -> KernelSource:
        """The text; it depends on the tile, kinds of masks and what tiles leave over."""
        tile = _tile(problem, configuration, views or AttentionViews.of(problem))
        vectors = -(-problem.size("q_len") // tile.vector)
        return _source(tile, vectors % tile.vectors)

    def launch(self, problem: Problem, device: Device, configuration: Configuration,
               views: AttentionViews | None = None) -> Launch:
        """The launch for these views, by default those of the problem's operands.

        Its last argument is the address of the mask, 0 here.
        """
        views = views or AttentionViews.of(problem)
        tile = _tile(problem, configuration, views)
        n, heads, kv_heads, dim, value_dim, keys = (
            problem.size(name) for name in ("n", "heads", "kv_heads", "head_dim", "value_dim", "kv_len"))
        vectors, block = -(-problem.size("q_len") // tile.vector), configuration.number("block")
        tiles = -(-vectors // tile.vectors)
        tasks = n * heads * tiles
        begin = -(-tile.scratch(dim, value_dim, block) // 16) * 16
        piece = begin + -(-(keys * dim // 2 + (keys + 1) // 2 * value_dim) // 16) * 16
        arguments = in_order(
            FIELDS, mask=0, **views.arguments(problem), v_step=value_dim, block=block,
            threads=device.threads, tasks=tasks, piece=piece, tiles=tiles, copies_at=begin, kv_heads=kv_heads,
            whole_tiles=vectors // tile.vectors if vectors % tile.vectors else tiles)
        return Launch(arguments, (Phase("attention", tasks),), pieces(device.threads, tasks) * piece)


def _tile(problem: Problem, configuration: Configuration, views: AttentionViews) -> PairTile:
    rows = configuration.number("rows")
    return PairTile(
        vector=configuration.number("vector"), vectors=configuration.number("vectors"), rows=rows,
        unroll=configuration.number("unroll"), columns_rest=problem.size("value_dim") % rows,
        key_step=problem.size("head_dim") // 2, mask=str(problem["mask"]), causal=problem["causal"] == "yes",
        y=FP32 if views.y_element == "fp32" else BF16)


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def _source(tile: PairTile, rest: int) -> KernelSource:
    return KernelSource(source(tile, rest, False), (transpositions(tile.vector), pair_functions(tile.vector)))


IMPLEMENTATION = LLVMAttentionBF16()
