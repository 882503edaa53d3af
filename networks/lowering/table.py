"""The table of operations that can be translated: PyTorch's operation -> function that makes the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..nodes import Input, Node
from .attention import ATTENTION
from .indexing import INDEXING
from .layers import LAYERS
from .lowering import Lowering, Maker
from .matrix_products import PRODUCTS
from .moments import MOMENTS
from .pointwise import POINTWISE
from .resampling import RESAMPLING
from .rows import ROWS
from .transposed import TRANSPOSED
from .views import VIEWS

aten = torch.ops.aten
MAKERS: dict[Any, Maker] = {**LAYERS, **PRODUCTS, **ATTENTION, **POINTWISE, **VIEWS, **INDEXING, **ROWS, **MOMENTS,
                           **RESAMPLING, **TRANSPOSED}
# Operations that are layers where their weights are constants and a kernel solves them; others are PyTorch's.
LAYER_OPERATIONS = frozenset((*LAYERS, *TRANSPOSED, aten.mm.default, aten.matmul.default, aten.conv3d.default))


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A lowered graph: nodes in order, and its results."""

    nodes: list[Node]
    inputs: list[Input]
    results: list[Node]


def lower(module: fx.GraphModule) -> LoweredGraph:
    """Translate a graph in which every operation is known. Raises UnknownOperationError."""
    lowering = Lowering(module, MAKERS)
    results: list[Node] = []
    for node in module.graph.nodes:
        if node.op == "output":
            flat = node.args[0] if isinstance(node.args[0], tuple | list) else (node.args[0],)
            results = [lowering.value(result) for result in flat]
        else:
            lowering.translate(node)
    return LoweredGraph(lowering.nodes, lowering.inputs, results)
