"""Elements along an axis that are selected or overwritten, and sums of products: PyTorch's results in one program."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqtune.networks.optimized import Optimized
from tests.networks.lowering.test_resampling import compare
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm

Change = Callable[[Tensor], Tensor]


class Changes(nn.Module):
    """Changes of the rows of a linear layer, which another layer reads."""

    def __init__(self, *changes: Change) -> None:
        super().__init__()
        self.first, self.changes = nn.Linear(6, 12), changes

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.first(x)
        return tuple(torch.relu(change(x)) for change in self.changes)


def written(x: Tensor) -> Tensor:
    """Some slices of a tensor, changed in place one after the other."""
    y = x.clone()
    y[:, 1:3] += 1
    y[:, 2:4, :5] *= 2
    y[..., -1] = x[..., 0]
    y[1] = 7.0
    return y


def looped(x: Tensor) -> Tensor:
    """Every slice in a loop, and some again."""
    y = torch.zeros_like(x)
    for number in range(5):
        y[:, number] = x[:, 4 - number] * number
    y[:, 1:3] = x[:, :2]
    return y


def test_selected_and_overwritten_elements_are_part_of_the_program(quick: Callable[..., Optimized]) -> None:
    model = Changes(
        lambda x: x.index_select(1, torch.tensor([4, 0, 0, 3])), lambda x: x.index_select(-1, torch.tensor([3, 1, 1])),
        lambda x: x.index_select(1, torch.arange(1, 5, 2)), lambda x: x[:, torch.tensor([[-1, 0], [2, -5]])],
        lambda x: x[torch.tensor([1, 0, 1])],
        lambda x: x[1, 2].index_select(0, torch.tensor([5, 2, 2])), lambda x: x.repeat_interleave(3, 1),
        lambda x: x.repeat_interleave(2, -1), lambda x: x.repeat_interleave(2), written, looped,
        lambda x: x.repeat(2, 1, 3), lambda x: x.repeat(2, 1, 1, 1), lambda x: x[0, 0, 0].repeat(3, 2),
        lambda x: torch.slice_scatter(x, x[:, :1] + 1, 1, 4), lambda x: torch.select_scatter(x, x[:, 0], 1, -1)).eval()
    fast = quick(model, torch.randn(2, 5, 6))
    steps_of(fast)
    compare(fast, model, 2, 5, 6)


def test_slices_that_a_loop_writes_are_concatenated_once(quick: Callable[..., Optimized]) -> None:
    def loop(x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        for number in range(5):
            y[:, number] = torch.exp(x[:, 4 - number])
        return y

    assert steps_of(quick(Changes(loop).eval(), torch.randn(1, 5, 6))).count("copy") == 5


def test_sums_of_products_are_part_of_the_program(quick: Callable[..., Optimized]) -> None:
    scale, shift = torch.randn(12), torch.randn(12)
    model = Changes(
        lambda x: torch.addcmul(shift, scale, x), lambda x: torch.addcmul(x, x[:, :1], x[..., :1], value=-0.5),
        lambda x: torch.addcdiv(x, scale, x.abs() + 1), lambda x: torch.addcdiv(shift, x, scale, value=3),
        lambda x: torch.addcmul(x, torch.tensor(2.0), torch.tensor(float("inf")))).eval()
    fast = quick(model, torch.randn(2, 5, 6))
    steps_of(fast)
    compare(fast, model, 2, 5, 6)
