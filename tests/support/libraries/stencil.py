"""A small library for tests: a stencil that is declared and not run, and the file that declares it."""

from __future__ import annotations

from pathlib import Path

STENCIL = """name = "stencil"
meaning = "stencils on square grids"

[operations.stencil]
meaning = "five-point stencil, several time steps"
features = {n = "rows and columns", steps = {meaning = "time steps", default = 1, low = 1, high = 64}}
derived = {flop = "6 * n * n * steps"}
rules = {"n % 2 == 0" = "n must be even"}
sizes = ["n", "steps"]
example = "stencil n=512"
inputs = {x = "n, n"}
outputs = {y = {shape = "n, n", tolerance = 1e-4}}

[kernels.tiled]
meaning = "one work-group for each tile"
parameters = {block_x = [16, 32, 64], block_y = [1, 2, 4], unroll = {values = [1, 2], meaning = "rows at once"}}
derived = {tile = "block_x * block_y"}
solves = {"n >= 16" = "a tile has 16 columns"}
constraints = {"tile <= 128" = "too many work-items", "n % block_x == 0" = "tiles divide the rows"}
default = {block_x = 32}
backends = ["opencl", "fake"]
"""


def write(folder: Path, text: str = STENCIL) -> Path:
    """Write a library's file into a folder and return its path."""
    path = folder / "library.toml"
    path.write_text(text)
    return path
