"""OpenVINO's time of one layer: a model of this layer alone, and the time of its own node in OpenVINO's profile.

The node's time leaves out what OpenVINO does beside it: it brings the operand into the layout that it likes and the
result back, which a network does at its borders only. OpenVINO's profile shows the mean of all runs of a compiled
model, rounded down to whole microseconds, the slow first ones included (`PerfCount` in its CPU plugin). So each sample
compiles the model anew, and the time of the first runs is subtracted. Beside the node stands our kernel as a step of a
program, which leaves out the call from Python and the allocation of the result; its samples take turns with the node's
and are as long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.common.contest import REST_SECONDS, Contestant, rows_of
from benchmarks.common.report import Row
from seqtune.errors import SeqtuneError
from seqtune.tuner.measuring.deadline import Deadline

from .layer import RELU6, Layer
from .problem_sets import NODE, STEP, window_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
SAMPLES = 12  # samples of each side, in turns; the least counts
LEAST_RUNS = 3  # least runs in a warm-up, and in a sample
NODES = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul")  # first words of the types of a layer's node;
#                                                                          int8: FullyConnectedQuantizedLegacy
APART = ("Eltwise", "Clamp", "Add", "Subgraph")  # types of the nodes that compute bias or activation of a layer
FP32_ROUNDING = 1e-6  # largest error of an int8 sum that is returned as fp32, relative to the largest sum


@dataclass(frozen=True)
class Turns:
    """The lengths of the parts of a sample, in seconds."""

    rest: float = REST_SECONDS
    warm_up: float = 2.5e-3
    sample: float = 25e-3


TURNS = Turns()


@dataclass(frozen=True)
class LayerModel:
    """OpenVINO's model of one layer, and the operand that it runs on."""

    layer: Layer
    node: Any  # its output is the result
    parameter: Any
    x: NDArray[Any]
    turns: Turns
    apart: Sequence[str]  # types of nodes that must not be in the profile beside the layer's

    @cached_property
    def _compile(self) -> Callable[[], Any]:
        import openvino

        return partial(openvino.Core().compile_model, openvino.Model([self.node], [self.parameter]), "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": self.layer.threads,
            "INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": "YES"})

    def y(self) -> NDArray[Any]:
        """Compile the model and compute the result in the problem's layout."""
        return self.layer.as_array(next(iter(self._compile().create_infer_request().infer([self.x]).values())))

    def sample(self) -> tuple[float, str]:
        """Compile the model; returns the mean seconds of the layer's node after the first runs, and its kernel.

        Raises SeqtuneError.
        """
        request = self._compile().create_infer_request()
        run = partial(request.infer, [self.x], share_inputs=True, share_outputs=True)
        first = len(_run_for(run, self.turns.warm_up))
        before, _ = self._node_in(request.get_profiling_info())
        later = len(_run_for(run, self.turns.sample))
        after, kernel = self._node_in(request.get_profiling_info())
        return (after * (first + later) - before * first) / later, kernel

    def _node_in(self, profile: Sequence[Any]) -> tuple[float, str]:
        """The mean seconds of the layer's node in a profile, and its kernel. Raises SeqtuneError."""
        times = {node.node_type: node for node in profile if node.real_time.total_seconds() > 0}
        problem = self.layer.problem
        for name in self.apart:
            if name in times:
                raise SeqtuneError(f"OpenVINO computes a part of {problem.brief()} in a node {name}")
        for name, node in times.items():
            if name.startswith(NODES):
                if problem["dtype"] == "int8" and "8" not in node.exec_type.rpartition("_")[2]:  # brgemm_avx512_I8
                    raise SeqtuneError(f"OpenVINO does not compute this product in int8, but by {node.exec_type}")
                return node.real_time.total_seconds(), node.exec_type
        raise SeqtuneError(f"OpenVINO's profile shows no node for {problem.brief()}")


