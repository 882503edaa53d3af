"""Edits of an exported graph before it is translated."""

from __future__ import annotations

from typing import Any

from torch import fx


def insert_operation(graph: fx.Graph, target: Any, *given: Any) -> fx.Node:
    """Insert an operation where the graph inserts, and return it."""
    node = graph.call_function(target, given)
    node.meta = {"val": target(*(value.meta["val"] if isinstance(value, fx.Node) else value for value in given))}
    return node
