"""Accelerators: devices described by a table, present or not."""

from __future__ import annotations

import pytest

from seqtune.kernels.devices.accelerators import ACCELERATORS, ARCHITECTURES, described, described_names, slug
from seqtune.kernels.devices.device import Device


@pytest.mark.parametrize("name", ACCELERATORS)
def test_a_model_is_found_by_its_name_and_by_what_the_driver_calls_it(name: str) -> None:
    assert slug(name) == slug(ACCELERATORS[name].model) == name


@pytest.mark.parametrize("model", ["RTX_2080_Ti", "RTX_3090", "RTX_Titan", "RTX_3060_laptop", "A4000", "MI250X"])
def test_names_of_recorded_spaces_are_understood(model: str) -> None:
    assert slug(model) in ACCELERATORS


def test_a_described_device_states_its_limits_and_survives_json() -> None:
    device = described("cuda", "h200")
    assert device is not None
    assert Device.from_json(device.to_json()) == device
    assert device.names()["compute_capability"] == 90
    assert device.local_memory == 227 * 1024
    assert 60_000 < device.peak_gflops < 70_000  # 67 TFLOP/s at the highest clock, by the data sheet
    assert 0.9e6 < dict(device.extra)["tensor_gflops"] < 1.0e6  # type: ignore[operator]


def test_cuda_has_only_nvidias_models_and_unknown_ones_are_none() -> None:
    assert described("cuda", "mi300x") is None
    assert described("triton", "mi300x") is not None
    assert described("llvm", "h200") is None
    for model in ("h3000", "../h200", "h200;", "h2\u0660\u0660", "", "-h200"):
        assert described("cuda", model) is None
    assert set(described_names("cuda")) == {f"cuda:{name}" for name, entry in ACCELERATORS.items()
                                           if ARCHITECTURES[entry.architecture].name.startswith("sm_")}
