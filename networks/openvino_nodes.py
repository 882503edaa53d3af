"""OpenVINO's nodes of a model and their times, for comparison with our steps.

OpenVINO names a node after the operations of the exported graph that it computes. A node belongs to the step of the
first of these operations, or of the operation before it that has a step: activations and normalisations are fused on
both sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from seqtune.errors import SeqtuneError, UnavailableError, one_line

from .capture.export import exported

FIRST, RUNS = 10, 30  # the first runs are slower; the mean of the later ones counts
ALIASES = {"convolution": "conv2d", "native_layer_norm": "layer_norm", "hardtanh": "relu6", "permute": "transpose",
           "_softmax": "softmax", "sym_size": "size"}  # OpenVINO's names of operations -> those of the exported graph


@dataclass(frozen=True, slots=True)
class OpenvinoNode:
    """A node that OpenVINO executes: its kernel, its mean seconds, and the operations that it computes."""

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
    except Exception as error:  # OpenVINO's converter raises many kinds
        raise SeqtuneError(f"OpenVINO cannot compute this model: {one_line(error, 200)}") from None
    request = compiled.create_infer_request()
    operands = [example.detach().numpy() for example in examples]
    nodes = profiled(request, lambda: request.infer(operands))
    covered = {operation.get_friendly_name(): _covered(operation)
               for operation in compiled.get_runtime_model().get_ordered_ops()}
    return [OpenvinoNode(name, f"{node.node_type} {node.exec_type}", seconds, covered.get(name, ()))
            for name, (node, seconds) in nodes.items()], program.graph


def profiled(request: Any, run: Callable[[], object]) -> dict[str, tuple[Any, float]]:
    """The nodes of a new request's profile by name, without idle ones, each with the mean seconds of the later runs.

    OpenVINO's profile shows the mean of all runs so far, in whole microseconds (`PerfCount` in its CPU plugin): the
    time of the FIRST runs is subtracted.
    """
    def after(count: int) -> dict[str, Any]:
        for _ in range(count):
            run()
        return {node.node_name: node for node in request.get_profiling_info() if node.real_time.total_seconds() > 0}

    first, last = after(FIRST), after(RUNS)

    def seconds(name: str) -> float:
        total: float = last[name].real_time.total_seconds() * (FIRST + RUNS)
        before: float = first[name].real_time.total_seconds() * FIRST if name in first else 0.0
        return max(0.0, total - before) / RUNS

    return {name: (node, seconds(name)) for name, node in last.items()}


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
