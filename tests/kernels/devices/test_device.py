from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seqtune.errors import FormatError
from seqtune.kernels.devices.device import PROBED, Device

DEVICE = Device(
    "llvm:avx2:1",
    "llvm",
    "znver5",
    "avx2",
    "A processor",
    vector_bits=256,
    peak_gflops=80.5,
    extra=(("driver", "4.2"), ("banks", 3)),
)


def test_a_device_survives_json() -> None:
    assert Device.from_json(json.loads(json.dumps(DEVICE.to_json()))) == DEVICE
    assert Device.from_json({**DEVICE.to_json(), "peak_gflops": 80}).peak_gflops == 80.0


def test_facts_of_the_probe_are_unknown_in_older_files_and_kept_in_newer_ones() -> None:
    older = DEVICE.to_json()
    assert not set(PROBED) & set(older), "a version without the probe can read it"
    assert Device.from_json(older).l2_gbs == 0
    newer = replace(DEVICE, l2_gbs=400.5, wake_microseconds=0.9)
    assert Device.from_json(json.loads(json.dumps(newer.to_json()))) == newer


def test_constraints_can_name_a_capability_that_a_stored_device_does_not_mention() -> None:
    able = replace(DEVICE, extra=(("bf16_dots", 1),))
    assert (DEVICE.names()["bf16_dots"], able.names()["bf16_dots"]) == (0, 1)
    assert Device.from_json(json.loads(json.dumps(able.to_json()))) == able
    assert (able.key, able.fingerprint) == (DEVICE.key, DEVICE.fingerprint), "older records answer for the device"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wings": 2}, "no fact 'wings'"),
        ({"threads": "two"}, "threads='two'"),
        ({"threads": True}, "threads=True"),
        ({"peak_gflops": "fast"}, "peak_gflops"),
        ({"peak_gflops": True}, "peak_gflops"),
        ({"name": 3}, "name=3"),
        ({"extra": 3}, "extra"),
        ({"extra": {"a": [1]}}, "fact a="),
        ({"peak_gflops": 10**400}, "peak_gflops is a whole number of more than 64 bits"),
        ({"l2_gbs": -1.0}, "l2_gbs=-1.0 is not a rate"),
        ({"bandwidth_gbs": float("nan")}, "bandwidth_gbs=nan is not a rate"),
        ({"wake_microseconds": "soon"}, "wake_microseconds='soon' is not of type float"),
        ({"extra": {"vector_floats": 64}}, "extra device fact vector_floats would hide .*=8"),
    ],
)
def test_foreign_facts_of_a_wrong_kind_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Device.from_json({**DEVICE.to_json(), **change})


def test_a_fingerprint_tells_machines_of_one_key_apart_and_ignores_measured_rates() -> None:
    device = Device("llvm:avx2:2", "llvm", "haswell", "avx2", l1_bytes=1, l2_bytes=2, l3_bytes=3, peak_gflops=100.0)
    noisy, other = replace(device, peak_gflops=60.0, bandwidth_gbs=9.0), replace(device, l2_bytes=4)
    assert noisy.fingerprint == device.fingerprint
    assert other.key == device.key
    assert other.fingerprint != device.fingerprint
