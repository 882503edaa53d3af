"""OpenCL runtimes that pip installed: their libraries are found, and the ICD loader is told, without losing others."""

from __future__ import annotations

import os
import sys
import types
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.discovery import Discovery
from seqtune.tuner.backends.opencl import discovery, pocl, programs, vendors
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.measuring.timing import check, prepare
from tests.support.installation.optional import skip_without_device
from tests.support.oddities import CPU


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment with Intel's package, a system with two runtimes, and no settings; returns its folder."""
    packages = tmp_path / "lib" / "python3" / "site-packages"
    metadata = packages / "intel_opencl_rt-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: intel-opencl-rt\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("../../libintelocl.so,,\n../../../etc/OpenCL/vendors/intel-cpu.icd,,\n")
    system, own = tmp_path / "system", tmp_path / "etc" / "OpenCL" / "vendors"
    for folder in (system, own):
        folder.mkdir(parents=True)
    for path in (tmp_path / "lib" / "libintelocl.so", tmp_path / "libgpu.so"):
        path.touch()
    (system / "gpu.icd").write_text(f"{tmp_path}/libgpu.so\n")
    (system / "named.icd").write_text("libnamed.so.1\n")
    (system / "empty.icd").write_text("")
    (system / "again.icd").write_text(f"{tmp_path}/lib/libintelocl.so")
    (own / "intel-cpu.icd").write_text("/opt/of/the/machine/that/built/it/libintelocl.so\n")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("OPENCL_VENDOR_PATH", str(system))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(vendors.VARIABLE, "")
    monkeypatch.delenv(vendors.VARIABLE)
    return tmp_path


def test_the_loader_finds_the_installed_runtime_and_all_that_it_found_before(environment: Path) -> None:
    vendors.prepare()
    folder = Path(os.environ[vendors.VARIABLE])
    assert {path.name: path.read_text().strip() for path in folder.iterdir()} == {
        "intel-opencl-rt.icd": str(environment / "lib" / "libintelocl.so"), "gpu.icd": str(environment / "libgpu.so"),
        "named.icd": "libnamed.so.1"}
    assert folder.is_relative_to(environment / "cache")


def test_two_runtimes_on_one_cpu_are_two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = types.SimpleNamespace(name="AMD EPYC", type=2)
    platforms = [types.SimpleNamespace(name=name, get_devices=lambda: [handle])
                 for name in ("Intel(R) OpenCL", "A third", pocl.NAME)]
    cl = types.SimpleNamespace(Error=RuntimeError, device_type=types.SimpleNamespace(GPU=4),
                               get_platforms=lambda: platforms)
    monkeypatch.setattr(pocl, "unavailable", lambda: None)
    found = discovery.discover(cl, lambda cl, name, *_: replace(CPU, name=name))
    assert list(found.devices) == ["opencl:cpu", "opencl:intel-cpu", "opencl:amd-epyc"]


def test_a_device_whose_runtime_is_missing_is_refused_with_the_name_of_the_extra(
        monkeypatch: pytest.MonkeyPatch) -> None:
    here = types.SimpleNamespace(devices=lambda: [CPU], unavailable=lambda: None)
    monkeypatch.setitem(sys.modules, "opencl_with_pocl", here)
    with pytest.raises(DeviceError, match=r"pip install 'seqtune\[intel-opencl\]'"):
        Discovery({"opencl": "opencl_with_pocl"}).find("opencl:intel-cpu")


def test_remarks_of_the_compiler_do_not_become_a_warning() -> None:
    class Warned(UserWarning):
        pass

    class Program:
        def __init__(self, context: Any, text: str) -> None:
            self.text = text

        def build(self, options: list[str]) -> Program:
            warnings.warn("Non-empty compiler output encountered.", Warned, stacklevel=2)
            return self

    cl = types.SimpleNamespace(CompilerWarning=Warned, Error=RuntimeError, Program=Program)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert programs.build(cl, None, "text", []).text == "text"


@pytest.fixture(scope="module")
def intel() -> Device:
    """The device of Intel's runtime; tests that need it are skipped without the extra."""
    if not vendors.installed():
        pytest.skip("Intel's OpenCL runtime is not installed: pip install 'seqtune[intel-opencl]'")
    skip_without_device("opencl:0")
    return next(device for device in opencl.devices() if device.name == "opencl:intel-cpu")


@pytest.mark.device
@pytest.mark.parametrize("problem", [
    Problem.make("conv2d", n=1, c=20, h=9, w=10, k=34, r=3, s=3, pad_h=1, pad_w=1, bias="yes", activation="relu"),
    Problem.make("gemm", m=33, n=40, k=24, trans_b="yes"),
], ids=str)
def test_the_safe_defaults_are_right_on_intels_runtime(intel: Device, problem: Problem) -> None:
    backend = OpenCLBackend(intel)
    operands, expected = prepare(problem)
    for family in kernels_for(problem, intel):
        executable = backend.build(problem, family, SearchSpace(family, problem, intel).default)
        checked, _ = check(executable, operands, expected)
        executable.close()
        assert not checked.message
    backend.close()
