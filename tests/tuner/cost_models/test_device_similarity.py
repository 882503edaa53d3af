"""Similarity: devices of one architecture count whole, those of another maker little."""

from __future__ import annotations

from seqtune.kernels.devices.device import Device
from seqtune.tuner.cost_models.transfer import DeviceKind, similarity
from tests.support.devices import described_gpu


def recorded(name: str, vendor: str, model: str = "") -> DeviceKind:
    return DeviceKind.of(Device(f"recorded:{name}", "recorded", vendor, "none", model=model))


def test_a_recorded_device_is_known_by_its_model_or_its_name() -> None:
    assert recorded("mine", "nvidia", "NVIDIA RTX A6000") == DeviceKind("nvidia", "sm_86", 32)
    assert recorded("MI250X", "amd", "AMD Instinct MI250X (blank in source)") == DeviceKind("amd", "gfx90a", 64)
    assert recorded("RTX_2080_Ti", "nvidia") == DeviceKind.of(described_gpu("cuda", "rtx-2080-ti"))
    assert recorded("abacus", "acme", "The Fast One") == DeviceKind("acme", "acme", 0)


def test_the_more_two_devices_differ_the_less_one_counts_for_the_other() -> None:
    builds = [recorded(name, "") for name in ("A6000", "A4000", "A100", "W6600", "MI250X")]
    weights = [similarity(build, builds[0]) for build in builds]
    assert weights[0] == weights[1] == 1
    assert weights == sorted(weights, reverse=True)
    assert weights[1] > weights[2] > 5 * weights[3] > 5 * weights[4] > 0
