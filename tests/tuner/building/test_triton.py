"""Folders of Triton kernels: one module that runs without this package."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seqtune.errors import KernelError
from seqtune.tuner.building.chosen import files_of, write_folder
from tests.support.built_folders import chosen
from tests.support.devices import described_gpu

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.parametrize(("text", "gpu"), [
    ("gemm m=17 n=33 k=40 dtype=fp16 trans_a=yes bias=yes activation=relu", "a100"),
    pytest.param("gemm m=16 n=32 k=128 dtype=fp32", "h100", marks=pytest.mark.anywhere),
    ("gemm m=16 n=32 k=128 dtype=bf16", "mi300x")])
def test_the_module_is_right_in_the_interpreter(text: str, gpu: str, tmp_path: Path) -> None:
    kernel = chosen(text, described_gpu("triton", gpu), "triton.gemm",
                    {"SPLIT_K": 2, "BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32})
    write_folder(files_of([kernel]), tmp_path / "out")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(
        path for path in sys.path if "site-packages" in path)}
    done = subprocess.run([sys.executable, "run.py"], cwd=tmp_path / "out", env=environment,
                          capture_output=True, text=True, check=False)
    if "bf16" in text:
        assert (done.returncode, done.stderr) == (
            2, "LookupError: Triton's interpreter does not compute with bf16\n")
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("product on Triton's interpreter: right, largest error ")


def test_a_kernel_without_a_text_is_refused() -> None:
    experts = chosen("fused_moe tokens=4 experts=4 top_k=2 hidden=64 intermediate=64", described_gpu("triton", "h100"))
    with pytest.raises(KernelError, match=r"triton\.fused_moe has no implementation to run"):
        files_of([experts])
