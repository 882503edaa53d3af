"""Compare int8 matrix products with OpenVINO's and ONNX Runtime's: `python -m benchmarks gemm_int8 [--json]`.

Products of two int8 matrices with exact 32-bit sums and a constant B, of six sizes of transformers and of a classifier.
Ours is llvm.gemm_int8 as a search on this machine chose it, called from Python. `onnxruntime` is the operation
MatMulInteger with A as unsigned bytes and the zero point 128, its fastest form. `openvino_node` is the time of
OpenVINO's node for the product, in a model in which another node quantises an fp32 operand before; the program checks
that the node computes in int8. Its sums are returned as fp32, and may be rounded. `step` is our kernel again, as a step
of a program, which takes turns with OpenVINO's node.

Our kernel and ONNX Runtime take samples in rounds, in a new random order each; the median of the levelled rounds
counts. Of `step` and `openvino_node`, the least sample counts. A ratio is the other's time divided by ours: ONNX
Runtime's by that of llvm.gemm_int8, OpenVINO's by that of `step`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import (
    Contestant,
    checked,
    geometric_mean,
    our_contestant,
    rows_of,
    searched,
    seconds_by_method,
    take_turns,
)
from benchmarks.common.openvino_layers import METHOD, STEP, LayerModel, node_rows
from benchmarks.common.program import (
    OneLineParser,
    add_search,
    journal_of,
    llvm_devices,
    positive,
    warm_threads,
)
from benchmarks.common.report import Row, markdown
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.timing import Expected

SHAPES = ((128, 768, 768), (128, 3072, 768), (128, 768, 3072), (512, 2304, 768), (16, 1000, 2048), (64, 4096, 1024))
OURS = "llvm.gemm_int8"
PEERS = {"onnxruntime": OURS, METHOD: STEP}  # method -> the method of our kernel whose time divides its time
ZERO = 128  # of unsigned bytes
REST_SECONDS = 0.1  # before a turn: after 50 ms, idle threads of ONNX Runtime still spun now and then
WARM_UP_SECONDS = 10e-3  # before a sample: the threads wake
FP32_ROUNDING = 1e-6  # largest error of a sum that is returned as fp32, relative to the largest sum


def onnx_runtime(problem: Problem, operands: Operands, expected: Expected, threads: int) -> Contestant:
    """ONNX Runtime's MatMulInteger with B as a constant. Raises SeqtuneError if its result is wrong."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    m, n, k = (problem.size(name) for name in "mnk")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b", "zero"], ["y"])], "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, (m, k))],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (m, n))],
        [numpy_helper.from_array(operands["weights"].copy(), "b"),
         numpy_helper.from_array(np.array(ZERO, np.uint8), "zero")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    a = (operands["x"].astype(np.int16) + ZERO).astype(np.uint8)

    def run() -> Any:
        return session.run(None, {"a": a})[0]

    return Contestant("onnxruntime", run, checked(expected, run, "MatMulInteger"))


def open_vino(problem: Problem, operands: Operands, expected: Expected, threads: int, ours: Contestant) -> list[Row]:
    """The rows of our step and of OpenVINO's node.

    Raises SeqtuneError if the node's result is wrong or not computed in int8.
    """
    import numpy as np
    import openvino
    from openvino import opset13

    low, high = np.float32(-128), np.float32(127)
    parameter = opset13.parameter(operands["x"].shape, openvino.Type.f32)
    weights = opset13.multiply(opset13.convert(opset13.constant(operands["weights"].copy()), "f32"),
                               opset13.constant(np.array(1, np.float32)))
    product = opset13.matmul(opset13.fake_quantize(parameter, low, high, low, high, 256), weights, False, False)
    model = LayerModel(problem, threads, product, parameter, operands["x"].astype(np.float32), np.ascontiguousarray,
                       apart=())  # one quantises the operand
    rows = node_rows(label_of(problem), model, replace(expected, tolerance=FP32_ROUNDING), ours)
    kernel = rows[-1]["kernel"]
    if "8" not in kernel.rpartition("_")[2]:  # such as brgemm_avx512_I8
        raise SeqtuneError(f"OpenVINO does not compute this product in int8, but by {kernel}")
    return rows


def label_of(problem: Problem) -> str:
    """The sizes of a product, for people."""
    return "x".join(str(problem.size(name)) for name in "mnk")


def run(given: argparse.Namespace) -> list[Row]:
    """Search our configurations, hold the contests and return a row for each contestant."""
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.registry import kernel
    from seqtune.networks.program.device_threads import binder_of
    from seqtune.tuner.measuring.runner import Runner
    from seqtune.tuner.measuring.timing import prepare

    rows: list[Row] = []
    problems = [Problem.make("gemm", m=m, n=n, k=k, dtype="int8") for m, n, k in SHAPES]
    for device in llvm_devices(given.threads):
        with journal_of(given.journal) as journal, Runner(device) as runner:
            chosen = [searched(problem, device, kernel(OURS), journal, given.trials, runner) for problem in problems]
        warm_threads(device.threads)
        for problem, configuration in zip(problems, chosen, strict=True):
            operands, expected = prepare(problem)
            contestants = ([onnx_runtime(problem, operands, expected, device.threads)]
                           if find_spec("onnxruntime") else [])
            ours = our_contestant(binder_of(device), problem, operands, expected, configuration, OURS)
            contestants.append(ours)
            seconds = take_turns(contestants, given.rounds, REST_SECONDS, WARM_UP_SECONDS)
            label = label_of(problem)
            rows += rows_of(label, device.threads, contestants, seconds, problem.size("flop"))
            if find_spec("openvino"):
                rows += open_vino(problem, operands, expected, device.threads, ours)
            print(f"{label}, {device.threads} threads: " + ", ".join(
                f"{name} {taken * 1e6:.0f} us" for name, taken in seconds.items()), file=sys.stderr, flush=True)
    return rows


def table(rows: list[Row]) -> str:
    """A line for each product and number of threads, and the geometric means of the ratios."""
    peers = {name: ours for name, ours in PEERS.items() if any(row["method"] == name for row in rows)}
    speeds = {(row["layer"], row["threads"]): row["gflops"] for row in rows if row["method"] == OURS}
    lines, ratios = [], dict[tuple[int, str], list[float]]()
    for (label, threads), seconds in seconds_by_method(rows).items():
        for name, ours in peers.items():
            ratios.setdefault((threads, name), []).append(seconds[name] / seconds[ours])
        lines.append([label, str(threads), f"{seconds[OURS] * 1e6:.0f}", f"{speeds[label, threads]:.0f}",
                      *(f"{ratios[threads, name][-1]:.2f}" for name in peers)])
    for threads in dict.fromkeys(threads for threads, _ in ratios):
        lines.append(["geometric mean", str(threads), "", "",
                      *(f"{geometric_mean(ratios[threads, name]):.2f}" for name in peers)])
    return markdown(["m x n x k", "threads", "ours, us", "Gop/s", *(f"{name} / ours" for name in peers)], lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_search(parser)
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2], help="numbers of threads")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    given = parser.parse_args(arguments)
    rows = run(given)
    print(json.dumps({"rows": rows}) if given.json else table(rows))
