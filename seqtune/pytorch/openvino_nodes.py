"""OpenVINO's nodes of a model and their times, to stand beside our steps.

OpenVINO names a node after the operations of the exported graph that it computes. A node belongs to the step of the
first of these operations, or of the operation before it that has a step: activations and normalisations are fused on
both sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..errors import SeqtuneError, UnavailableError, one_line
from .compilation import exported

RUNS = 30  # the median counts: the first few are slower
ALIASES = {"convolution": "conv2d", "native_layer_norm": "layer_norm", "hardtanh": "relu6", "permute": "transpose",
           "_softmax": "softmax", "sym_size": "size"}  # OpenVINO's names of operations -> those of the exported graph


@dataclass(frozen=True, slots=True)
class OpenvinoNode:
    """A node that OpenVINO executes: its kernel, its median seconds, and the operations that it computes."""

    name: str
    kernel: str
    seconds: float
    operations: tuple[str, ...]


def openvino_nodes(model: nn.Module, examples: Sequence[Tensor], threads: int) -> tuple[list[OpenvinoNode], fx.Graph]:
    """Run a model in OpenVINO, in fp32, and return its nodes and the graph that names their operations.

    Raises UnavailableError without OpenVINO, SeqtuneError for a model that it cannot read.
    """
    try:
        import openvino
    except ImportError:
        raise UnavailableError("OpenVINO is not installed: pip install openvino") from None
    with torch.no_grad():
        program = exported(model, tuple(examples))
    try:
        compiled = openvino.Core().compile_model(openvino.convert_model(program), "CPU", {
            "PERF_COUNT": "YES", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32"})
    except Exception as error:  # of its converter's many kinds
        raise SeqtuneError(f"OpenVINO cannot compute this model: {one_line(error, 200)}") from None
    request = compiled.create_infer_request()
    seconds: dict[str, list[float]] = {}
    kernels: dict[str, str] = {}
    for _ in range(RUNS):
        request.infer([example.detach().numpy() for example in examples])
        for node in request.get_profiling_info():
            if node.real_time.total_seconds() > 0:
                seconds.setdefault(node.node_name, []).append(node.real_time.total_seconds())
                kernels[node.node_name] = f"{node.node_type} {node.exec_type}"
    covered = {operation.get_friendly_name(): _covered(operation)
               for operation in compiled.get_runtime_model().get_ordered_ops()}
    return [OpenvinoNode(name, kernels[name], median(samples), covered.get(name, ()))
            for name, samples in seconds.items()], program.graph


def _covered(operation: Any) -> tuple[str, ...]:
    """The names of the exported graph's nodes among those that a node of OpenVINO covers."""
    value = operation.get_rt_info()["originalLayersNames"]
    names = (name.split("/")[0] for name in str(getattr(value, "value", value)).split(",") if "/aten." in name)
    return tuple(dict.fromkeys(map(_known_name, names)))


def _known_name(name: str) -> str:
    kind, number = re.fullmatch(r"(.*?)((?:_\d+)?)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    return ALIASES.get(kind, kind) + number


def by_step(nodes: Sequence[OpenvinoNode], graph: fx.Graph, steps: Mapping[str, int]) -> dict[int, list[OpenvinoNode]]:
    """The nodes of each step; -1 has those that belong to none. `steps` has the number of the step of an operation."""
    known = {node.name: node for node in graph.nodes}
    result: dict[int, list[OpenvinoNode]] = {}
    for node in nodes:
        numbers = (_step_of(known.get(name), steps) for name in node.operations)
        number = next((number for number in numbers if number >= 0), -1)
        result.setdefault(number, []).append(node)
    return result


def _step_of(node: fx.Node | None, steps: Mapping[str, int]) -> int:
    """The step of an operation, or of the nearest one before it, along the first operands."""
    while node is not None:
        if node.name in steps:
            return steps[node.name]
        node = next(iter(node.all_input_nodes), None)
    return -1
