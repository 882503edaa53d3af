"""Models of one function each, and whether their exports are functional and right."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqtune.networks.capture.composites import Composites
from seqtune.networks.capture.export import exported

Function = Callable[[Tensor], Tensor]


class Computes(nn.Module):
    """A convolution and a function of its result."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 4, 1)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


def check(function: Function, composites: Composites | None = None) -> None:
    """The exported model computes what the model computes, and changes no tensor."""
    model, x = Computes(function).eval(), torch.randn(1, 2, 5, 3)
    with torch.no_grad():
        program = exported(model, (x,), composites)
        torch.testing.assert_close(program.module()(x), model(x))
    assert not [node for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)
                and node.target._schema.is_mutable]
