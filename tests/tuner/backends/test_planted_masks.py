"""A mask among the expected elements hides no error: on the stand-ins of CUDA and Triton, and in T1 files.

`tests/tuner/measuring/test_borders.py` has the same of OpenCL.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.data.record import Measurement, Status
from seqtune.kernels.launches.call_declaration import CallDeclaration
from seqtune.kernels.launches.contents import all_contents
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.measuring.expected_outputs import ExpectedOutputs
from seqtune.tuner.measuring.timing import Options, check_and_time
from tests.support.cuda.fake_pycuda import FakeCuda
from tests.support.devices import described_gpu
from tests.tuner.backends.test_called_kernels import CONFIGURATION, PROBLEM
from tests.tuner.backends.test_restoring import gpu_calls, triton_calls

TENSORS = Tensors({"x": Tensor((8, 8), "fp32", "normal")}, {"y": Tensor((8, 8), "fp32", None)})
ARGUMENTS = ["y", "x"]
FACTORS = pytest.mark.parametrize(("factor", "status"), [(0.125, Status.CORRECT), (100, Status.CORRECTNESS)])


def scores(x: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Scaled scores, where those above the diagonal are masked."""
    return np.where(np.tri(8, dtype=bool), np.float32(factor) * x, np.float32(-1e9))


def measured(executable: CalledExecutable) -> Measurement:
    """The measurement of an executable beside the right scores."""
    arrays = all_contents(TENSORS, 0)
    expected = ExpectedOutputs.of({"y": scores(arrays["x"], 0.125)}, arrays, TENSORS, None)
    return check_and_time(executable, arrays, expected, Options(samples=1))


@FACTORS
def test_a_mask_hides_no_error_of_cuda(factor: float, status: Status) -> None:
    def run(cuda: FakeCuda, arguments: bytes) -> None:
        y, x = (cuda.view(at, (8, 8), np.float32) for at in struct.unpack("<QQ", arguments))
        y[:] = scores(x, factor)

    device = described_gpu("cuda", "h200")
    declaration = CallDeclaration.of("cuda", "", "scores", ARGUMENTS, global_size=["8"], local=["8"])
    call = declaration.call(PROBLEM, device, CONFIGURATION, TENSORS)
    measurement = measured(CalledExecutable(gpu_calls(FakeCuda({"scores": run}), "scores", 16), call, TENSORS))
    assert measurement.status is status, measurement.message


@FACTORS
def test_a_mask_hides_no_error_of_triton(factor: float, status: Status) -> None:
    pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")

    class Launcher:
        """Stands in for a compiled function."""

        arg_names = ("y_ptr", "x_ptr")

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return self.run

        def run(self, y: Any, x: Any, **_: Any) -> None:
            y[:] = y.new_tensor(scores(x.numpy().reshape(8, 8), factor)).ravel()

    calls = triton_calls(Launcher())
    calls.program = lambda source: ("module", {})
    declaration = CallDeclaration.of("opencl", "", "scores", ARGUMENTS, global_size=["1"])
    call = declaration.call(PROBLEM, described_gpu("triton", "h200"), CONFIGURATION, TENSORS)
    measurement = measured(CalledExecutable(calls, call, TENSORS))
    assert measurement.status is status, measurement.message
