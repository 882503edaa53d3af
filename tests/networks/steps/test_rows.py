"""Softmax and normalisations of rows beside NumPy in fp64, on every instruction set of this CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.networks.steps.rows import row_step
from seqtune.networks.steps.step_source import StepSource
from seqtune.networks.steps.view import View
from tests.support.installation.optional import needs
from tests.support.steps.runs import WIDTHS, elements, filled, run

Doubles = NDArray[np.float64]
ROWS = [(1, 1), (3, 5), (2, 16), (5, 49), (4, 64), (2, 3, 128), (7, 130), (1, 5003), (0, 4)]
EPSILON = 1e-5


def softmax_of(x: Doubles) -> Doubles:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def centred(x: Doubles) -> Doubles:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON))


def shrunk(x: Doubles) -> Doubles:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON))


STEPS: dict[str, tuple[Callable[[View, list[View], int], StepSource], Callable[[Doubles], Doubles]]] = {
    "softmax": (partial(row_step, "softmax"), softmax_of),
    "log_softmax": (partial(row_step, "log_softmax"), lambda x: np.log(softmax_of(x))),
    "layer_norm": (partial(row_step, "layer_norm", epsilon=EPSILON), centred),
    "rms_norm": (partial(row_step, "rms_norm", epsilon=EPSILON), shrunk)}


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_rows_of_every_length_are_computed_also_in_place(name: str, width: tuple[str, int]) -> None:
    step, expected = STEPS[name]
    for shape in ROWS:
        view, x = View.contiguous(shape), 3 + 2 * np.random.default_rng(0).standard_normal(shape)
        buffer = filled(view, x)
        exact = expected(elements(view, buffer).astype(np.float64)) if x.size else x
        for into in (None, buffer):
            y = run(step(view, [view], width[1]), width[0], view, [view], [buffer], into)
            assert np.allclose(y, exact, rtol=2e-6, atol=2e-6), shape


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_normalised_rows_are_scaled_and_shifted(name: str, width: tuple[str, int]) -> None:
    view, wide = View.contiguous((9, 77)), View.contiguous((9, 100)).sliced(1, 10, 87)
    weight, shift = (View.contiguous((77,), offset).expanded((9, 77)) for offset in (0, 3))
    x, w, b = np.random.default_rng(1).standard_normal((3, 9, 77)).astype(np.float32)
    parameters = [weight, shift] if name == "layer_norm" else [weight]
    buffers = [filled(parameter, values[:1]) for parameter, values in zip(parameters, (w, b), strict=False)]
    step = row_step(name, view, [wide, *parameters], width[1], EPSILON)
    y = run(step, width[0], view, [wide, *parameters], [filled(wide, x), *buffers])
    exact = x.astype(np.float64)
    expected = centred(exact) * w[0] + b[0] if name == "layer_norm" else shrunk(exact) * w[0]
    assert np.allclose(y, expected, rtol=1e-5, atol=1e-5)


@needs("torch")
@pytest.mark.parametrize("name", STEPS)
def test_special_numbers_give_what_pytorch_gives(name: str) -> None:
    import torch

    functional = torch.nn.functional
    peers = {"softmax": lambda x: functional.softmax(x, -1), "log_softmax": lambda x: functional.log_softmax(x, -1),
             "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
             "rms_norm": lambda x: functional.rms_norm(x, x.shape[-1:], eps=EPSILON)}
    x = np.random.default_rng(0).standard_normal((8, 37)).astype(np.float32)
    x[0, 36], x[1, 3], x[2, 4], x[3, 5] = np.nan, np.inf, -np.inf, 1e4
    x[4], x[5], x[6, :30] = -np.inf, 0.0, -90.0
    x[7] *= 1e-40
    view, expected = View.contiguous(x.shape), peers[name](torch.from_numpy(x)).numpy()
    for instruction_set, lanes in WIDTHS:
        y = run(STEPS[name][0](view, [view], lanes), instruction_set, view, [view], [filled(view, x)])
        assert np.allclose(y, expected, rtol=2e-5, atol=2e-6, equal_nan=True)


def test_means_far_from_zero_do_not_spoil_the_variance() -> None:
    x = (1e4 + np.random.default_rng(0).standard_normal((3, 768))).astype(np.float32)
    view = View.contiguous(x.shape)
    for instruction_set, lanes in WIDTHS:
        y = run(row_step("layer_norm", view, [view], lanes, EPSILON), instruction_set, view, [view], [filled(view, x)])
        assert np.abs(y - centred(x.astype(np.float64))).max() < 2e-3
