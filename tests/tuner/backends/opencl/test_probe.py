"""The facts of an OpenCL device that are measured on it: what they follow from, and where they are kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqtune.tuner.backends.measured_rates import RateCache
from seqtune.tuner.backends.opencl import probe
from seqtune.tuner.backends.opencl.probe import Rates


@pytest.mark.parametrize(("bits", "registers"), [(512, 32), (256, 32), (256, 16), (128, 32), (128, 16)])
@pytest.mark.parametrize("noise", [0.85, 1.0, 1.15])
def test_registers_follow_from_rates_by_width_and_from_shifts_of_signed_lanes(
        bits: int, registers: int, noise: float) -> None:
    seconds = {f"fma{lanes}": max(1.0, 32 * lanes / bits) for lanes in probe.LANES}
    seconds |= {"shift_unsigned": 1.0, "shift_signed": 1.0 if registers == 32 else 2.0}
    disturbed = {name: value * (noise if name in ("fma8", "shift_signed") else 1.0) for name, value in seconds.items()}
    assert probe.registers_of(disturbed) == (bits, registers)


class Driver:
    """Stands for pyopencl, and for one of its devices with one compute unit. Kernels take time on its own clock.

    In the first three repetitions other programs run: all kernels take three times as long, wide ones ten times.
    """

    mem_flags, device_type = SimpleNamespace(READ_WRITE=1), SimpleNamespace(CPU=2)
    CompilerWarning, Error = UserWarning, RuntimeError
    max_compute_units, max_mem_alloc_size = 1, 1 << 30
    SECONDS = {"peak": 1e-3, "sweep": 5e-4, "fma4": 1e-3, "fma8": 1e-3, "fma16": 2e-3, "shift_signed": 2e-3,  # noqa: RUF012
               "shift_unsigned": 1e-3}

    def __init__(self, cpu: bool) -> None:
        self.type = 2 if cpu else 4
        self.now, self.calls = 0.0, dict[str, int]()

    def Program(self, context: object, text: str) -> Any:
        return SimpleNamespace(build=lambda options: text)

    def Kernel(self, program: object, entry: str) -> Any:
        return lambda *arguments: self.launch(entry)

    def launch(self, entry: str) -> None:
        repetition = self.calls.get(entry, 0) // probe.SAMPLES
        self.calls[entry] = self.calls.get(entry, 0) + 1
        self.now += self.SECONDS[entry] * (1.0 if repetition >= 3 else 10.0 if entry == "fma8" else 3.0)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def Context(self, handles: object) -> None: ...

    def CommandQueue(self, context: object) -> Any:
        return SimpleNamespace(finish=lambda: None)

    def Buffer(self, *arguments: object) -> None: ...

    def enqueue_fill_buffer(self, *arguments: object) -> None: ...


@pytest.mark.parametrize("cpu", [True, False])
def test_the_least_times_of_several_repetitions_make_the_facts(cpu: bool) -> None:
    driver = Driver(cpu)
    rates = probe.measure(driver, driver, lambda: driver.now, driver.sleep)
    assert (rates.vector_bits, rates.vector_registers) == ((256, 16) if cpu else (0, 0))
    assert rates.peak_gflops > 0
    assert driver.now < probe.REPETITION_SECONDS
    assert set(driver.calls.values()) == {probe.REPETITIONS * probe.SAMPLES}, "the two best repetitions agree"


@pytest.mark.parametrize("damage", ["", "[1]", '{"key": 5}', '{"key": {"peak_gflops": "much"}}', "\x00"])
def test_a_damaged_cache_of_rates_is_measured_anew(tmp_path: Path, damage: str) -> None:
    rates, cache = Rates(256, 16, 2.0, 3.0), RateCache(tmp_path)
    (tmp_path / "opencl.json").write_text(damage)
    assert probe.measured_facts(None, None, "key", cache, lambda *_: rates) == rates
    assert probe.measured_facts(None, None, "key", cache, lambda *_: pytest.fail("it is in the cache")) == rates
    assert [path.name for path in tmp_path.iterdir()] == ["opencl.json"]
