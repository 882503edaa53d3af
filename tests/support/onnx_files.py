"""Small ONNX files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper, save_model

Axes = Sequence[int | str | None]  # sizes of an input; a name or None: open


def write_onnx(path: Path, nodes: Sequence[NodeProto], inputs: Mapping[str, Axes],
               weights: Mapping[str, Sequence[int]] = {}, *, element: int = TensorProto.FLOAT,
               functions: Iterable[FunctionProto] = (), claimed: Mapping[str, Axes] = {}) -> Path:
    """A model of these nodes with weights of these shapes, whose results are what no node reads.

    It claims that values between the nodes have the shapes `claimed`.
    """
    read = {name for node in nodes for name in node.input}
    results = [name for node in nodes for name in node.output if name not in read]
    graph = helper.make_graph(
        list(nodes), "graph", [helper.make_tensor_value_info(name, element, axes) for name, axes in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name in results],
        [numpy_helper.from_array(np.zeros(shape, helper.tensor_dtype_to_np_dtype(element)), name)
         for name, shape in weights.items()],
        value_info=[helper.make_tensor_value_info(name, element, axes) for name, axes in claimed.items()])
    domains = sorted({node.domain for node in nodes if node.domain})
    save_model(helper.make_model(graph, functions=list(functions), ir_version=10, opset_imports=[
        helper.make_opsetid("", 20), *(helper.make_opsetid(domain, 1) for domain in domains)]), path)
    return path


def write_network(path: Path, batch: int | str | None = 1) -> Path:
    """A small network for images: three convolutions, of which two are equal, and a linear layer."""
    node = helper.make_node
    return write_onnx(path, [
        node("Conv", ["x", "w0", "b0"], ["c0"], "first", pads=[1, 1, 1, 1]), node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1", "b1"], ["c1"], "second", pads=[1, 1, 1, 1]), node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b1"], ["c2"], "third", pads=[1, 1, 1, 1]), node("Relu", ["c2"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["p"]), node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["g"], "last", transB=1), node("Softmax", ["g"], ["y"])],
        {"x": (batch, 3, 16, 16)}, {"w0": (8, 3, 3, 3), "b0": (8,), "w1": (8, 8, 3, 3), "w2": (8, 8, 3, 3), "b1": (8,),
                                    "w3": (10, 8), "b3": (10,)})
