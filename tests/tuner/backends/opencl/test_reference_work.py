"""The reference work of OpenCL devices that are CPUs: its length, and what a slow CPU looks like to it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from seqtune.kernels.devices.device import Device
from seqtune.tuner.backends.backend import LaunchError
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.backends.opencl.probe import ITEMS, LAUNCHES, LEAST, MOST, PASS_FLOPS, OpenCLReferenceWork
from seqtune.tuner.measuring.pace import Pace

DEVICE = Device("opencl:cpu", "opencl", "a", "opencl-c-1.2", threads=4, compute_units=4, peak_gflops=100.0)
LAUNCH = 30e-6  # seconds


class Driver:
    """Stands for pyopencl, its queue and its kernel. A launch takes LAUNCH and the work's time, on its own clock."""

    class Error(Exception):
        pass

    mem_flags, CompilerWarning = SimpleNamespace(READ_WRITE=1), UserWarning

    def __init__(self, launch: float = LAUNCH, slower: float = 1.0) -> None:
        self.now, self.launch, self.slower, self.fails = 0.0, launch, slower, False

    def Program(self, context: object, text: str) -> Any:
        return SimpleNamespace(build=lambda options: text)

    def Buffer(self, *_: object) -> object:
        return object()

    def enqueue_fill_buffer(self, *_: object) -> None:
        pass

    def Kernel(self, program: object, entry: str) -> Driver:
        assert entry == "peak"
        return self

    def __call__(self, queue: object, items: tuple[int], group: tuple[int], sums: object, passes: Any) -> None:
        assert (items, group) == ((ITEMS * DEVICE.compute_units,), (1,))
        if self.fails:
            raise self.Error("out of resources")
        work = int(passes) * items[0] * PASS_FLOPS / (DEVICE.peak_gflops * 1e9)
        self.now += self.slower * (self.launch + work)

    def finish(self) -> None:
        pass

    def work(self) -> OpenCLReferenceWork:
        return OpenCLReferenceWork(self, None, self, DEVICE, lambda: self.now)


@pytest.mark.parametrize(("launch", "work"), [(0.0, LEAST), (LAUNCH, LEAST), (2 * LEAST / LAUNCHES, 2 * LEAST),
                                              (MOST, MOST)])
def test_the_work_takes_long_beside_its_launch_and_as_long_as_expected(launch: float, work: float) -> None:
    reference = Driver(launch).work()
    assert reference.expected == pytest.approx(launch + work, rel=0.05)
    assert reference.seconds() == pytest.approx(reference.expected, rel=0.05)


def test_a_cpu_at_half_its_rate_is_noticed_even_if_it_was_slow_from_the_beginning() -> None:
    driver = Driver(slower=2.0)
    work = driver.work()
    pace = Pace(work)
    assert pace.is_slow()
    driver.slower = 1.0
    assert not pace.is_slow()
    driver.slower = 2.0
    assert pace.is_slow()


def test_a_launch_that_the_driver_refuses_is_a_launch_error() -> None:
    driver = Driver()
    work = driver.work()
    driver.fails = True
    with pytest.raises(LaunchError, match="out of resources"):
        work.seconds()


@pytest.mark.parametrize("device", [replace(DEVICE, threads=0), replace(DEVICE, peak_gflops=0.0)])
def test_a_gpu_and_a_device_of_unknown_rate_have_no_reference_work(device: Device) -> None:
    backend = OpenCLBackend.__new__(OpenCLBackend)
    backend.device = device
    assert backend.reference_work is None
