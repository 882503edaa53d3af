"""llvm.gemm: fp32 matrix product with the register tile of llvm.direct, whose pixels are the rows of A.

Its code also runs llvm.gemm_bf16 and llvm.gemm_int8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import Template

import numpy as np

from seqtune.errors import KernelError

from ..cache_lines import gemm_lines
from ..devices.device import Device
from ..files import sections
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .fusion import NONE, Fusion, Pitches
from .ir.task_loops import arguments
from .ir.tile import Tile
from .ir.tiling import Tiling, in_word, pack, pack_pairs, pack_words
from .launch import Launch, Phase
from .text.elements import FP32, Element
from .text.formula import Formula
from .text.quads import reads_quads

# SSE multiplies in place, so no register is reserved for inputs. Some configurations spill: a model can learn which.
_INPUT_REGISTER = "(0 if instruction_set == 'sse' else 1)"

KERNEL = Kernel.of(
    name="llvm.gemm",
    operation="gemm",
    meaning="matrix product in registers: tile_m rows by vectors_n vectors of columns, B packed in panels",
    parameters=(
        Parameter("vector", (1, 4, 8, 16), "columns of C in a vector"),
        Parameter("vectors_n", (1, 2, 3, 4, 6), "vectors of columns in a tile"),
        Parameter("tile_m", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 20, 28), "rows in a tile"),
        Parameter("unroll_k", (1, 2, 4, 8), "steps of the reduction in the innermost loop's body"),
        Parameter("chunk", (0, 1, 2, 4, 8, 16, 32, 64), "tiles that all columns visit before the next; 0: all"),
    ),
    derived=(
        ("lanes_n", "vector * vectors_n"),
        ("accumulators", "tile_m * vectors_n"),
        ("unrolled", "accumulators * unroll_k"),
        ("loads_per_fma", "(tile_m + vectors_n) / accumulators"),
        ("n_blocks", "ceil_div(n, lanes_n)"),
        ("tiles", "ceil_div(m, tile_m)"),
        ("m_waste", "tiles * tile_m / m"),
        ("n_waste", "n_blocks * lanes_n / n"),
        ("tasks", "ceil_div(tiles, chunk) if chunk > 0 else n_blocks * min(threads, tiles)"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("panel_bytes", "k * lanes_n * 4"),
        ("chunk_bytes", "(min(chunk, tiles) if chunk > 0 else ceil_div(tiles, threads)) * tile_m * k * 4"),
        *gemm_lines("lanes_n"),
    ),
    solves=(("dtype == 'fp32'", "it computes in fp32 only"),),
    constraints=(
        ("vector <= vector_floats", "a vector must fit the widest register"),
        ("vector == min(vector_floats, 16) or n % min(vector_floats, 16) > 0 and n < 4 * vector_floats",
         "vectors below the register's width pay only where they divide few columns better"),
        ("vector * 2 >= min(vector_floats, 16) or vector * 4 > n",
         "vectors below half the register's width pay only where there are few columns"),
        ("vector > 1 or n < 4", "single columns pay only below 4 columns"),
        ("vector * vectors_n <= n", "a tile must not have more columns than C"),
        ("tile_m <= m", "a tile must not have more rows than C"),
        (f"accumulators + vectors_n + {_INPUT_REGISTER} <= vector_registers",
         "accumulators, B and one element of A must fit the registers"),
        ("accumulators >= 8 or tile_m * 2 > m or vector < 4",
         "fewer than 8 accumulators only wait for each other"),
        ("k % unroll_k == 0", "unrolled steps must divide the reduction"),
        ("chunk == 0 or n_blocks > 1", "one block of columns visits all tiles in any case"),
        ("chunk == 0 or chunk == 1 or chunk * threads <= tiles", "chunks this large leave threads idle"),
    ),
    default={"vector": 16, "vectors_n": 2, "tile_m": 8, "unroll_k": 2, "chunk": 4},
    version=2,
    implementation="seqtune.kernels.llvm.gemm:IMPLEMENTATION",
)


class LLVMGemm:
    """Runs llvm.gemm."""

    includes = "bias and activation; B is packed into panels before, as for constant weights"
    fusions = "epilogues of the sum and of a second operand; pitches of the rows of A and C"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        """The text; it depends on tile, step between rows of A, elements and epilogue."""
        elements = fusion.elements(problem, device)
        if elements.x.word_method and not fusion.is_plain:
            raise KernelError("a product of int8 numbers stores plain sums: it takes no epilogue and no pitches")
        y = FP32 if elements.x.word_method else elements.y  # 32-bit sums of whole numbers are stored as they are
        return Tile(
            vector=configuration.number("vector"), vectors=configuration.number("vectors_n"), tile_h=1,
            tile_w=configuration.number("tile_m"), body=f"c{configuration.number('unroll_k')}", r=1, s=1,
            pixel_step=1 if problem["trans_a"] == "yes" else _pitches(problem, fusion).x, channels_last=True,
            bias=problem["bias"] == "yes", formula=fusion.formula(problem), x=elements.x, y=y, other=elements.other,
            prefetches=fusion.chained and _tiling(problem, device, configuration).visits > 1,
            quads=problem["trans_a"] == "no" and reads_quads(
                device, configuration.number("vector"), problem.size("k"), elements.x)).source()

    def launch(self, problem: Problem, device: Device, configuration: Configuration, fusion: Fusion = NONE) -> Launch:
        """The launch with the sizes of this problem."""
        pair, tiling = in_word(problem), _tiling(problem, device, configuration)
        pitches = _pitches(problem, fusion)
        step, along = (1, pitches.x) if problem["trans_a"] == "yes" else (pitches.x, pair)
        values = tiling.arguments(1)
        if _is_corrected(problem, device):
            values["weights_block"] += tiling.lanes
        values |= {"groups": 1, "x_channel": along, "x_column": step, "y_pixel": pitches.y, "y_channel": 1,
                   "filter_rows": 1, "inside_rows": 1, "tap_row_step": 1}
        if not fusion.is_plain:
            values |= {"other_pixel": pitches.other}
        runs = tiling.runs(1) if fusion.chained else 1
        return Launch(arguments(not fusion.is_plain, **values), (Phase("direct", tiling.tasks, runs=runs),))

    def source_of_views(self, configuration: Configuration, views: MatrixViews, epilogue: Formula) -> KernelSource:
        """The text for matrices of fp32 that lie apart; the epilogue has one operand."""
        return Tile(
            vector=configuration.number("vector"), vectors=configuration.number("vectors_n"), tile_h=1,
            tile_w=configuration.number("tile_m"), body=f"c{configuration.number('unroll_k')}", r=1, s=1,
            pixel_step=views.a_row, channels_last=True, bias=False, formula=epilogue).source()

    def launch_of_views(self, problem: Problem, device: Device, configuration: Configuration,
                        views: MatrixViews) -> Launch:
        """The launch for matrices that lie apart; `problem` is one of them."""
        tiling = replace(_tiling(problem, device, configuration), images=views.matrices * views.times)
        values = tiling.arguments(1) | views.arguments()
        return Launch(arguments(False, **values), (Phase("direct", tiling.tasks),))

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, bool, int]:
        """The values (columns of a panel, whether B is transposed, steps of the reduction in a word)."""
        return _lanes(configuration), problem["trans_b"] == "yes", in_word(problem)

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy B into the order [block of columns][k][column]; the last block overlaps its predecessor.

        In bf16, each float of the result holds a pair along k, and in int8 four numbers along k.
        """
        lanes, transposed, pair = self.packing(problem, configuration)
        rows = weights if transposed else weights.T
        if problem.dtype == "int8":
            return pack_words(np.asarray(rows), lanes, _is_corrected(problem, device))
        return (pack if pair == 1 else pack_pairs)(np.asarray(rows)[:, :, None, None], 1, lanes, True)

    def pack_text(self, problem: Problem, device: Device, configuration: Configuration, name: str) -> str | None:
        """`pack` in C, where panels begin with sums (`pack_words`)."""
        if not _is_corrected(problem, device):
            return None
        n, k, lanes = problem.size("n"), problem.size("k"), _lanes(configuration)
        step = (1, k) if problem["trans_b"] == "yes" else (n, 1)
        return Template(sections(__file__, "packing.c")["int8"]).substitute(
            name=name, lanes=lanes, n=n, k=k, blocks=-(-n // lanes), along=step[0], across=step[1])


def _tiling(problem: Problem, device: Device, configuration: Configuration) -> Tiling:
    return Tiling(
        row_w=problem.size("m"), rows=1, k=problem.size("n"), c=problem.size("k") // in_word(problem),
        tile_w=configuration.number("tile_m"), tile_h=1, lanes=_lanes(configuration),
        chunk=configuration.number("chunk"), threads=device.threads)


def _is_corrected(problem: Problem, device: Device) -> bool:
    """Whether the panels begin with the numbers that correct unsigned factors (`pack_words`)."""
    return problem.dtype == "int8" and Element.of("int8", device).word_method == "dots"


def _pitches(problem: Problem, fusion: Fusion) -> Pitches:
    return fusion.pitches(problem.size("m" if problem["trans_a"] == "yes" else "k"), problem.size("n"))


def _lanes(configuration: Configuration) -> int:
    return configuration.number("vector") * configuration.number("vectors_n")


IMPLEMENTATION = LLVMGemm()


@dataclass(frozen=True, slots=True)
class MatrixViews:
    """Steps in elements of A and C, whose columns are neighbours in C.

    There are `matrices` packed Bs, one after the other, and for each B `times` pairs of A and C. Pairs of different B
    are `a_matrix` and `c_matrix` apart, pairs of one B `a_again` and `c_again`.
    """

    a_row: int
    a_column: int
    c_row: int
    matrices: int = 1
    a_matrix: int = 0
    c_matrix: int = 0
    times: int = 1
    a_again: int = 0
    c_again: int = 0

    def arguments(self) -> dict[str, int]:
        """The launch arguments of a tile, by name."""
        return {"groups": self.matrices, "x_column": self.a_row, "x_channel": self.a_column, "x_group": self.a_matrix,
                "x_image": self.a_again, "y_pixel": self.c_row, "y_channel": 1, "y_group": self.c_matrix,
                "y_image": self.c_again, "filter_rows": 1, "inside_rows": 1, "tap_row_step": 1}
