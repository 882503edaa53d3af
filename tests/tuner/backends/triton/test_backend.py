"""The triton backend: its executable in Triton's interpreter, and what it says where there is no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.launches.call import CallStep
from seqtune.tuner.backends.backend import DeviceLost, LaunchError
from seqtune.tuner.backends.triton.backend import TritonBackend
from seqtune.tuner.backends.triton.calls import TritonCalls
from seqtune.tuner.backends.triton.discovery import unavailable, unlisted
from tests.support.devices import described_gpu
from tests.support.installation.optional import needs
from tests.support.paths import ROOT

pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")


@needs("torch")
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


@needs("torch")
def test_a_triton_that_cannot_be_imported_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "triton.py").write_text('raise ImportError("libtriton.so:\\nno such symbol")\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton")
    assert unavailable() == "PyTorch or Triton cannot be imported: libtriton.so: no such symbol"


@needs("torch")
@pytest.mark.skipif(unavailable() is None, reason="this machine has a GPU that PyTorch sees")
def test_without_a_gpu_the_reason_is_one_line() -> None:
    reason = unavailable()
    assert reason is not None
    assert "sees no GPU" in reason
    assert "\n" not in reason
    device = described_gpu("triton", "h200")
    with pytest.raises(DeviceError, match="no device 'triton:h200'; found PyTorch"):
        TritonBackend(device)


@needs("torch")
def test_an_error_after_which_the_gpu_does_not_answer_is_a_lost_device() -> None:
    answers: list[Exception] = []

    def synchronize(place: str) -> None:
        if answers:
            raise answers[0]

    def refused() -> None:
        raise ValueError("out of resource: shared memory")

    class Launcher:
        arg_names: ClassVar[list[str]] = []

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *values, **named: refused()

    driver = TritonCalls("cuda:0", flush=lambda: None, function_of=lambda module, entry: Launcher(),
                         torch=SimpleNamespace(cuda=SimpleNamespace(synchronize=synchronize)))
    launch = driver.launcher(("product", {}), CallStep("product", (), (1,), (1,)), {})
    with pytest.raises(LaunchError, match="out of resource"):
        launch()
    driver.finish()
    answers.append(RuntimeError("CUDA error: an illegal memory access was encountered"))
    for attempt in (launch, driver.finish):
        with pytest.raises(DeviceLost, match="illegal memory access"):
            attempt()


def test_a_gpu_that_the_table_lacks_has_the_limits_of_its_architecture() -> None:
    properties = SimpleNamespace(multi_processor_count=20, L2_cache_size=1 << 20, clock_rate=1_000_000)
    device = unlisted("NVIDIA RTX 1234 Ada", "sm_89", properties, "triton 9")
    assert device is not None
    assert (device.name, device.compute_units, device.l2_bytes) == ("triton:rtx-1234-ada", 20, 1 << 20)
    assert device.peak_gflops == 2 * 128 * 20
    assert device.names()["compute_capability"] == 89
    assert unlisted("A GPU", "sm_55", properties, "triton 9") is None
