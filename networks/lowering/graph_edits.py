"""Edits of an exported graph before it is translated, and the form in which it is edited."""

from __future__ import annotations

from typing import Any

from torch import fx


def insert_operation(graph: fx.Graph, target: Any, *given: Any) -> fx.Node:
    """Insert an operation where the graph inserts, and return it."""
    node = graph.call_function(target, given)
    node.meta = {"val": target(*(value.meta["val"] if isinstance(value, fx.Node) else value for value in given))}
    return node


class EditedGraph(fx.GraphModule):
    """A graph and its tensors. PyTorch writes Python code for it at the first call, not at each edit.

    Most are edited and translated, and never called; writing the code takes longer than the edits.
    """

    def recompile(self) -> Any:
        """Write the code anew after an edit, if it was written before."""
        return super().recompile() if self._is_written() else None

    def forward(self, *operands: Any) -> Any:
        """Write the code, which takes this method's place, and run it."""
        if not self._is_written():
            super().recompile()
        return type(self).forward(self, *operands)

    def _is_written(self) -> bool:
        return "forward" in vars(type(self))  # PyTorch makes a class for each graph
