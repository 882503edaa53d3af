"""Folders of kernels in CUDA C++: images, and programs that run on a stand-in for the driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest

from seqtune.errors import UnavailableError
from seqtune.kernels.launches.call import Call, LocalArgument, ScalarArgument, TensorMapArgument
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.tuner.backends.cuda.compiler import Image, version
from seqtune.tuner.backends.cuda.resources import Resources
from seqtune.tuner.building import cuda
from seqtune.tuner.building.chosen import Chosen, files_of, write_folder
from tests.support.built_folders import chosen, compiled
from tests.support.cuda import shim
from tests.support.devices import described_gpu
from tests.support.learning.c_programs import needs_compiler

HERE = Path(shim.__file__).parent
Case: TypeAlias = tuple[str, str, str, dict[str, int | str]]  # kernel, GPU, problem, settings
CASES: tuple[Case, ...] = (
    ("cuda.tensor_gemm", "a100", "gemm m=40 n=36 k=256 dtype=fp16 trans_b=yes bias=yes activation=relu",
     {"split_k": 2}),
    ("cuda.tensor_convolution", "a100", "conv2d c=8 h=6 w=7 k=16 r=3 s=3 pad=1 dtype=bf16 bias=yes layout=NHWC", {}),
    ("cuda.wgmma_gemm", "h100", "gemm m=64 n=64 k=64 dtype=fp16", {"load_a": "bulk"}))


class StandInCompiler:
    """Makes images that the stand-in takes, where NVRTC is not installed."""

    def __init__(self, one: Chosen) -> None:
        call = call_of(one.kernel, one.problem, one.device, one.configuration)
        needs = Resources(1, 0, 0, 0, 0, 0, 0)
        self.image = Image(b"\x7fELF", {step.entry: needs for step in call.steps})

    def compile(self, source: object) -> Image:
        return self.image


def environment(call: Call, dtype: str, folder: Path) -> dict[str, str]:
    """The environment of programs that run a call on the stand-in, which is compiled into the folder."""
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", str(HERE / "libcuda_on_shim.c"), "-Wl,-soname,libcuda.so.1",
                    "-ldl", "-o", str(folder / "libcuda.so.1")], check=True)
    library = shim.library(call.source, tuple(dict.fromkeys(step.entry for step in call.steps)))
    sizes = [len(argument.content) if isinstance(argument, ScalarArgument) else 8
             for argument in call.steps[0].arguments if not isinstance(argument, LocalArgument)]
    (folder / "pycuda").mkdir()
    (folder / "pycuda" / "__init__.py").write_text("")
    shutil.copy(HERE / "ctypes_pycuda.py", folder / "pycuda" / "driver.py")
    paths = [str(folder), *(path for path in sys.path if "site-packages" in path)]
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "SHIM": shim._runner()._name, "SHIM_KERNEL": library._name,
            "SHIM_CLUSTER": str(call.steps[0].cluster), "SHIM_BF16": str(int(dtype == "bf16")),
            "SHIM_ARGUMENTS": " ".join(map(str, sizes)), "PYTHONPATH": os.pathsep.join(paths)}


@needs_compiler
@pytest.mark.skipif(bool(shim.why_not_here()), reason=str(shim.why_not_here()))
@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_the_programs_are_right_on_the_stand_in(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, gpu, text, settings = case
    one = chosen(text, described_gpu("cuda", gpu), name, settings)
    monkeypatch.setattr(cuda, "CubinCompiler", lambda device: StandInCompiler(one))
    monkeypatch.setattr(cuda, "ptx_of", lambda source, device: b".version 9.0")
    write_folder(files_of([one]), tmp_path / "out")
    call = call_of(one.kernel, one.problem, one.device, one.configuration)
    assert len(call.steps) == (2 if name == "cuda.tensor_gemm" else 1)
    assert any(isinstance(argument, TensorMapArgument) for argument in call.steps[0].arguments) == (
        name == "cuda.wgmma_gemm")
    variables = environment(call, one.problem.dtype, tmp_path)
    for words in ([str(compiled(tmp_path / "out"))], [sys.executable, "run.py"]):
        done = subprocess.run(words, cwd=tmp_path / "out", env=variables, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("product on the shim: right, largest error ")
        assert done.stdout.endswith(", median of 20 runs 500.0 us, least 500.0 us\n")


@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_a_folder_has_the_images_of_its_kernel(gpu: str) -> None:
    try:
        version()
    except UnavailableError as error:
        pytest.skip(str(error))
    files = files_of([chosen("gemm m=40 n=36 k=20", described_gpu("cuda", gpu), "cuda.shared_gemm")])
    assert files["product.cubin"].startswith(b"\x7fELF")
    assert f".target sm_{'90a' if gpu == 'h100' else '80'}".encode() in files["product.ptx"]
    assert b'#define IMAGES "product.cubin", "product.ptx"' in files["product.c"]


def test_the_command_that_compiles_is_told_where_nvrtc_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: object) -> None:
        raise UnavailableError("NVRTC is not installed")

    monkeypatch.setattr(cuda, "CubinCompiler", missing)
    files = files_of([chosen("gemm m=40 n=36 k=20", described_gpu("cuda", "h100"), "cuda.shared_gemm")])
    text = files["README.md"].decode()
    assert "because here NVRTC is not installed" in text
    assert "nvcc -cubin -arch=sm_90a" in text
    assert "product.cubin" not in files
