"""Pooling steps beside PyTorch's, on every instruction set of this CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqtune.networks.steps.pooling import Window, average_pool, max_pool
from seqtune.networks.steps.step_source import StepSource
from seqtune.networks.steps.view import View
from tests.support.steps.runs import WIDTHS, Floats, filled, run

functional = torch.nn.functional
CASES = [
    (Window((3, 3), (2, 2), (1, 1)), (1, 12, 13, 64), False), (Window((2, 3), (1, 2), (1, 0)), (2, 5, 7, 16), False),
    (Window((3, 3), (1, 1), (1, 1)), (1, 9, 3, 12), False), (Window((4, 4), (4, 4)), (1, 4, 4, 100), False),
    (Window((3, 3), (2, 2)), (1, 8, 10, 5), True), (Window((3, 3), (2, 2), (1, 1)), (2, 7, 6, 33), True),
    (Window((2, 2), (3, 3), (1, 0)), (1, 9, 8, 1), True), (Window((7, 7), (1, 1)), (1, 7, 7, 70), False),
    (Window((1, 1), (2, 2)), (1, 5, 5, 3), False)]


def nhwc(image: Floats) -> torch.Tensor:
    """NHWC memory as PyTorch's NCHW in fp64."""
    return torch.from_numpy(image.astype(np.float64)).permute(0, 3, 1, 2)


def check(step: StepSource, width: tuple[str, int], out: View, image: View, x: Floats, expected: torch.Tensor) -> None:
    """Compare a step with a result in NCHW."""
    y = run(step, width[0], out, [image], [filled(image, x)])
    assert np.allclose(y, expected.permute(0, 2, 3, 1).numpy(), rtol=1e-6, atol=1e-6, equal_nan=True)


def views(window: Window, shape: tuple[int, int, int, int], ceil_mode: bool) -> tuple[View, View]:
    """The output as a slice of wider pixels, and an image that is one, too."""
    n, h, w, c = shape
    out = View.contiguous((n, *window.output_size((h, w), ceil_mode), c + 7), offset=2).sliced(3, 3, c + 3)
    return out, View.contiguous((n, h, w, c + 9)).sliced(3, 5, c + 5)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize(("window", "shape", "ceil_mode"), CASES, ids=str)
def test_windows_of_every_kind_are_those_of_pytorch(
        window: Window, shape: tuple[int, int, int, int], ceil_mode: bool, width: tuple[str, int]) -> None:
    out, image = views(window, shape, ceil_mode)
    x = np.random.default_rng(shape[3]).standard_normal(shape).astype(np.float32)
    arguments = (window.filter, window.stride, window.pad)
    check(max_pool(out, image, window, width[1]), width, out, image, x, functional.max_pool2d(
        nhwc(x), *arguments, ceil_mode=ceil_mode))
    for include, divisor in ((True, None), (False, None), (True, 5)):
        expected = functional.avg_pool2d(nhwc(x), *arguments, ceil_mode, include, divisor)
        check(average_pool(out, image, window, width[1], count_include_pad=include, divisor=divisor), width, out,
              image, x, expected)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_dilated_windows_and_special_numbers(width: tuple[str, int]) -> None:
    window, shape = Window((3, 2), (1, 2), (1, 1), (2, 3)), (1, 9, 11, 21)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0, 4, 4, 3], x[0, 2, 2, 20], x[0, 0, 0], x[0, 7, 7, 1] = np.nan, np.inf, -np.inf, -np.inf
    out, image = views(window, shape, False)
    expected = functional.max_pool2d(nhwc(x), window.filter, window.stride, window.pad, window.dilation)
    check(max_pool(out, image, window, width[1]), width, out, image, x, expected)
    window = Window((3, 3), (1, 1), (1, 1))
    out, image = views(window, shape, False)
    check(max_pool(out, image, window, width[1]), width, out, image, x, functional.max_pool2d(nhwc(x), 3, 1, 1))
    check(average_pool(out, image, window, width[1]), width, out, image, x, functional.avg_pool2d(nhwc(x), 3, 1, 1))


def test_large_images_are_split_by_rows_and_small_ones_by_channels() -> None:
    large = max_pool(View.contiguous((1, 56, 56, 64)), View.contiguous((1, 112, 112, 64)),
                     Window((3, 3), (2, 2), (1, 1)), 16)
    small = average_pool(View.contiguous((1, 1, 1, 960)), View.contiguous((1, 7, 7, 960)), Window((7, 7), (7, 7)), 16)
    assert large.launch.phases[0].tasks == 56
    assert small.launch.phases[0].tasks >= 8
