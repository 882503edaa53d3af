"""Nodes: OpenVINO's own time of each node of a network, for the tables of layers.

Profiling adds to the time of small nodes, so their sum is more than the time of the network.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.report import Row
from seqtune.networks.openvino_nodes import RUNS, profiled

from .case import Case
from .peers import compiled_by_openvino


def node_times(case: Case, runs: int = RUNS) -> list[Row]:
    """A row for each node that OpenVINO executes: name, type, its kernel, shapes and its microseconds.

    `covers` names the nodes of the ONNX file that it computes.
    """
    compiled = compiled_by_openvino(case, PERF_COUNT="YES")
    request = compiled.create_infer_request()
    inputs = [value.numpy() for value in case.inputs]
    nodes = profiled(request, lambda: request.infer(inputs, share_inputs=True, share_outputs=True), runs)
    shapes = {operation.get_friendly_name(): operation for operation in compiled.get_runtime_model().get_ordered_ops()}
    return [{"name": name, "type": node.node_type, "kernel": node.exec_type, "microseconds": seconds * 1e6,
             **_described(shapes.get(name))} for name, (node, seconds) in nodes.items()]


def _described(operation: Any) -> Row:
    """The shapes of a node's inputs and outputs, and the names that it covers; empty without the node."""
    if operation is None:
        return {}
    return {"inputs": [_sizes(given) for given in operation.inputs()],
            "outputs": [_sizes(result) for result in operation.outputs()],
            "covers": _text(operation.get_rt_info()["originalLayersNames"]).split(",")}


def _sizes(port: Any) -> list[int]:
    return [int(size) for size in port.get_shape()]


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))
