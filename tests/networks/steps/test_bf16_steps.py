"""Steps on bf16 numbers compute what they compute on the same fp32 numbers, and round the result once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.llvm.text.elements import FP32, Element
from seqtune.kernels.llvm.text.formula import IDENTITY
from seqtune.networks.steps.gather import gather
from seqtune.networks.steps.pointwise import pointwise
from seqtune.networks.steps.reduction import reduction
from seqtune.networks.steps.view import View
from seqtune.tuner.backends.llvm.compiler import capabilities
from tests.support.steps.guarded_steps import steps
from tests.support.steps.runs import WIDTHS, launch

ROUNDS = [(name, lanes, Element("bf16", rounds)) for name, lanes in WIDTHS for rounds in (False, True)
          if not rounds or "bf16_dots" in dict(capabilities(name))]
POISON = np.uint16(0xABCD)


def stored(view: View, numbers: NDArray[np.float32]) -> NDArray[np.uint16 | np.float32]:
    """The memory of a view and 16 elements after it."""
    memory = encode(numbers[:view.extent], view.element.dtype)
    return np.concatenate([memory, np.full(16, POISON, memory.dtype)])


@pytest.mark.parametrize(("instruction_set", "lanes", "bf16"), ROUNDS)
def test_steps_round_the_result_that_they_have_in_fp32(instruction_set: str, lanes: int, bf16: Element) -> None:
    size = 35
    numbers = decode(encode(np.random.default_rng(size).standard_normal(60_000, np.float32), "bf16"), "bf16")
    for (name, step, views), (_, exact, wide) in zip(steps(size, lanes, bf16), steps(size, lanes), strict=True):
        memory, reference = ([stored(view, np.roll(numbers, place)) for place, view in enumerate(each)]
                             for each in (views, wide))
        untouched = memory[0].copy()
        launch(step, instruction_set, [buffer.ctypes.data for buffer in memory])
        launch(exact, instruction_set, [buffer.ctypes.data for buffer in reference])
        expected = stored(views[0], reference[0].astype(np.float32))
        if name == "softmax":  # its weights are rounded before they are scaled
            assert np.allclose(decode(memory[0][:-16], "bf16"), reference[0][:-16], rtol=2 ** -7, atol=0)
        else:
            assert np.array_equal(memory[0][:-16], expected[:-16]), name
        assert np.array_equal(memory[0][-16:], untouched[-16:]), name


@pytest.mark.parametrize(("instruction_set", "lanes", "bf16"), ROUNDS)
def test_copies_change_the_element_and_the_layout(instruction_set: str, lanes: int, bf16: Element) -> None:
    shape = (2, 3, 5, 9)  # an image in NCHW to NHWC
    numbers = np.random.default_rng(1).standard_normal(shape, np.float32)
    numbers[0, 0, 0, :3] = np.nan, np.inf, -np.inf
    last = View((2, 3, 5, 9), (135, 1, 27, 3), 0, bf16)
    halves, back = np.zeros(numbers.size, np.uint16), np.zeros(numbers.size, np.float32)
    there = pointwise(IDENTITY, last, [View.contiguous(shape)], lanes)
    launch(there, instruction_set, [halves.ctypes.data, numbers.ctypes.data])
    expected = encode(numbers.transpose(0, 2, 3, 1), "bf16").ravel()
    assert np.array_equal(decode(halves, "bf16"), decode(expected, "bf16"), equal_nan=True)
    launch(pointwise(IDENTITY, View.contiguous(shape), [last], lanes), instruction_set,
           [back.ctypes.data, halves.ctypes.data])
    assert np.array_equal(back, decode(encode(numbers, "bf16"), "bf16").ravel(), equal_nan=True)


@pytest.mark.parametrize(("instruction_set", "lanes", "bf16"), ROUNDS)
def test_a_reduction_in_two_phases_keeps_its_partial_sums_in_fp32(instruction_set: str, lanes: int,
                                                                  bf16: Element) -> None:
    x = np.full(40_000, 1.0078125, np.float32)  # exact in bf16; sums of slices are not
    memory, y = encode(x, "bf16"), np.zeros(1, np.float32)
    step = reduction("sum", View((1,), (1,), 0, FP32), [View.contiguous((x.size,), 0, bf16)], (0,), lanes)
    assert len(step.launch.phases) == 2
    launch(step, instruction_set, [y.ctypes.data, memory.ctypes.data])
    assert y[0] == pytest.approx(float(x.astype(np.float64).sum()), rel=1e-5)


@pytest.mark.parametrize(("instruction_set", "lanes", "bf16"), ROUNDS)
def test_rows_of_a_table_are_read_and_written_as_bf16(instruction_set: str, lanes: int, bf16: Element) -> None:
    table = np.random.default_rng(2).standard_normal((6, 21), np.float32)
    indices, flag, y = np.array([5, 0, 5, 2]), np.zeros(1, np.int64), np.zeros((4, 21), np.uint16)
    memory = encode(table, "bf16")
    step = gather(View.contiguous(y.shape, 0, bf16), View.contiguous(table.shape, 0, bf16), View((4,), (2,)), [], lanes)
    launch(step, instruction_set, [array.ctypes.data for array in (y, memory, indices, flag)])
    assert np.array_equal(y, memory[indices])
    assert not flag[0]
