"""OpenVINO's time of one layer: a model of this layer alone, and the time of its own node in OpenVINO's profile.

The node's time leaves out what OpenVINO does beside it: it brings the operand into the layout that it likes and the
result back, which a network does at its borders only. OpenVINO's profile shows the mean of all runs of a compiled
model, rounded down to whole microseconds, the slow first ones included (`PerfCount` in its CPU plugin). So each sample
compiles the model anew, and the time of the first runs is subtracted. Beside the node stands our kernel (`step`), whose
samples take turns with the node's and are as long. Of fp32 layers it is a step of a program, which leaves out the call
from Python and the allocation of the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.common.contest import RELU6, Contestant, checked, rows_of
from benchmarks.common.report import Row
from seqtune.errors import SeqtuneError, UnavailableError

if TYPE_CHECKING:
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.timing import Expected

T = TypeVar("T")
METHOD = "openvino_node"
STEP = "step"  # the method of our kernel beside it
SAMPLES = 12  # of each side, in turns; the least counts
REST_SECONDS = 20e-3  # before each sample: the idle threads of the other side stop spinning
WARM_UP_SECONDS, SAMPLE_SECONDS = 2.5e-3, 25e-3
LEAST_RUNS = 3  # of a warm-up, and of a sample
NODES = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul")  # first words of the types of a layer's node;
#                                                                          int8: FullyConnectedQuantizedLegacy
APART = ("Eltwise", "Clamp", "Add", "Subgraph")  # types of the nodes that compute bias or activation of a layer


@dataclass(frozen=True)
class LayerModel:
    """OpenVINO's model of one layer, and the operand that it runs on."""

    problem: Problem
    threads: int
    layer: Any  # the node whose output is the result
    parameter: Any
    x: Any  # the operand, an array
    in_layout: Callable[[Any], Any]  # from OpenVINO's result to an array in the problem's layout
    apart: Sequence[str] = APART  # types of nodes that must not be in the profile beside the layer's

    @cached_property
    def _compile(self) -> Callable[[], Any]:
        import openvino

        return partial(openvino.Core().compile_model, openvino.Model([self.layer], [self.parameter]), "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": self.threads, "INFERENCE_PRECISION_HINT": "f32",
            "PERF_COUNT": "YES"})

    def y(self) -> Any:
        """Compile the model and compute the result in the problem's layout."""
        return self.in_layout(next(iter(self._compile().create_infer_request().infer([self.x]).values())))

    def sample(self) -> tuple[float, str]:
        """Compile the model; returns the mean seconds of the layer's node after the first runs, and its kernel.

        Raises SeqtuneError.
        """
        request = self._compile().create_infer_request()
        run = partial(request.infer, [self.x], share_inputs=True, share_outputs=True)
        first = len(_run_for(run, WARM_UP_SECONDS))
        before, _ = self._node_in(request.get_profiling_info())
        later = len(_run_for(run, SAMPLE_SECONDS))
        after, kernel = self._node_in(request.get_profiling_info())
        return (after * (first + later) - before * first) / later, kernel

    def _node_in(self, profile: Sequence[Any]) -> tuple[float, str]:
        """The mean seconds of the layer's node in a profile, and its kernel. Raises SeqtuneError."""
        times = {node.node_type: node for node in profile if node.real_time.total_seconds() > 0}
        for name in self.apart:
            if name in times:
                raise SeqtuneError(f"OpenVINO computes a part of {self.problem.brief()} in a node {name}")
        for name, node in times.items():
            if name.startswith(NODES):
                return node.real_time.total_seconds(), node.exec_type
        raise SeqtuneError(f"OpenVINO's profile shows no node for {self.problem.brief()}")


def check_openvino() -> None:
    """Raise UnavailableError if OpenVINO is not installed."""
    if find_spec("openvino") is None:
        raise UnavailableError("OpenVINO is not installed: pip install openvino")


def openvino_rows(label: str, problem: Problem, threads: int, operands: Operands, expected: Expected, ours: Contestant,
                  relu6: bool = False) -> list[Row]:
    """The rows of `node_rows` for a layer in fp32; bias and, with `relu6`, ReLU6 belong to the node."""
    import numpy as np
    import openvino
    from openvino import opset13

    convolution = problem.type == "conv2d"
    x = np.ascontiguousarray(operands["x"].transpose(0, 3, 1, 2) if convolution else operands["x"])
    parameter = opset13.parameter(x.shape, openvino.Type.f32)
    node = (_convolution if convolution else _product)(problem, parameter, operands)
    if relu6:
        node = opset13.clamp(node, 0.0, RELU6)

    def in_layout(y: Any) -> Any:
        return np.ascontiguousarray(y.transpose(0, 2, 3, 1) if convolution else y)

    return node_rows(label, LayerModel(problem, threads, node, parameter, x, in_layout), expected, ours)


def node_rows(label: str, model: LayerModel, expected: Expected, ours: Contestant) -> list[Row]:
    """Rows with the least seconds of our kernel's step and of OpenVINO's node, which take turns.

    Raises SeqtuneError if OpenVINO's result is wrong, if its profile does not show the layer's node, or if another
    node computes a part of the layer.
    """
    assert ours.step is not None
    error = checked(expected, model.y, METHOD)
    step, node = math.inf, (math.inf, "")
    for _ in range(SAMPLES):
        time.sleep(REST_SECONDS)
        _run_for(ours.step, WARM_UP_SECONDS)
        taken = _run_for(ours.step, SAMPLE_SECONDS)
        step = min(step, sum(taken) / len(taken))
        time.sleep(REST_SECONDS)
        node = min(node, model.sample())
    sides = [Contestant(STEP, ours.run, ours.error, {"kernel": ours.method}),
             Contestant(METHOD, model.y, error, {"kernel": node[1]})]
    return rows_of(label, model.threads, sides, {STEP: step, METHOD: node[0]}, model.problem.size("flop"))


def _run_for(run: Callable[[], T], seconds: float) -> list[T]:
    """The results of repeated runs, for at least these seconds."""
    end, results = time.perf_counter() + seconds, [run() for _ in range(LEAST_RUNS)]
    while time.perf_counter() < end:
        results.append(run())
    return results


def _convolution(problem: Problem, parameter: Any, operands: Operands) -> Any:
    """The node of one convolution, with its bias and without an activation."""
    from openvino import opset13

    strides, padding, dilations = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                   for name in ("stride", "pad", "dilation"))
    weights, groups = operands["weights"], problem.size("groups")
    if groups == 1:
        node = opset13.convolution(parameter, opset13.constant(weights), strides, padding, padding, dilations)
    else:
        grouped = weights.reshape(groups, -1, *weights.shape[1:])
        node = opset13.group_convolution(parameter, opset13.constant(grouped), strides, padding, padding, dilations)
    if "bias" not in operands:
        return node
    return opset13.add(node, opset13.constant(operands["bias"].reshape(1, -1, 1, 1)))


def _product(problem: Problem, parameter: Any, operands: Operands) -> Any:
    """The node of one matrix product with constant weights."""
    from openvino import opset13

    transposed = problem["trans_b"] == "yes"
    return opset13.matmul(parameter, opset13.constant(operands["weights"]), False, transposed)
