"""Peers: what a user with a CPU would run a network with instead of us. They are timed and never learned from.

PyTorch's own ways have a copy of the model each, so that none can use what another one compiled. The engines that read
an ONNX file read the inputs in PyTorch's memory and return their results in memory of their own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seqtune.errors import SeqtuneError, UnavailableError, one_line

from .case import Case, Run, called

LONGEST_REASON = 300  # characters
PRECISIONS = {"fp32": "f32", "bf16": "bf16"}  # OpenVINO's names; by default it takes bf16 where the CPU has it


@dataclass(frozen=True)
class NetworkPeer:
    """One peer: what prepares its run of a case, and the packages beyond PyTorch that it needs."""

    name: str
    prepare: Callable[[Case], Run]
    packages: Sequence[str] = ()
    install: str = "pip install 'seqtune[networks]'"

    def prepared(self, case: Case) -> Run:
        """Prepare the peer's run. Raises UnavailableError with the reason if it cannot compute the case here."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise UnavailableError(f"{package} is not installed: {self.install}")
        return guarded(lambda: self.prepare(case))


def guarded(prepare: Callable[[], Run]) -> Run:
    """Prepare a run. Raises UnavailableError in place of whatever a foreign library raises."""
    try:
        return prepare()
    except SeqtuneError:
        raise
    except Exception as error:  # a missing compiler, an operation that is unknown: libraries raise many kinds
        raise UnavailableError(one_line(f"{type(error).__name__}: {error}", LONGEST_REASON)) from error


def eager(case: Case) -> Run:
    """PyTorch without compilation."""
    return called(case.copied(), case)


def compiled(case: Case) -> Run:
    """torch.compile with its defaults."""
    import torch

    return called(torch.compile(case.copied()), case)


def max_autotune(case: Case) -> Run:
    """torch.compile with constant weights, trying several kernels for each layer."""
    import torch

    return called(torch.compile(case.copied(), options={"freezing": True, "max_autotune": True}), case)


def zentorch(case: Case) -> Run:
    """AMD's backend of torch.compile. Raises UnavailableError on a CPU of another maker."""
    if "AMD" not in case.device.model:
        raise UnavailableError(f"zentorch is made for CPUs of AMD; this is {case.device.model}")
    import torch
    import zentorch  # noqa: F401  # registers its backend

    return called(torch.compile(case.copied(), backend="zentorch"), case)


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


def open_vino(case: Case) -> Run:
    """OpenVINO in the case's precision, set for low latency; its inputs and outputs are fp32."""
    import openvino

    core = openvino.Core()
    request = core.compile_model(core.read_model(case.onnx_file()), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": case.device.threads,
        "INFERENCE_PRECISION_HINT": PRECISIONS[case.dtype]}).create_infer_request()
    inputs = [value.numpy() for value in case.inputs]

    def run() -> list[Any]:
        answer = request.infer(inputs, share_inputs=True, share_outputs=True)
        return list(answer.values())

    run()
    return run


PEERS: Sequence[NetworkPeer] = (
    NetworkPeer("eager", eager),
    NetworkPeer("compile", compiled),
    NetworkPeer("max_autotune", max_autotune),
    NetworkPeer("onnxruntime", onnx_runtime, ("onnx", "onnxscript", "onnxruntime")),
    NetworkPeer("openvino", open_vino, ("onnx", "onnxscript", "openvino")),
    NetworkPeer("zentorch", zentorch, ("zentorch",), "pip install --no-deps zentorch, of the minor version of torch"),
)
