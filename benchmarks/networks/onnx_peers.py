"""Inference engines that read an ONNX file, as contestants: ONNX Runtime and OpenVINO, each set for low latency.

Both read the inputs in PyTorch's memory and return their results in memory of their own.
"""

from __future__ import annotations

from typing import Any

from seqtune.errors import UnavailableError

from .case import Case, Run

PRECISIONS = {"fp32": "f32", "bf16": "bf16"}  # as OpenVINO calls them; by itself it takes bf16 where the CPU has it


def onnx_runtime(case: Case) -> Run:
    """ONNX Runtime with all its graph optimisations. Raises UnavailableError for bf16."""
    import onnxruntime

    if case.dtype != "fp32":
        raise UnavailableError("ONNX Runtime has no kernels in bf16 for x86-64")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case.device.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(case.onnx_file(), options, providers=["CPUExecutionProvider"])
    feeds = {given.name: value.numpy() for given, value in zip(session.get_inputs(), case.inputs, strict=True)}

    def run() -> list[Any]:
        return list(session.run(None, feeds))

    run()
    return run


def compiled_by_openvino(case: Case, **settings: str) -> Any:
    """Compile the case with OpenVINO for low latency, and return the compiled model."""
    import openvino

    core = openvino.Core()
    return core.compile_model(core.read_model(case.onnx_file()), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": case.device.threads,
        "INFERENCE_PRECISION_HINT": PRECISIONS[case.dtype], **settings})


def open_vino(case: Case) -> Run:
    """OpenVINO in the case's precision; its inputs and outputs are fp32."""
    request = compiled_by_openvino(case).create_infer_request()
    inputs = [value.numpy() for value in case.inputs]

    def run() -> list[Any]:
        answer = request.infer(inputs, share_inputs=True, share_outputs=True)
        return list(answer.values())

    run()
    return run
