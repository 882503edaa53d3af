"""A graph that is only edited and translated: PyTorch writes its code at the first call, and not for each edit."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

from seqtune.networks.capture.export import exported, plain_graph
from seqtune.networks.lowering.partition import fold_constants


class Twice(nn.Module):
    """A convolution, and a sum of constants."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.shift = nn.Conv2d(2, 4, 1), nn.Buffer(torch.randn(4, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shifted: torch.Tensor = self.layer(x) + (self.shift + 1)
        return shifted


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[fx.GraphModule]:
    """The graphs whose code PyTorch writes."""
    found: list[fx.GraphModule] = []
    write = fx.GraphModule.recompile

    def counted(graph: fx.GraphModule) -> object:
        found.append(graph)
        return write(graph)

    monkeypatch.setattr(fx.GraphModule, "recompile", counted)
    return found


def test_the_code_is_written_at_the_first_call_and_after_later_edits(written: list[fx.GraphModule]) -> None:
    model, x = Twice().eval(), torch.randn(1, 2, 5, 3)
    program = exported(model, (x,))
    written.clear()
    graph = plain_graph(program)
    fold_constants(graph)
    assert not written
    for _ in range(2):
        torch.testing.assert_close(graph(x)[0], model(x))
        assert written == [graph]
    (total,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    total.target = torch.ops.aten.sub.Tensor
    graph.recompile()
    torch.testing.assert_close(graph(x)[0], model.layer(x) - (model.shift + 1))
