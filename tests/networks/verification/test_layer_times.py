"""The time of a network, divided among its layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from seqtune.networks.compiled import Compiled
from seqtune.networks.module import NetworkModule
from seqtune.networks.optimized import Optimized
from seqtune.networks.verification.layer_times import layer_times
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm


@pytest.fixture
def graph(quick: Callable[..., Optimized]) -> nn.Module:
    """Three equal linear layers, another one, and a softmax, which is a step."""
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)), nn.Linear(8, 4), nn.Softmax(1)).eval()
    fast = quick(model, torch.randn(2, 8))
    assert isinstance(fast.model, Compiled)
    graph: nn.Module = fast.model.graph
    return graph


def test_equal_layers_count_together(graph: nn.Module) -> None:
    times = layer_times(graph, [torch.randn(2, 8)], 1.0, lambda program, *operands, rounds: [1.0 for _ in program.jobs])
    assert sorted(times.layers.values()) == [1.0, 3.0]
    assert times.steps > 4.0
    assert times.run > 0


def test_little_time_is_spent_on_one_round(graph: nn.Module) -> None:
    taken: list[int] = []

    def counted(program: NetworkModule, *operands: torch.Tensor, rounds: int) -> list[float]:
        taken.append(rounds)
        return program.measure(*operands, rounds=rounds)

    for seconds in (0.0, 3600.0):
        layer_times(graph, [torch.randn(2, 8)], seconds, counted)
    assert taken == [1, 5]
