"""Writes into slices become functional without a second trace, where no other view of the tensor is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from seqtune.networks.compiled import Compiled
from seqtune.networks.optimized import Optimized
from tests.networks.capture.functions import Computes, Function, check
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm


def mask_of_windows(y: Tensor) -> Tensor:
    """Swin's way: the parts of an image get numbers, in a tensor of its type."""
    mask, number = y.new_zeros(y.shape[2:]), 0
    for rows in (slice(0, -2), slice(-2, None)):
        for columns in (slice(0, -2), slice(-2, -1), slice(-1, None)):
            mask[rows, columns] = number
            number += 1
    return y + mask.masked_fill(mask != 0, -100.0)


def computed_numbers(y: Tensor) -> Tensor:
    z = torch.zeros_like(y)
    z[:, 0] = y[:, 1]
    z[:, 1:3, 2].copy_(y[:, :2, 0])
    z[..., ::2].fill_(0.5)
    return z + y


def an_earlier_result_is_read_again(y: Tensor) -> Tensor:
    z = y * 2
    before = z + 1
    z[:, 1:] = 3.0
    return before + z


def a_view_after_the_write(y: Tensor) -> Tensor:
    z = y * 2
    z[:, 1:] = 3.0
    return z.flatten(1) + 1


def a_view_before_the_write(y: Tensor) -> Tensor:
    z = y * 2
    flat = z.flatten(1)
    z[:, 1:] = 3.0
    return flat + 1


def a_slice_is_read_again(y: Tensor) -> Tensor:
    z = y * 2
    part = z[:, 1:]
    part.fill_(3.0)
    return z[:, :3] + part


def two_slices_before_the_writes(y: Tensor) -> Tensor:
    z = y * 2
    first, second = z[:, :2], z[:, 1:]
    first.fill_(3.0)
    second.fill_(4.0)
    return z + 1


def a_part_of_itself(y: Tensor) -> Tensor:
    z = y * 2
    z[:, :2] = z[:, 2:]
    return z + 1


def a_view_is_the_base(y: Tensor) -> Tensor:
    z = y * 2
    z.transpose(2, 3)[:, :, 1:] = 3.0
    return z + 1


def the_result_of_a_write(y: Tensor) -> Tensor:
    z = y * 2
    return z[:, 1:].fill_(3.0) + 1


def sizes_that_a_run_decides(y: Tensor) -> Tensor:
    rows = y.flatten()[y.flatten() > 0].unsqueeze(1).expand(-1, 4) * 2
    rows[:, 1] = 3.0
    return y + rows.sum()


@pytest.mark.parametrize("function", [
    mask_of_windows, computed_numbers, an_earlier_result_is_read_again, a_view_after_the_write])
def test_writes_into_slices_of_a_new_tensor_need_no_second_trace(
        function: Function, second_traces: list[ExportedProgram]) -> None:
    check(function)
    assert not second_traces


@pytest.mark.parametrize("function", [
    a_view_before_the_write, a_slice_is_read_again, two_slices_before_the_writes, a_part_of_itself, a_view_is_the_base,
    the_result_of_a_write, sizes_that_a_run_decides])
def test_writes_that_another_view_may_see_are_left_to_pytorch(
        function: Function, second_traces: list[ExportedProgram]) -> None:
    check(function)
    assert len(second_traces) == 1


@needs_llvm
def test_a_mask_that_many_writes_fill_is_a_constant_of_the_program(
        quick: Callable[..., Optimized], second_traces: list[ExportedProgram]) -> None:
    model, x = nn.Sequential(Computes(mask_of_windows)).eval(), torch.randn(1, 2, 5, 3)
    fast = quick(model, x)
    assert set(steps_of(fast)) <= {"copy", "aten.conv2d", "aten.add"}  # none computes the mask
    assert isinstance(fast.model, Compiled)
    assert not fast.model.fallbacks
    assert not second_traces
    torch.testing.assert_close(fast(x), model(x))
