"""OpenVINO's time of one layer: a model of this layer alone, and the time of its own node in OpenVINO's profile.

The node's time leaves out what OpenVINO does beside it: it brings the operand into the layout that it likes and the
result back, which a network does at its borders only. OpenVINO's profile shows the mean of all runs of a compiled
model, rounded down to whole microseconds, the slow first ones included (`PerfCount` in its CPU plugin). So each sample
compiles the model anew, and the time of the first runs is subtracted. Beside the node stands our kernel as a step of a
program, which leaves out the call from Python and the allocation of the result; it is sampled in the same way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.common.contest import RELU6, Contestant, checked
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
NODES = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul")  # types of the nodes that compute a layer
APART = ("Eltwise", "Clamp", "Add", "Subgraph")  # types of the nodes that compute bias or activation of a layer


def check_openvino() -> None:
    """Raise UnavailableError if OpenVINO is not installed."""
    if find_spec("openvino") is None:
        raise UnavailableError("OpenVINO is not installed: pip install openvino")


def openvino_rows(label: str, problem: Problem, threads: int, operands: Operands, expected: Expected, ours: Contestant,
                  relu6: bool = False) -> list[Row]:
    """Rows with the least seconds of our kernel's step and of OpenVINO's node, which take turns.

    Bias and, with `relu6`, ReLU6 belong to the node. Raises SeqtuneError if its result is wrong or has no node, or if
    another node computes a part of the layer.
    """
    import numpy as np
    import openvino
    from openvino import opset13

    convolution = problem.type == "conv2d"
    x = np.ascontiguousarray(operands["x"].transpose(0, 3, 1, 2) if convolution else operands["x"])
    parameter = opset13.parameter(x.shape, openvino.Type.f32)
    node = (_convolution if convolution else _product)(problem, parameter, operands)
    if relu6:
        node = opset13.clamp(node, 0.0, RELU6)
    model, core = openvino.Model([node], [parameter]), openvino.Core()

    def request() -> Any:
        return core.compile_model(model, "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
            "PERF_COUNT": "YES"}).create_infer_request()

    def result() -> Any:
        answer = next(iter(request().infer([x]).values()))
        return np.ascontiguousarray(answer.transpose(0, 2, 3, 1) if convolution else answer)

    assert ours.step is not None
    error, step, theirs, kernel = checked(expected, result, METHOD), math.inf, math.inf, ""
    for _ in range(SAMPLES):
        time.sleep(REST_SECONDS)
        _run_for(ours.step, WARM_UP_SECONDS)
        taken = _run_for(ours.step, SAMPLE_SECONDS)
        step = min(step, sum(taken) / len(taken))
        time.sleep(REST_SECONDS)
        fresh = request()
        run = partial(fresh.infer, [x], share_inputs=True, share_outputs=True)
        first = len(_run_for(run, WARM_UP_SECONDS))
        before, kernel = _node_of(problem, fresh.get_profiling_info())
        further = len(_run_for(run, SAMPLE_SECONDS))
        after, kernel = _node_of(problem, fresh.get_profiling_info())
        theirs = min(theirs, (after * (first + further) - before * first) / further)
    common, flop = {"layer": label, "threads": threads}, problem.size("flop")
    return [{**common, "method": STEP, "seconds": step, "gflops": flop / step / 1e9, "error": ours.error,
             "kernel": ours.method},
            {**common, "method": METHOD, "seconds": theirs, "gflops": flop / theirs / 1e9, "error": error,
             "kernel": kernel}]


def _run_for(run: Callable[[], T], seconds: float) -> list[T]:
    """The results of repeated runs, for at least these seconds."""
    end, results = time.perf_counter() + seconds, [run() for _ in range(LEAST_RUNS)]
    while time.perf_counter() < end:
        results.append(run())
    return results


def _node_of(problem: Problem, profile: Sequence[Any]) -> tuple[float, str]:
    """The mean seconds of the layer's node in a profile, and its kernel. Raises SeqtuneError."""
    times = {node.node_type: node for node in profile if node.real_time.total_seconds() > 0}
    for name in APART:
        if name in times:
            raise SeqtuneError(f"OpenVINO computes a part of {problem.brief()} in a node {name}")
    for name in NODES:
        if name in times:
            return times[name].real_time.total_seconds(), times[name].exec_type
    raise SeqtuneError(f"OpenVINO's profile shows no node for {problem.brief()}")


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
