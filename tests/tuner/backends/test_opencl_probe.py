"""The facts of an OpenCL device that are measured on it: what they follow from, and where they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.tuner.backends import measured_rates
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


def test_a_result_that_other_programs_disturbed_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter([(256, 16), (512, 32), (128, 16), (512, 32), (256, 16)])
    monkeypatch.setattr(probe, "registers_of", lambda seconds: next(results))
    monkeypatch.setattr(probe, "build", lambda *_: None)
    monkeypatch.setattr(probe, "_seconds", lambda *_: 1.0)

    class Driver:
        class mem_flags:
            READ_WRITE = 1

        def __getattr__(self, name: str) -> object:
            return lambda *_: None

    assert probe._registers(Driver(), None, None) == (512, 32)


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
