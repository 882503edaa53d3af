"""Accelerators: devices described by a table, present or not."""

from __future__ import annotations

import pytest

from seqtune.errors import DeviceError, SeqtuneWarning
from seqtune.kernels.devices.accelerators import ACCELERATORS, ARCHITECTURES, chip_of, described, find, slug
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import occupancy
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.untrained import AnalyticPredictor
from seqtune.tuner.cost_models.gpu_rates import GpuRates, missing_fact
from tests.support.devices import described_gpu


@pytest.mark.parametrize("name", ACCELERATORS)
def test_a_model_is_found_by_every_name_and_its_facts_survive_json(name: str) -> None:
    entry = ACCELERATORS[name]
    for written in (name, f"triton:{name}", entry.model, entry.model.replace(" ", "_"), *entry.names):
        assert find(written) == slug(written.removeprefix("triton:")) == name
    device = described_gpu("triton", name)
    assert Device.from_json(device.to_json()) == device
    assert chip_of(device) == entry.chip
    assert all(value is not None for _, value in device.extra)


@pytest.mark.parametrize("written", [
    # recorded spaces, gemlite's tables, files of vLLM and SGLang, and MIOpen's and aiter's names
    "RTX_2080_Ti", "RTX_3090", "RTX_Titan", "RTX_3060_laptop", "A4000", "A6000", "MI250X", "W6600", "W7800",
    "NVIDIA A100", "NVIDIA A40", "NVIDIA L40", "NVIDIA H100", "AMD Instinct MI300X", "6000_ada", "4090",
    "NVIDIA_A800-SXM4-80GB", "NVIDIA_H20-3e", "NVIDIA_B300_SXM6_AC", "NVIDIA_GB300", "NVIDIA_RTX_5880_Ada_Generation",
    "NVIDIA_RTX_PRO_6000_Blackwell_Max-Q_Workstation_Edition", "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition",
    "AMD_Instinct_MI355_OAM", "gfx900_56", "gfx906_60", "gfx908_120", "gfx90a_104", "gfx942_304", "gfx942_80",
    "gfx950_256"])
def test_names_of_other_projects_are_understood(written: str) -> None:
    assert find(written) in ACCELERATORS


def test_a_fact_that_is_not_known_is_absent_and_named_where_it_is_needed() -> None:
    pascal, mi308x, mi50 = (described_gpu("triton", name) for name in ("gtx-1080-ti", "mi308x", "mi50"))
    assert (missing_fact(pascal), missing_fact(mi308x), missing_fact(mi50)) == (
        "tensor_gflops", "clock_mhz", "unit_blocks")
    with pytest.raises(DeviceError, match="the analytic model needs clock_mhz of triton:mi308x, which is not known"):
        GpuRates.of(mi308x)
    with pytest.raises(DeviceError, match="occupancy needs unit_blocks of triton:mi50, which is not known"):
        occupancy(mi50, 256, 64, 0)
    problem = Problem.make("scaled_gemm", m=64, n=512, k=512)
    with pytest.warns(SeqtuneWarning, match="no estimate for triton:mi308x: clock_mhz is not known; the default comes"):
        (candidates,) = AnalyticPredictor().propose([Task.of(problem, mi308x)], 3)
    assert len(candidates) == 3


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
    for name, entry in ACCELERATORS.items():
        nvidia = ARCHITECTURES[entry.architecture].name.startswith("sm_")
        assert (described("cuda", name) is not None) == nvidia
