"""The facts of an OpenCL device that are measured on it: what they follow from, and where they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.tuner.backends import measured_rates, turns
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


@pytest.mark.parametrize("cpu", [True, False])
def test_the_least_times_of_several_turns_make_the_facts(monkeypatch: pytest.MonkeyPatch, cpu: bool) -> None:
    """In the first three of five turns other programs run: all kernels take three times as long, wide ones ten."""
    seconds = {"peak": 1.0, "sweep": 0.5, "fma4": 1.0, "fma8": 1.0, "fma16": 2.0, "shift_signed": 2.0,
               "shift_unsigned": 1.0}
    calls: dict[str, int] = {}

    def taken(prober: object, entry: str) -> float:
        turn = calls.get(entry, 0) // probe.SAMPLES
        calls[entry] = calls.get(entry, 0) + 1
        return seconds[entry] * (1.0 if turn >= 3 else 10.0 if entry == "fma8" else 3.0)

    monkeypatch.setattr(probe, "build", lambda *_: None)
    monkeypatch.setattr(probe._Prober, "_seconds", taken)
    monkeypatch.setattr(turns, "PAUSE", 0.0)
    rates = probe.measure(Driver(), Driver(cpu))
    assert (rates.vector_bits, rates.vector_registers) == ((256, 16) if cpu else (0, 0))
    assert rates.peak_gflops > 0
    assert set(calls.values()) == {probe.TURNS * probe.SAMPLES}, "the two best turns agree"


class Driver:
    """Stands for pyopencl, and for one of its devices with one compute unit."""

    class mem_flags:
        READ_WRITE = 1

    class device_type:
        CPU = 2

    class Error(Exception):
        pass

    max_compute_units, max_mem_alloc_size = 1, 1 << 30

    def __init__(self, cpu: bool = True) -> None:
        self.type = 2 if cpu else 4

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@pytest.mark.parametrize("damage", ["", "[1]", '{"key": 5}', '{"key": {"peak_gflops": "much"}}', "\x00"])
def test_a_damaged_cache_of_rates_is_measured_anew(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str) -> None:
    rates = Rates(256, 16, 2.0, 3.0)
    monkeypatch.setattr(measured_rates, "user_cache_dir", lambda _: str(tmp_path))
    monkeypatch.setattr(probe, "measure", lambda *_: rates)
    (tmp_path / "opencl.json").write_text(damage)
    assert probe.measured(None, None, "key") == rates
    monkeypatch.setattr(probe, "measure", lambda *_: pytest.fail("it is in the cache"))
    assert probe.measured(None, None, "key") == rates
    assert [path.name for path in tmp_path.iterdir()] == ["opencl.json"]
