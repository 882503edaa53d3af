"""Hopper's matrix product on the shim: right numbers in every schedule, and every planted mistake is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.errors import UnavailableError
from seqtune.kernels.cuda.source.warpgroup_tile import UNIT_REGISTERS
from seqtune.kernels.cuda.wgmma_gemm import IMPLEMENTATION, KERNEL, warpgroup_tile
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call import Call
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.cuda.compiler import OPTIONS, run_nvrtc, target
from seqtune.tuner.measuring.timing import prepare
from tests.support.cuda.shim import ShimError, run_on_shim, why_not_here
from tests.support.devices import described_gpu

on_shim = pytest.mark.skipif(why_not_here() is not None, reason=why_not_here() or "")
H200 = described_gpu("cuda", "h200")
SMALL = replace(H200, compute_units=2)  # so few multiprocessors that blocks take several tiles of a small problem
PROBLEM = Problem.make("gemm", m=136, n=40, k=264, dtype="fp16", trans_b="yes", bias="yes", activation="relu")
SETTINGS: dict[str, int | str] = {
    "block_m": 64, "block_n": 32, "block_k": 64, "consumers": 1, "stages": 2, "resident": 1, "cluster": 1,
    "schedule": "persistent", "group_m": 1, "split_k": 1}
PAIR: dict[str, int | str] = {"cluster": 2, "group_m": 4, "schedule": "tiles"}


def configured(problem: Problem, device: Device, settings: dict[str, int | str]) -> Configuration:
    """The configuration of exactly these settings; it must be valid."""
    configuration = Configuration.of(KERNEL.name, {**SETTINGS, **settings})
    assert SearchSpace(KERNEL, problem, device).why_not(configuration) is None
    return configuration


def outcome(problem: Problem, settings: dict[str, int | str], seed: int = 0, call: Call | None = None) -> str:
    """Run a configuration, or another call in its place; returns "right" or what is wrong."""
    operands, expected = prepare(problem)
    try:
        configuration = configured(problem, SMALL, settings)
        error = expected.error(run_on_shim(KERNEL, problem, SMALL, configuration, seed, operands, call))
    except ShimError as failure:
        return str(failure)
    return "right" if error <= expected.tolerance else "wrong numbers"


@on_shim
@pytest.mark.parametrize(("features", "settings"), [
    ({}, {}),
    ({"trans_b": "no", "n": 39, "dtype": "bf16"}, {"stages": 4, "block_n": 64}),
    ({"trans_a": "yes", "trans_b": "no", "k": 259}, PAIR),
    ({"trans_a": "yes", "n": 31, "dtype": "bf16"}, {"split_k": 2, "stages": 3}),
    ({"n": 168, "trans_b": "no"}, {**PAIR, "block_m": 128, "block_n": 96, "block_k": 32, "consumers": 2}),
])
def test_numbers_are_right(features: dict[str, int | str], settings: dict[str, int | str]) -> None:
    problem = Problem.make("gemm", **{**dict(PROBLEM), **features})
    assert outcome(problem, settings, seed=1) == "right"


NEVER_ENDS = "wait at an mbarrier"
MISTAKES: dict[str, tuple[str, str, str]] = {  # name -> a piece of the text, what stands in its place, the report
    "a descriptor of another swizzle": ("0x4000004000010000ull, at_b", "0x8000004000010000ull, at_b", "wrong numbers"),
    "rows half as far apart": ("0x4000004000010000ull, at_a", "0x4000002000010000ull, at_a", "wrong numbers"),
    "B read as if columns were adjacent": ("product<32, 0, 0>", "product<32, 0, 1>", "wrong numbers"),
    "the next depth in another row": ("from_a + 2,", "from_a + 8,", "wrong numbers|still reads"),
    "an empty ring that is waited for": ("empty + 8 * stage, phase ^ 1", "empty + 8 * stage, phase", NEVER_ENDS),
    "the phase before": ("full + 8 * stage, phase)", "full + 8 * stage, phase ^ 1)", "wrong numbers|still reads|wait"),
    "a phase that never changes": ("stage = 0; phase ^= 1;", "stage = 0;", "wrong numbers|still reads|wait|more"),
    "more bytes than are copied": ("barrier_expect(ready, 12288)", "barrier_expect(ready, 12304)", NEVER_ENDS),
    "a stage released while it is read": ("products_wait<1>", "products_wait<2>", "still reads|wrong numbers"),
    "sums stored before they are there": ("products_wait<0>()", "products_wait<1>()",
                                          "wrong numbers|ended before|still reads"),
    "fewer warps than release a stage": ("if (lane == 0) barrier_arrive", "if (threadIdx.x % 128 == 0) barrier_arrive",
                                         NEVER_ENDS),
    "barriers that the copy engine does not see": ("    barrier_publish();\n", "", "a fence is missing"),
    "rows beyond the end": ("if (line < m)", "if (true)", "out of bounds"),
}
PAIR_MISTAKES = {
    "a stage that the other block does not hear of": ("barrier_arrive_at(used, lane)", "barrier_arrive(used)",
                                                      "wrong numbers|still reads"),
    "half of B to the wrong half": ("copy_box_to_all(to_b + rank * 2048 + 0", "copy_box_to_all(to_b + 0",
                                    "wrong numbers|still reads"),
    "a block that leaves first": ("  cluster_sync();  // ", "  // ", "has ended"),
}


def planted(settings: dict[str, int | str], old: str, new: str) -> str:
    """The outcome with one piece of the text changed: the first of several orders of lanes that is not right."""
    call = IMPLEMENTATION.call(PROBLEM, SMALL, configured(PROBLEM, SMALL, settings))
    assert old in call.source.text
    changed = replace(call, source=replace(call.source, text=call.source.text.replace(old, new)))
    reports = (outcome(PROBLEM, settings, seed, changed) for seed in range(8))
    return next((report for report in reports if report != "right"), "right")


@on_shim
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: str) -> None:
    old, new, words = MISTAKES[mistake]
    report = planted({}, old, new)
    assert any(word in report for word in words.split("|")), report


@on_shim
@pytest.mark.parametrize("mistake", PAIR_MISTAKES)
def test_a_mistake_planted_in_a_cluster_is_found(mistake: str) -> None:
    old, new, words = PAIR_MISTAKES[mistake]
    report = planted(PAIR, old, new)
    assert any(word in report for word in words.split("|")), report


def test_registers_and_memory_of_every_configuration_fit_a_multiprocessor() -> None:
    problem, generator = Problem.make("gemm", m=4096, n=4096, k=4096, dtype="bf16"), np.random.default_rng(0)
    assert H200 is not None
    space = SearchSpace(KERNEL, problem, H200)
    assert 1000 < len(space) < 50_000
    assert space.default.settings == KERNEL.default
    for configuration in space.sample(generator, 200):
        tile = warpgroup_tile(problem, configuration)
        assert tile.shared * tile.resident <= 227 << 10
        if tile.registers is not None:
            fetcher, consumer = tile.registers
            assert 24 <= fetcher < consumer <= 256
            assert fetcher % 8 == consumer % 8 == 0
            assert 128 * tile.resident * (fetcher + tile.consumers * consumer) <= UNIT_REGISTERS


@pytest.mark.parametrize("settings", [{"block_m": 256, "block_n": 192}, {"cluster": 2, "block_k": 128, "stages": 2}])
def test_the_assembler_neither_spills_nor_runs_products_one_by_one(settings: dict[str, int | str]) -> None:
    problem = Problem.make("gemm", m=4096, n=4096, k=4096, dtype="bf16", bias="yes")
    assert H200 is not None
    space = SearchSpace(KERNEL, problem, H200)
    configuration = space.nearest({**dict(KERNEL.default), **settings})
    assert all(configuration[name] == value for name, value in settings.items())
    source = IMPLEMENTATION.call(problem, H200, configuration).source
    try:
        _, messages = run_nvrtc(source.text, (f"--gpu-architecture={target(H200)}", *OPTIONS, *source.options))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert "C75" not in messages  # C7508: setmaxnreg is ignored; C7510 and following: products wait for each other
    assert "warning" not in messages
    assert "0 bytes spill stores, 0 bytes spill loads" in messages
