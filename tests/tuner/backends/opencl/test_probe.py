"""The facts of an OpenCL device that are measured on it: what they follow from, and where they are kept."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize("damage", ["", "[1]", '{"key": 5}', '{"key": {"peak_gflops": "much"}}', "\x00"])
def test_a_damaged_cache_of_rates_is_measured_anew(tmp_path: Path, damage: str) -> None:
    rates, cache = Rates(256, 16, 2.0, 3.0), RateCache(tmp_path)
    (tmp_path / "opencl.json").write_text(damage)
    assert probe.measured_facts(None, None, "key", cache, lambda *_: rates) == rates
    assert probe.measured_facts(None, None, "key", cache, lambda *_: pytest.fail("it is in the cache")) == rates
    assert [path.name for path in tmp_path.iterdir()] == ["opencl.json"]
