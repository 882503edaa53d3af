"""The analytic model: monotonicity, limits of occupancy, waves, and the names that a kernel must declare."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from seqtune.errors import KernelError
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, Task
from seqtune.tuner.cost_models.analytic import Terms, estimates, terms, terms_of
from seqtune.tuner.cost_models.gpu_rates import GpuRates
from seqtune.tuner.cost_models.product_tiles import ProductTiles, declared, describes_tiles, refined, tiles_of
from tests.support.devices import described_gpu, device_of

GPUS = ("rtx-2080-ti", "a100", "h200", "rtx-4090")


def rates(model: str = "h200") -> GpuRates:
    device = described_gpu("cuda", model)
    return GpuRates.of(device)


def tiles(**changes: float | Floats) -> ProductTiles:
    """Tiles of a product of 4096 x 4096 x 4096 in blocks of 128 x 128 x 32 on tensor cores, with changes."""
    base: dict[str, float | Floats] = {
        "gemm_m": 4096, "gemm_n": 4096, "gemm_k": 4096, "products": 1, "block_m": 128, "block_n": 128, "block_k": 32,
        "block_threads": 128, "stages": 3, "split_k": 1, "shared_bytes": 49152, "thread_registers_estimate": 200,
        "element_bytes": 2, "tensor": 1, "load_bytes": 16, "group_m": 8, **changes}
    base.setdefault("blocks", np.ceil(np.asarray(base["gemm_m"]) / base["block_m"])
                    * np.ceil(np.asarray(base["gemm_n"]) / base["block_n"]) * base["products"] * base["split_k"])
    columns = np.broadcast_arrays(*(np.asarray(base[name], float) for name in base), np.zeros(1))
    return ProductTiles(**refined(dict(zip(base, columns[:-1], strict=True))))


def estimate(model: str = "h200", resident: float = 2, **changes: float | Floats) -> Terms:
    cut = tiles(**changes)
    return terms(cut, np.full(len(cut.blocks), float(resident)), rates(model))


@pytest.mark.parametrize("model", GPUS)
@pytest.mark.parametrize(("name", "values"), [
    ("gemm_k", (64, 512, 4096, 4100, 32768)), ("gemm_m", (100, 128, 129, 4096, 8192)), ("products", (1, 2, 64)),
    ("fragment_transactions", (1, 4, 9, 40)), ("copy_transactions", (1, 4, 9, 40)), ("fragment_loads", (1, 2, 30))])
def test_more_work_is_never_faster(model: str, name: str, values: tuple[float, ...]) -> None:
    for core in (0, 1, 2):
        changed: dict[str, Floats] = {name: np.array(values, float)}
        seconds = estimate(model, 2, tensor=np.array(float(core)), **changed).seconds
        assert (seconds[1:] >= seconds[:-1] * (1 - 1e-9)).all()
        assert np.isfinite(seconds).all()
        assert (seconds > 0).all()


@pytest.mark.parametrize("model", GPUS)
def test_wider_elements_are_never_faster(model: str) -> None:
    assert (np.diff(estimate(model, element_bytes=np.array([1.0, 2.0, 4.0])).seconds) > 0).all()


@pytest.mark.parametrize("model", GPUS)
def test_more_stages_and_more_resident_blocks_never_hide_less(model: str) -> None:
    assert (np.diff(estimate(model, stages=np.array([1.0, 2.0, 3.0, 5.0])).seconds) <= 1e-12).all()
    cut = tiles(block_m=np.full(4, 64.0))
    seconds = terms(cut, np.array([1.0, 2.0, 3.0, 8.0]), rates(model)).seconds
    assert seconds[0] >= seconds[1] >= seconds[3] * 0.98


def test_a_block_that_does_not_fit_takes_for_ever() -> None:
    assert np.isinf(estimate(resident=0).seconds).all()


def test_no_estimate_beats_the_peaks_of_the_data_sheet() -> None:
    for model in GPUS:
        device = described_gpu("cuda", model)
        for core, peak in ((0, device.peak_gflops), (1, dict(device.extra)["tensor_gflops"])):
            part = estimate(model, tensor=core)
            assert part.seconds[0] > 2 * 4096**3 / float(peak) / 1e9
            assert part.seconds[0] > part.memory[0]


def test_the_wave_after_a_full_one_costs_a_part_of_a_wave() -> None:
    units = rates().units
    full, spilled = (estimate(gemm_m=128.0 * units * waves, gemm_n=128.0, resident=1, block_threads=256)
                     for waves in (1, 1 + 1 / units))
    assert full.balance[0] == 1
    assert full.waves[0] == 1
    assert spilled.balance[0] == pytest.approx((1 + 1 / units) / 2)
    assert spilled.seconds[0] > 1.2 * full.seconds[0]


def test_a_kernel_without_the_names_has_no_estimate() -> None:
    problem, device = Problem.make("gemm", m=64, n=64, k=64), device_of("llvm")
    task = Task.of(problem, device)
    assert np.isnan(estimates(task)).all()
    assert not describes_tiles(task.kernels[0])
    with pytest.raises(KernelError, match="does not describe its tiles"):
        tiles_of(task.spaces[0])


@pytest.mark.parametrize(("name", "dtype"), [("triton:mi300x", "bf16"), ("cuda:a100", "fp32"), ("cuda:h100", "bf16")])
def test_every_row_is_estimated_and_rows_that_are_alike_once(name: str, dtype: str) -> None:
    backend, _, model = name.partition(":")
    task = Task.of(Problem.make("gemm", m=96, n=640, k=512, dtype=dtype), described_gpu(backend, model))
    seconds = estimates(task)
    assert np.isnan(seconds).sum() == 0
    for space, part in task.parts():
        assert np.array_equal(terms_of(space).seconds, seconds[part])
        names = declared(space.kernel)
        rows, alike = space.distinct(names)
        assert (rows[alike] <= np.arange(len(space))).all()
        for column in space.derived_columns(names).values():
            assert np.array_equal(column[rows][alike], column)
        if backend == "triton":
            assert len(rows) < len(space) / 2, "some parameters change no tile"


def test_persistent_blocks_wait_for_the_one_with_most_tiles_and_equal_shares_do_not() -> None:
    persistent = estimate(blocks=300.0, block_tiles=1024 / 300)
    equal = estimate(blocks=300.0, block_tiles=1024 / 300, partial_tiles=1e-9)
    assert equal.arithmetic[0] < persistent.arithmetic[0] < 1.2 * equal.arithmetic[0]
    assert tiles(blocks=300.0).block_tiles[0] == pytest.approx(1024 / 300)
    assert tiles(blocks=1000.0).block_tiles[0] == 1


@pytest.mark.parametrize("problem", [
    Problem.make("gemm", m=512, n=768, k=1024), Problem.make("gemm", m=512, n=768, k=1024, dtype="fp16"),
    Problem.make("conv2d", c=64, h=28, w=28, k=96, r=3, s=3, pad_h=1, pad_w=1)])
@pytest.mark.parametrize("backend", ["cuda", "triton"])
def test_every_family_of_a_gpu_has_finite_terms(backend: str, problem: Problem) -> None:
    device = described_gpu(backend, "a100")
    for kernel in kernels_for(problem, device):
        space = SearchSpace(kernel, problem, device)
        known = terms_of(space.at(np.random.default_rng(0).permutation(len(space))[:300]))
        for field in fields(Terms):
            values = getattr(known, field.name)
            assert (values >= 0).all(), (kernel.name, field.name)
            assert np.isfinite(values).all(), (kernel.name, field.name)
