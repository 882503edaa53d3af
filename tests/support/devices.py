"""Devices of every backend, described and not opened."""

from __future__ import annotations

from seqtune.kernels.devices.accelerators import BACKENDS, described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends import discovery


def described_gpu(backend: str, model: str) -> Device:
    """The GPU of this model, which must be in the table."""
    found = described(backend, model)
    assert found is not None
    return found


DEVICES = {
    "llvm": Device("llvm:toy", "llvm", "znver5", "avx512", threads=2, compute_units=2, vector_bits=512,
                   vector_registers=32, l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=1 << 24, peak_gflops=200.0,
                   bandwidth_gbs=20.0),
    "opencl": Device("opencl:toy", "opencl", "znver5", "opencl-c-1.2", threads=2, compute_units=2, vector_bits=512,
                     l1_bytes=48 << 10, l2_bytes=1 << 20, local_memory=512 << 10, max_work_group=4096,
                     peak_gflops=200.0, bandwidth_gbs=20.0),
    "miopen": discovery.find("miopen:gfx906_60"),
    **{backend: described_gpu(backend, "h100") for backend in BACKENDS},
}


OPERATIONS = {"miopen": ("conv2d",), "triton": ("gemm",)}  # backend -> the common ones that it solves; others: both


def device_of(backend: str) -> Device:
    """A device of that backend."""
    return DEVICES[backend]


def operations_of(backend: str) -> tuple[str, ...]:
    """Those of convolution and product that kernels of the backend solve."""
    return OPERATIONS.get(backend, ("conv2d", "gemm"))


def usual(problem: Problem, backend: str) -> Problem:
    """The problem in the element type for which one has devices of the backend: fp16 on GPUs."""
    return Problem.make(problem.type, **{**dict(problem), "dtype": "fp16"}) if backend in BACKENDS else problem
