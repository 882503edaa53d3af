"""Models that change an operand, called with operands that share memory: the results and operands are PyTorch's."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from seqtune.errors import SeqtuneWarning
from seqtune.integrations.pytorch.hook.dynamo import backend
from seqtune.networks.compiled import Compiled
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


class Changing(nn.Linear):
    """Adds 1 to its first operand before it reads both."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        x.add_(1)
        return super().forward(x) * y


def pairs() -> dict[str, tuple[Tensor, Tensor]]:
    """Two operands in one memory: those that overlap, and those that do not."""
    memory = torch.randn(12, 8)
    return {"equal": (memory[:5], memory[:5]), "overlapping": (memory[:5], memory[4:9]),
            "apart": (memory[:5], memory[5:10])}


def check(fast: Callable[..., Tensor], model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Compare result and operands with those of the model."""
    ours, expected = copy.deepcopy((x, y)), copy.deepcopy((x, y))  # one memory for both
    with torch.no_grad():
        torch.testing.assert_close(fast(*ours), model(*expected))
    torch.testing.assert_close(ours, expected)


def test_operands_that_share_memory_with_a_changed_one_go_through_the_original(quick: Callable[..., Optimized]) -> None:
    model = Changing(8, 8).eval()
    fast = quick(model, (torch.randn(5, 8), torch.randn(5, 8)))
    assert isinstance(fast.model, Compiled)
    fast.model.original.forward = calls = Mock(wraps=fast.model.original.forward)
    for name, (x, y) in pairs().items():
        calls.reset_mock()
        check(fast, model, x, y)
        assert calls.called == (name != "apart"), name


def test_a_weight_as_a_changed_operand_goes_through_the_original(quick: Callable[..., Optimized]) -> None:
    model, y = Changing(8, 8).eval(), torch.randn(8, 8)
    fast = quick(model, (torch.randn(8, 8), y))
    assert isinstance(fast.model, Compiled)
    weight, expected = (given.get_parameter("weight").detach() for given in (fast.model.original, model))
    with torch.no_grad():
        torch.testing.assert_close(fast(weight, y), model(expected, y))
    torch.testing.assert_close(weight, expected)


class Overwriting(nn.Linear):
    """Overwrites its operands, or new tensors, as a whole before anything reads them."""

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        new, other = super().forward(x), torch.empty_like(x)
        y.copy_(new)
        z[0:5] = y
        z[:, 0:8] += 1
        other[:] = z
        x.copy_(x.sort(0)[0])  # by PyTorch, after the layer has read it
        return (other, y + 1, torch.slice_scatter(other, new, 0, 0, 5), torch.select_scatter(
            other[None], new, 0, 0), torch.ones_like(x).copy_(new) + 1)


def test_operands_that_are_overwritten_before_they_are_read_hold_what_pytorch_writes(
        quick: Callable[..., Optimized]) -> None:
    model, given = Overwriting(8, 8).eval(), [torch.randn(5, 8) for _ in range(3)]
    ours, expected = copy.deepcopy(given), copy.deepcopy(given)
    with torch.no_grad():
        torch.testing.assert_close(quick(model, given)(*ours), model(*expected))
    torch.testing.assert_close(ours, expected)


def test_a_model_that_changes_no_operand_may_read_one_twice(quick: Callable[..., Optimized]) -> None:
    class Product(nn.Linear):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x) * y

    model = Product(8, 8).eval()
    fast = quick(model, (torch.randn(5, 8), torch.randn(5, 8)))
    assert isinstance(fast.model, Compiled)
    runs: list[object] = []
    fast.model.graph.register_forward_hook(lambda *given: runs.append(given))
    check(fast, model, *pairs()["equal"])
    assert runs, "the original computed"


def test_a_compiled_model_leaves_operands_that_share_memory_to_the_fallback(checkpoint: Path) -> None:
    torch._dynamo.reset()
    model = Changing(8, 8).eval()
    fast = torch.compile(model, backend=partial(backend, options={
        "verify": False, "checkpoint": str(checkpoint), "fallback": "eager"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeqtuneWarning)
        check(fast, model, torch.randn(5, 8), torch.randn(5, 8))
        check(fast, model, *pairs()["apart"])
    with pytest.warns(SeqtuneWarning, match="shares memory with another one; eager computes such calls"):
        check(fast, model, *pairs()["overlapping"])
    check(fast, model, *pairs()["equal"])
