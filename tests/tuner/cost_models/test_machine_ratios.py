"""Ratios of problem and device: they do not name a machine, know what is unknown, and their rates can be redrawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.problem import Problem
from seqtune.tuner.cost_models.machine_ratios import RATIOS, jittered, machine_ratios
from tests.support.devices import device_of

DEVICE = replace(device_of("llvm"), threads=2, vector_bits=512, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20,
                 peak_gflops=512.0, bandwidth_gbs=48.0)
PROBLEM = Problem.make("gemm", m=64, n=256, k=1024)


def test_ratios_compare_a_problem_with_a_machine() -> None:
    ratios = machine_ratios(PROBLEM, DEVICE)
    assert tuple(ratios) == RATIOS
    assert ratios["weights_in_l2"] == 256 * 1024 * 4 / (2 << 20), "two threads have two second-level caches"
    assert ratios["weights_in_l3"] == 256 * 1024 * 4 / (32 << 20), "and share the third"
    assert ratios["lane_rate"] == 8.0
    assert ratios["worker_bandwidth"] == 24.0
    flop, moved = 2 * 64 * 256 * 1024, 4 * (64 * 1024 + 256 * 1024 + 64 * 256)
    assert ratios["peak_microseconds"] == pytest.approx(flop / 512e3)
    assert ratios["intensity"] == pytest.approx(flop / moved / (512 / 48))


def test_what_is_not_known_has_no_ratio() -> None:
    bare = machine_ratios(PROBLEM, replace(DEVICE, l3_bytes=0, peak_gflops=0.0))
    unknown = {name for name, ratio in bare.items() if ratio is None}
    assert unknown == {"input_in_l3", "weights_in_l3", "output_in_l3", "intensity", "peak_microseconds", "lane_rate"}
    recorded = machine_ratios(Problem.make("recorded", kernel="k"), DEVICE)
    assert {name for name, ratio in recorded.items() if ratio is not None} == {"lane_rate", "worker_bandwidth"}


def test_jitter_moves_measured_rates_a_little_and_nothing_else() -> None:
    draw = np.random.default_rng(0)
    devices = [jittered(DEVICE, draw) for _ in range(200)]
    rates = np.array([device.peak_gflops for device in devices]) / DEVICE.peak_gflops
    assert 0.04 < np.log(rates).std() < 0.1
    assert {replace(device, peak_gflops=512.0, bandwidth_gbs=48.0) for device in devices} == {DEVICE}
    assert jittered(replace(DEVICE, peak_gflops=0.0), draw).peak_gflops == 0, "an unknown rate stays unknown"