def node_rows(label: str, layer: Layer, ours: Contestant, turns: Turns = TURNS) -> list[Row]:
    """Rows with the least seconds of our kernel's step and of OpenVINO's node, which take turns.

    Bias and ReLU6 belong to the node. Raises SeqtuneError if OpenVINO's result is wrong or not computed in the
    layer's type, if its profile does not show the layer's node, or if another node computes a part of the layer.
    """
    assert ours.step is not None
    model = _model_of(layer, turns)
    is_int8 = layer.problem["dtype"] == "int8"
    allowed = replace(layer, expected=replace(layer.expected, tolerance=FP32_ROUNDING)) if is_int8 else layer
    error = allowed.checked(model.y, NODE)
    step, node = math.inf, (math.inf, "")
    for _ in range(SAMPLES):
        time.sleep(turns.rest)
        _run_for(ours.step, turns.warm_up)
        taken = _run_for(ours.step, turns.sample)
        step = min(step, sum(taken) / len(taken))
        time.sleep(turns.rest)
        node = min(node, model.sample())
    sides = [Contestant(STEP, ours.run, ours.error, {"kernel": ours.method}),
             Contestant(NODE, model.y, error, {"kernel": node[1]})]
    return rows_of(label, layer.threads, sides, {STEP: step, NODE: node[0]}, layer.problem.size("flop"))


def _run_for(run: Callable[[], T], seconds: float) -> list[T]:
    """The results of repeated runs, for at least these seconds."""
    deadline, results = Deadline(seconds, time.perf_counter), [run() for _ in range(LEAST_RUNS)]
    while not deadline.is_over:
        results.append(run())
    return results


def _model_of(layer: Layer, turns: Turns) -> LayerModel:
    import numpy as np
    import openvino
    from openvino import opset13

    operands, is_image = layer.operands, layer.problem.type == "conv2d"
    x = np.ascontiguousarray(operands["x"].transpose(0, 3, 1, 2) if is_image else operands["x"], np.float32)
    parameter = opset13.parameter(x.shape, openvino.Type.f32)
    if layer.problem["dtype"] == "int8":
        return LayerModel(layer, _int8_product(layer, parameter), parameter, x, turns, ())  # one quantises the operand
    node = (_convolution if is_image else _product)(layer, parameter)
    if layer.relu6:
        node = opset13.clamp(node, 0.0, RELU6)
    return LayerModel(layer, node, parameter, x, turns, APART)


def _convolution(layer: Layer, parameter: Any) -> Any:
    """The node of one convolution, with its bias and without an activation."""
    from openvino import opset13

    problem, operands = layer.problem, layer.operands
    strides, padding, dilations, groups = window_of(problem)
    weights = operands["weights"]
    if groups == 1:
        node = opset13.convolution(parameter, opset13.constant(weights), strides, padding, padding, dilations)
    else:
        grouped = weights.reshape(groups, -1, *weights.shape[1:])
        node = opset13.group_convolution(parameter, opset13.constant(grouped), strides, padding, padding, dilations)
    if "bias" not in operands:
        return node
    return opset13.add(node, opset13.constant(operands["bias"].reshape(1, -1, 1, 1)))


def _product(layer: Layer, parameter: Any) -> Any:
    """The node of one matrix product with constant weights."""
    from openvino import opset13

    weights = opset13.constant(layer.operands["weights"])
    return opset13.matmul(parameter, weights, False, layer.problem["trans_b"] == "yes")


def _int8_product(layer: Layer, parameter: Any) -> Any:
    """The node of one product of int8 with constant weights; its fp32 operand is quantised before."""
    import numpy as np
    from openvino import opset13

    low, high = np.float32(-128), np.float32(127)
    weights = opset13.multiply(opset13.convert(opset13.constant(layer.operands["weights"].copy()), "f32"),
                               opset13.constant(np.array(1, np.float32)))
    return opset13.matmul(opset13.fake_quantize(parameter, low, high, low, high, 256), weights, False, False)
