"""Tests of the time of an empty kernel, on a stand-in for pycuda and the driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu import empty_kernel
from seqtune.errors import UnavailableError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.tuner.backends.cuda import compiler, discovery, driver
from tests.support.cuda.fake_pycuda import KERNEL_SECONDS, FakeCuda, FakeLibCuda


def test_an_empty_kernel_is_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        compiler.version()
    except UnavailableError as error:
        pytest.skip(str(error))
    cuda = FakeCuda({"empty": lambda cuda, arguments: None})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(driver, "load", lambda: cuda)
    monkeypatch.setattr(driver, "LibCuda", lambda: FakeLibCuda(cuda))
    monkeypatch.setattr(discovery, "measure", lambda device, number: {})
    discovery._discover.cache_clear()
    try:
        times = empty_kernel.measure(discovery.devices()[0])
    finally:
        discovery._discover.cache_clear()
    assert times == pytest.approx({"least_us": 1e6 * KERNEL_SECONDS, "median_us": 1e6 * KERNEL_SECONDS})


def test_without_a_gpu_the_reason_is_recorded() -> None:
    device = described("cuda", "h200")
    assert isinstance(device, Device)
    assert "llvm" in empty_kernel.times_of(replace(device, backend="llvm"))["left_out"]
    assert "h200" in empty_kernel.times_of(device)["left_out"]
