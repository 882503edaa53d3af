"""The memory of results: new at every call, except where the model's results are views of what it is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqtune.integrations.pytorch.hook.dynamo import backend
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


class Constants(nn.Linear):
    """Results that depend on no operand, and views of them."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        numbers = torch.arange(4.)
        return super().forward(x) + numbers, numbers, numbers.view(2, 2), self.weight.sum(0), torch.eye(4)[1:]


class Views(nn.Linear):
    """Results that are views of operands, of a weight and of each other."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        z = super().forward(x)
        y.add_(1)
        return z, z.view(-1), x.transpose(0, 1), x.chunk(2)[1], self.weight[:2], y.view(-1), y


@pytest.fixture(params=["optimize", "compile"])
def made(request: pytest.FixtureRequest, quick: Callable[..., Optimized], checkpoint: Path) -> Callable[..., Any]:
    """Each entry: a model and examples become a faster model."""
    torch._dynamo.reset()
    options = {"verify": False, "checkpoint": str(checkpoint), "fallback": "eager"}

    def entry(model: nn.Module, *examples: Tensor) -> Any:
        return quick(model, examples) if request.param == "optimize" else torch.compile(
            model, backend=partial(backend, options=options))

    return entry


def test_a_caller_that_changes_a_constant_result_changes_no_later_call(made: Callable[..., Any]) -> None:
    model, x = Constants(4, 4).eval(), torch.randn(2, 4)
    with torch.no_grad():
        fast = made(model, x)
        for _ in range(3):
            results = fast(x)
            torch.testing.assert_close(results, model(x))
            results[1].add_(7)
            assert results[2][0, 0] == 7  # a view of that result, as in the model
            for result in results:
                result.zero_()


def test_results_share_memory_with_operands_weights_and_each_other_as_the_model_s_do(made: Callable[..., Any]) -> None:
    model, x, y = Views(4, 4).eval(), torch.randn(4, 4), torch.randn(2, 2)
    with torch.no_grad():
        fast = made(model, x.clone(), y.clone())
        given = x.clone(), y.clone()
        results = fast(*given)
        torch.testing.assert_close(results, model(x, y.clone()))
        starts = [result.data_ptr() for result in results]
        assert starts[0] == starts[1]
        assert starts[2] == given[0].data_ptr()
        assert starts[3] == given[0][2:].data_ptr()
        assert starts[5] == starts[6] == given[1].data_ptr()
        owner = fast.get_submodule("model.original") if isinstance(fast, Optimized) else model
        assert starts[4] == owner.get_parameter("weight").data_ptr()
