"""OpenCL devices: their facts, and the messages about missing parts."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.backends.opencl import discovery as opencl_facts
from seqtune.tuner.backends.opencl import pocl
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from tests.support.oddities import CPU, GPU
from tests.support.phones import ADRENO, MALI


def test_without_ld_the_reason_names_its_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = pocl.unavailable()
    assert reason is not None
    assert "apt install gcc libc6-dev" in reason
    try:
        platforms = opencl_facts.load().get_platforms()
    except Exception as error:  # pyopencl's own exception, where no platform is installed
        pytest.skip(str(error))
    if all(platform.name == pocl.NAME for platform in platforms):
        assert opencl.unavailable() == reason
        assert opencl.devices() == []


@pytest.mark.skipif(sys.platform == "win32", reason="the linker is a script")
@pytest.mark.parametrize(("code", "reason"), [(0, None), (1, "libgcc and libc, which `ld` does not find")])
def test_a_linker_without_its_libraries_is_found_before_pocl_aborts(
        code: int, reason: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ld").write_text(f"#!/bin/sh\necho 'cannot find -lgcc' >&2\nexit {code}\n")
    (tmp_path / "ld").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(pocl, "is_installed", lambda package: True)
    said = pocl.unavailable()
    assert said is None if reason is None else reason in (said or "")


@pytest.mark.device
def test_devices_have_facts_and_unique_names(backend: OpenCLBackend) -> None:
    present = opencl.devices()
    assert len({device.name for device in present}) == len(present)
    for device in present:
        assert device.name.startswith("opencl:")
        assert min(device.peak_gflops, device.bandwidth_gbs, device.max_work_group) > 0
        assert device.vector_bits in (128, 256, 512)
        assert Device.from_json(json.loads(json.dumps(device.to_json()))) == device
    assert present == opencl.devices()


@pytest.mark.device
def test_an_unknown_device_is_refused_with_those_that_are_here(backend: OpenCLBackend) -> None:
    with pytest.raises(DeviceError, match=backend.device.name):
        OpenCLBackend(replace(CPU, name="opencl:none"))


def test_a_device_that_fails_during_discovery_does_not_hide_the_others() -> None:
    class Error(Exception):
        pass

    def facts(cl: Any, name: str, platform: Any, handle: Any) -> Device:
        if handle.name == "broken":
            raise Error("clCreateContext failed: OUT_OF_HOST_MEMORY\nand more")
        return replace(GPU, name=name)

    handles = [types.SimpleNamespace(name=name, type=4) for name in ("broken", "fine")]
    platform = types.SimpleNamespace(name="a vendor's", get_devices=lambda: handles)
    cl = types.SimpleNamespace(Error=Error, device_type=types.SimpleNamespace(GPU=4), get_platforms=lambda: [platform])
    discovery = opencl_facts.discover(cl, facts)
    assert list(discovery.devices) == ["opencl:fine"]
    assert discovery.refused == ("broken: clCreateContext failed: OUT_OF_HOST_MEMORY",)


def test_on_a_gpu_of_a_phone_no_kernel_uses_local_memory_that_the_driver_emulates() -> None:
    mali, adreno = MALI.device, ADRENO.device
    assert (mali.local_memory, adreno.local_memory) == (0, 32 << 10)
    assert (mali.max_work_group, adreno.max_work_group) == (192, 1024)  # of kernels that use all registers
    assert (mali.vector_registers, adreno.vector_registers) == (16, 48)
    problem = Problem.make("conv2d", c=64, h=28, w=28, k=64, r=3, s=3, pad_h=1, pad_w=1)
    for name in ("opencl.direct", "opencl.implicit_gemm"):
        space = SearchSpace(kernel(name), problem, mali)
        assert len(space)
        for configuration in space.sample(np.random.default_rng(0), 50):
            assert not any(value for name, value in configuration.settings if name in ("local_a", "local_b"))
