"""OpenVINO's time of one layer: a model of this layer alone, and the time of its own node in OpenVINO's profile.

The node's time leaves out what OpenVINO does beside it: it brings the operand into the layout that it likes and the
result back, which a network does at its borders only. OpenVINO counts in whole microseconds.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import checked
from benchmarks.common.report import Row
from seqtune.errors import SeqtuneError, UnavailableError

if TYPE_CHECKING:
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.timing import Expected

METHOD = "openvino_node"
NODES = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul")  # types of the nodes that compute a layer


def check_openvino() -> None:
    """Raise UnavailableError if OpenVINO is not installed."""
    if find_spec("openvino") is None:
        raise UnavailableError("OpenVINO is not installed: pip install openvino")


def openvino_row(label: str, problem: Problem, threads: int, operands: Operands, expected: Expected,
                 runs: int) -> Row:
    """A row with the least seconds of OpenVINO's node. Raises SeqtuneError if its result is wrong or has no node."""
    import numpy as np
    import openvino
    from openvino import opset13

    convolution = problem.type == "conv2d"
    x = np.ascontiguousarray(operands["x"].transpose(0, 3, 1, 2) if convolution else operands["x"])
    parameter = opset13.parameter(x.shape, openvino.Type.f32)
    node = (_convolution if convolution else _product)(problem, parameter, operands)
    compiled = openvino.Core().compile_model(openvino.Model([node], [parameter]), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
        "PERF_COUNT": "YES"})
    request = compiled.create_infer_request()

    def result() -> Any:
        answer = next(iter(request.infer([x]).values()))
        return np.ascontiguousarray(answer.transpose(0, 2, 3, 1) if convolution else answer)

    error, times, kernel = checked(expected, result, METHOD), [], ""
    for _ in range(runs):
        request.infer([x], share_inputs=True, share_outputs=True)
        for node in request.get_profiling_info():
            if node.node_type in NODES and node.real_time.total_seconds() > 0:
                times.append(node.real_time.total_seconds())
                kernel = node.exec_type
    if not times:
        raise SeqtuneError(f"OpenVINO's profile shows no node for {problem.brief()}")
    return {"layer": label, "threads": threads, "method": METHOD, "seconds": min(times), "error": error,
            "gflops": problem.size("flop") / min(times) / 1e9, "kernel": kernel}


def _convolution(problem: Problem, parameter: Any, operands: Operands) -> Any:
    """The node of one convolution, without bias and activation."""
    from openvino import opset13

    strides, padding, dilations = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                   for name in ("stride", "pad", "dilation"))
    weights, groups = operands["weights"], problem.size("groups")
    if groups == 1:
        return opset13.convolution(parameter, opset13.constant(weights), strides, padding, padding, dilations)
    grouped = weights.reshape(groups, -1, *weights.shape[1:])
    return opset13.group_convolution(parameter, opset13.constant(grouped), strides, padding, padding, dilations)


def _product(problem: Problem, parameter: Any, operands: Operands) -> Any:
    """The node of one matrix product with constant weights."""
    from openvino import opset13

    transposed = problem["trans_b"] == "yes"
    return opset13.matmul(parameter, opset13.constant(operands["weights"]), False, transposed)
