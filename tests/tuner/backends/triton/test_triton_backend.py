"""The triton backend: its executable in Triton's interpreter, and what it says where there is no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.accelerators import described
from seqtune.tuner.backends.triton.backend import TritonBackend
from seqtune.tuner.backends.triton.discovery import unavailable, unlisted
from tests.support.paths import ROOT

pytest.importorskip("triton", reason="Triton is for Linux")


def test_kernels_are_right_in_the_interpreter_and_canaries_see_a_write_outside() -> None:
    program = ROOT / "tests" / "support" / "triton" / "interpreted_backend.py"
    done = subprocess.run([sys.executable, "-W", "ignore", str(program)], cwd=ROOT, timeout=120, check=False, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["experts"] < 0.02
    for answer in answers["gemm"]:
        assert answer["status"] == "correct", answer
        assert answer["poisoned"]
        assert answer["overrun"] == "x"
        assert answer["seconds"] > 0


@pytest.mark.skipif(unavailable() is None, reason="this machine has a GPU that PyTorch sees")
def test_without_a_gpu_the_reason_is_one_line() -> None:
    reason = unavailable()
    assert reason is not None
    assert "sees no GPU" in reason
    assert "\n" not in reason
    device = described("triton", "h200")
    assert device is not None
    with pytest.raises(DeviceError, match="no device 'triton:h200'; found PyTorch"):
        TritonBackend(device)


def test_a_gpu_that_the_table_lacks_has_the_limits_of_its_architecture() -> None:
    properties = SimpleNamespace(multi_processor_count=20, L2_cache_size=1 << 20, clock_rate=1_000_000)
    device = unlisted("NVIDIA RTX 1234 Ada", "sm_89", properties, "triton 9")
    assert device is not None
    assert (device.name, device.compute_units, device.l2_bytes) == ("triton:rtx-1234-ada", 20, 1 << 20)
    assert device.peak_gflops == 2 * 128 * 20
    assert device.names()["compute_capability"] == 89
    assert unlisted("A GPU", "sm_55", properties, "triton 9") is None
