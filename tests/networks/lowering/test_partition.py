"""Partition: which operations become one program, and why others stay PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqtune.networks.capture.export import exported
from seqtune.networks.lowering.partition import fold_constants, segments_of, unknown_operations


def segments(function: Callable[[Tensor, nn.Linear], Tensor]) -> tuple[list[list[str]], list[str]]:
    """The operations of every segment, and the reasons why others stay PyTorch's."""
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return function(x, self.linear)

    module = exported(Model().eval(), (torch.randn(3, 4),)).module(check_guards=False)
    fold_constants(module)
    unknown = unknown_operations(module)
    found = [[node.name for node in segment.graph.graph.nodes if node.op == "call_function"]
             for segment in segments_of(module, unknown)]
    return found, [reason for node, reason in unknown.items() if "guards" not in node.name]


def test_operations_of_constants_are_computed_now() -> None:
    found, reasons = segments(lambda x, linear: linear(x) + torch.arange(4).float().sin().cumsum(0))
    assert found == [["linear", "add"]]
    assert not reasons


def test_a_branch_beside_an_unknown_operation_runs_with_the_first_segment() -> None:
    found, reasons = segments(lambda x, linear: linear(linear(x).sort(-1).values) + linear(x).relu())
    assert found == [["linear", "linear_2", "relu"], ["linear_1", "add"]]
    assert reasons[0] == "aten.sort has no translation"


def test_reshaped_indices_that_something_else_reads_stay_pytorch_s() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            first, second = x.view(-1), x.view(1, -1)
            return self.table(first), self.table(second), second.view(2, 3)

    module = exported(Model().eval(), (torch.zeros(3, 2, dtype=torch.int64),)).module(check_guards=False)
    unknown = unknown_operations(module)
    (segment,) = segments_of(module, unknown)
    assert {node.name for node in segment.results} == {"embedding", "embedding_1"}
    assert {node.name for node in segment.inside} - {"embedding", "embedding_1"} == {"view"}
    assert sum("outside of the program" in reason for reason in unknown.values()) == 2
