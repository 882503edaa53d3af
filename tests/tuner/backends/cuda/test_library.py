"""A library's CUDA C kernels: compiled without a GPU, and launched on a stand-in for the driver."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.errors import UnavailableError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import BuildError, Executable, build_executable
from seqtune.tuner.backends.cuda import compiler
from seqtune.tuner.backends.cuda.backend import CudaBackend
from seqtune.tuner.measuring.expected_outputs import prepare_arrays
from tests.support.cuda.fake_pycuda import KERNEL_SECONDS, FakeCuda, FakeLibCuda, discovery_of
from tests.support.libraries.stencil import write

LIBRARY = """name = "gpu"
[operations.scale]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = {shape = "n", dtype = "fp64"}}
[kernels.plain]
parameters = {block = [32, 64, 128], ENTRY = ["scale", "other"]}
constraints = ["n % block == 0"]
[kernels.plain.cuda]
source = "scale.cu"
entry = "scale"
arguments = ["x", "int8 n % 100", "y", "float 2.5", "local float block"]
groups = ["n // block"]
local = ["block"]
options = ["-std=c++17", "--use_fast_math"]
"""
SOURCE = """extern "C" __global__ void ENTRY(const float *x, signed char more, double *y, float factor) {
    extern __shared__ float part[];
    int i = blockIdx.x * block + threadIdx.x;
    part[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = part[threadIdx.x] * factor + more;
}
"""


@pytest.fixture(autouse=True)
def compiled_here(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        compiler.version()
    except UnavailableError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "scale.cu").write_text(SOURCE)
    return write(tmp_path, LIBRARY)


def scale(cuda: FakeCuda, arguments: bytes) -> None:
    x, more, y, factor = struct.unpack("<Qb7xQf", arguments)
    values = cuda.view(x, (128,), np.float32)
    cuda.view(y, (128,), np.float64)[:] = values.astype(np.float64) * factor + more


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[CudaBackend]:
    cuda = FakeCuda({"scale": scale})
    gpus = discovery_of(cuda, FakeLibCuda(cuda), tmp_path)
    opened = CudaBackend(gpus.devices()[0], gpus)
    yield opened
    opened.close()
    assert cuda.memory == {}


def test_a_call_is_launched_with_its_arguments_and_shared_memory(path: Path, backend: CudaBackend) -> None:
    seqtune.use_library(path)
    problem = parse_problem("scale n=128")

    def built(entry: str) -> Executable:
        return build_executable(backend, problem, kernel("gpu.plain"),
                                Configuration("gpu.plain", (("block", 32), ("ENTRY", entry))))

    executable = built("scale")
    arrays, _ = prepare_arrays(problem)
    executable.load(arrays)
    executable.poison()
    executable.run()
    assert executable.overrun() is None
    assert executable.outputs()["y"] == pytest.approx(arrays["x"] * 2.5 + 28)
    assert executable.time(3) == pytest.approx(3 * KERNEL_SECONDS)
    assert executable.resources is not None
    assert executable.resources.shared_bytes == 4 * 32
    assert backend.gpu.cuda.log[-1] == ("scale", ((4, 1, 1), (32, 1, 1), 128))
    executable.close()
    with pytest.raises(BuildError, match="no entry 'scale'; it has other"):
        built("other")


def test_kernels_are_compiled_for_a_gpu_that_is_not_here(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kernels", "--compile", "cuda:h200", "--library", str(path), "scale", "n=128", "--sample", "6", "--json"]
    path.write_text(LIBRARY.replace('["scale", "other"]', '["scale"]'))
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(family["kernel"], family["compiled"]) for family in report["families"]] == [("gpu.plain", 3)]
    assert main([word for word in words if word not in ("scale", "n=128")]) == 0  # the library's families alone
    assert [family["kernel"] for family in json.loads(capsys.readouterr().out)["families"]] == ["gpu.plain"]
    (path.parent / "scale.cu").write_text(SOURCE.replace("part[threadIdx.x] = x[i];", "nonsense;"))
    assert main(words) == 1
    failure = json.loads(capsys.readouterr().out)["families"][0]["failures"][0]
    assert "scale.cu" in failure["message"]
    assert "nonsense" in failure["message"]
