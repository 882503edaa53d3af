"""Tests of the rewriting of exported graphs into functional ones: right, and left to PyTorch where it is not plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.networks.capture.export import exported, plain_graph
from seqtune.networks.capture.functional import make_functional
from tests.networks.capture.functions import Computes


def in_place_twice(y: Tensor) -> Tensor:
    return y.relu_().add_(y).mul_(2.0)


def shared_with_a_view(y: Tensor) -> Tensor:
    flat = y.flatten(1)
    y.relu_()
    return flat + 1


def a_view_is_written(y: Tensor) -> Tensor:
    y[:, 0].mul_(3.0)
    return y


def dropped_out(y: Tensor) -> Tensor:
    z = functional.dropout(y, 0.5, training=False)  # y itself
    z.relu_()
    return y + z


def of_another_type(y: Tensor) -> Tensor:
    return y.add_(torch.ones(y.shape[-1], dtype=torch.float64))


def in_chunks(y: Tensor) -> Tensor:
    first, second = functional.dropout(y, 0.5, training=False, inplace=True).chunk(2, 1)
    return first * second


def squared(y: Tensor) -> Tensor:
    return y.pow_(2)


def compared(y: Tensor) -> Tensor:
    return y.gt_(0) + 0.5


def moved(y: Tensor) -> Tensor:
    z = y * 2
    torch.ops.aten.set_.source_Tensor(y, z)
    y.mul_(2)
    return y + z


def composite(y: Tensor) -> Tensor:
    return y.absolute_()


def viewed_without_saying_so(y: Tensor) -> Tensor:
    torch.ops.aten._unsafe_view(y, y.shape).relu_()
    return y + 1


@pytest.mark.parametrize(("function", "plain"), [
    (in_place_twice, True), (in_chunks, True), (dropped_out, True), (shared_with_a_view, False),
    (a_view_is_written, False), (of_another_type, False), (squared, False), (compared, False), (composite, False)])
def test_only_operations_whose_tensor_nothing_else_reads_are_rewritten(
        function: Callable[[Tensor], Tensor], plain: bool) -> None:
    model, x = Computes(function).eval(), torch.randn(1, 2, 5, 3)
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        assert make_functional(program.graph) == plain
        result = exported(model, (x,))
    for node in result.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable
    torch.testing.assert_close(result.module()(x), model(x))


@pytest.mark.parametrize("function", [viewed_without_saying_so, moved])
def test_what_may_share_memory_is_left_to_pytorch(function: Callable[[Tensor], Tensor]) -> None:
    model, x = Computes(function).eval(), torch.randn(1, 2, 5, 3)
    with torch.no_grad():
        assert not make_functional(torch.export.export(model, (x,)).graph)


def test_a_graph_that_is_rewritten_in_part_keeps_its_meaning() -> None:
    def function(y: Tensor) -> Tensor:
        return shared_with_a_view(y.relu_().add_(0.5))

    model, x = Computes(function).eval(), torch.randn(1, 2, 5, 3)
    with torch.no_grad():
        torch.testing.assert_close(exported(model, (x,)).module()(x), model(x))


def test_a_model_that_writes_into_its_buffer_is_refused() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = nn.Buffer(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.calls.add_(1)
            return x + self.calls

    with pytest.raises(ValueError, match="changes its buffer"):
        exported(Counts().eval(), (torch.ones(2),))


class Everything(nn.Module):
    """Weights, buffers, a plain tensor and a literal one, a tied weight, and a result that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.again = nn.Sequential(self.linear)
        self.shift = nn.Buffer(torch.randn(4), persistent=False)
        self.plain = torch.randn(4)

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """Two results."""
        z = self.again(x) + self.linear(y) * self.shift + self.plain + torch.tensor([1.0, 2.0, 3.0, 4.0])
        return {"z": z, "nothing": None}


def test_the_plain_graph_computes_what_the_exported_module_computes() -> None:
    model = Everything().eval()
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    graph = plain_graph(exported(model, (x, y)))
    z, nothing = graph(x, y)
    torch.testing.assert_close(z, model(x, y)["z"])
    assert nothing is None
    assert graph.get_parameter("again.0.weight") is model.linear.weight


class Doubles(nn.Module):
    """Doubles its operand in place."""

    def forward(self, x: Tensor) -> Tensor:
        """The operand, plus one."""
        return x.mul_(2) + 1


def test_the_plain_graph_of_a_model_that_changes_its_operand_changes_it() -> None:
    x = torch.ones(3)
    graph = plain_graph(exported(Doubles(), (x.clone(),)))
    assert graph(x)[0].tolist() == [3, 3, 3]
    assert x.tolist() == [2, 2, 2]
