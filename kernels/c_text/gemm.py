"""Matrix product in register tiles, for OpenCL and CUDA: a 1x1 convolution whose pixels are the rows of A."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..kernel import Configuration
from ..launches.call import Call
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .tile import RegisterTile, tile_call

INCLUDES = "the product and its epilogue; B packed into panels before, once"


def gemm_tile(problem: Problem, configuration: Configuration) -> RegisterTile:
    """The numbers that determine the text."""
    number = configuration.number
    return RegisterTile(number("vector"), number("vectors_n"), number("tile_m"), 1,
                        1 if problem["trans_a"] == "yes" else 0, True, problem["bias"] == "yes",
                        problem["activation"] == "relu")


@dataclass(frozen=True, slots=True)
class Panels:
    """B as [panel][k][column]; the last panel overlaps the one before."""

    columns: int  # columns of a panel
    transposed: bool  # B is stored as (n, k)

    def pack(self, array: Array) -> Array:
        """Pack B."""
        b = array.T if self.transposed else array
        return np.ascontiguousarray(b[:, overlapping(b.shape[1], self.columns)].transpose(1, 0, 2))


def gemm_call(problem: Problem, source: KernelSource, configuration: Configuration, *, chunk: int, piece: int) -> Call:
    """The call, with rows of A as the pixels of one row, k as channels and n as output channels.

    A work-item computes `chunk` tiles (0: all of a panel), which take `piece` of k before the next (0: all).
    """
    m, n, k = problem.size("m"), problem.size("n"), problem.size("k")
    tile, transposed = gemm_tile(problem, configuration), problem["trans_a"] == "yes"
    sizes = {
        "outer": 1, "middle": 1, "inner": k, "x_inner": m if transposed else 1,
        "piece": piece or k,
        "x_pixel": 1 if transposed else k, "y_channel": 1, "y_pixel": n,
        "images": 1, "groups": 1, "rows": 1, "columns": m, "outputs": n,
    }
    return tile_call(problem, source, tile, sizes, Panels(tile.block, problem["trans_b"] == "yes"),
                     pixels_first=configuration["order"] == "rows", chunk=chunk,
                     work_group=configuration.number("work_group"))


def overlapping(count: int, width: int) -> NDArray[np.int64]:
    """The indices of `count` columns in panels of `width`, at most `count`: an array (panel, column of the panel)."""
    firsts = np.minimum(np.arange(-(-count // width)) * width, count - width)
    columns: NDArray[np.int64] = firsts[:, None] + np.arange(width)
    return columns
