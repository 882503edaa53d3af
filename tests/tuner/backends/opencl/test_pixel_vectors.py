"""Tiles of one output channel whose vectors lie along the pixels: the same results, and for Intel's compiler only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from seqtune.data.record import Status
from seqtune.kernels.c_text import pixel_vectors
from seqtune.kernels.c_text.text import OPTIONS, head
from seqtune.kernels.c_text.tile import PADS, RegisterTile, text
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.opencl import direct
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.measuring.timing import check, prepare

TILE = RegisterTile(vector=1, vectors_k=1, tile_w=14, tile_h=2, pixel_step=1, channels_last=False, bias=True,
                    relu=False)


def settings(**chosen: int | str) -> Configuration:
    """A configuration of opencl.direct with single floats."""
    return Configuration.of("opencl.direct", {
        "vector": 1, "vectors_k": 1, "tile_w": 7, "tile_h": 1, "border": "copy", "inner": "channels", "chunk": 0,
        "piece": 0, "order": "channels", "work_group": 1, **chosen})


@pytest.mark.device
@pytest.mark.parametrize(("problem", "configuration"), [
    (Problem.make("conv2d", c=3, h=7, w=31, k=3, groups=3, r=3, s=3, pad_h=1, pad_w=1, bias="yes", activation="relu"),
     settings(tile_w=28, tile_h=2)),
    (Problem.make("conv2d", n=2, c=4, h=9, w=10, k=4, groups=4, r=3, s=5, pad_w=2, dilation_h=2, bias="yes"),
     settings(inner="row", chunk=4, order="pixels")),
    (Problem.make("conv2d", c=128, h=3, w=8, k=4, groups=2, r=1, s=1, activation="relu"),
     settings(tile_w=6, chunk=4, piece=32)),
])
def test_vectors_along_pixels_compute_the_same(backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch,
                                               problem: Problem, configuration: Configuration) -> None:
    monkeypatch.setattr(direct, "tile_source", lambda tile: KernelSource(
        head(tile.vector) + PADS["any"] + text(tile, pixels=True), OPTIONS))
    operands, expected = prepare(problem)
    executable = backend.build(problem, kernel("opencl.direct"), configuration)
    measurement, _ = check(executable, operands, expected)
    executable.close()
    assert measurement.status is Status.CORRECT, measurement.message


@pytest.mark.parametrize("other", [
    {"vector": 8}, {"pixel_step": 2}, {"channels_last": True}, {"peeled": True, "tile_h": 1}, {"tile_w": 1}])
def test_vectors_need_neighbouring_pixels_of_one_channel(other: dict[str, Any]) -> None:
    assert TILE.pixel_vectors
    assert not replace(TILE, **other).pixel_vectors


def test_the_parts_of_a_row_cover_it_once() -> None:
    assert pixel_vectors.parts(28) == [(0, 16), (16, 8), (24, 4)]
    assert pixel_vectors.parts(7) == [(0, 4), (4, 2), (6, 1)]
    assert all(sum(width for _, width in pixel_vectors.parts(pixels)) == pixels for pixels in range(1, 40))
