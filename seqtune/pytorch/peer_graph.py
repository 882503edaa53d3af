"""PeerGraph: a graph as PyTorch computes it without us: by Inductor's code, or by its own operations one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..errors import MisuseError, UnavailableError, one_line, shown

INDUCTOR, EAGER = "inductor", "eager"
COMPARED = (INDUCTOR, EAGER)


def check_compared(name: object) -> None:
    """Raise MisuseError for what is no name of a form to compare with."""
    if name not in COMPARED:
        raise MisuseError(f"compare={shown(name)} is not one of {', '.join(COMPARED)}")


class PeerGraph(nn.Module):
    """A compiled form of a graph, called like the graph; `name` says whose it is."""

    def __init__(self, name: str, run: Any) -> None:
        super().__init__()
        self.name = name
        self._run = run

    def forward(self, *operands: Any) -> Any:
        """The graph's results, in a tuple or list."""
        return self._run(*operands)


def eager_graph(module: fx.GraphModule) -> PeerGraph:
    """The graph with PyTorch's own operations."""
    return PeerGraph(EAGER, module)


def inductor_graph(module: fx.GraphModule, examples: Sequence[Tensor]) -> PeerGraph:
    """The graph compiled by Inductor with its weights as constants, which lets it pack them; takes 10 s and more.

    Raises UnavailableError with the reason if Inductor cannot compile it, such as a missing C++ compiler.
    """
    copied = fx.GraphModule(module, module.graph)  # Inductor changes what it compiles
    try:
        compiled = torch.compile(copied, backend="inductor", dynamic=False, options={"freezing": True})
        with torch.no_grad():
            compiled(*examples)
    except Exception as error:  # of many kinds: a missing compiler, an operation that Inductor cannot lower
        cause = getattr(error, "inner_exception", None) or error
        raise UnavailableError(f"Inductor cannot compile the graph: {one_line(cause, 150)}") from None
    return PeerGraph(INDUCTOR, compiled)
