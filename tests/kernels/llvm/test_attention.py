"""The families of attention against the definition: on every instruction set, all over their spaces, on slices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.attention_views import AttentionViews
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.measuring.reference import make_operands, reference
from tests.support.exactness import answer, check, launch
from tests.support.llvm import DEVICES, needs_llvm
from tests.support.oddities import odd_problems

pytestmark = needs_llvm

# Every instruction set on all cores, the first also on one.
BY_NAME = {device.name: device for device in DEVICES if device.threads == DEVICES[0].threads or device in DEVICES[:2]}
FAMILIES = ("llvm.attention", "llvm.attention_decode")


@pytest.mark.parametrize("name", FAMILIES)
@given(seed=st.integers(0, 10_000), device=st.sampled_from(list(BY_NAME) or ["none"]))
@settings(max_examples=15, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_odd_attention_is_right_all_over_the_space(
        backends: dict[str, LLVMBackend], name: str, seed: int, device: str) -> None:
    family = kernel(name)
    (problem,) = odd_problems(family, BY_NAME[device], 1, seed)
    space = SearchSpace(family, problem, BY_NAME[device])
    assume(len(space) > 0)
    check(backends[device], family, problem, [space.default, *space.sample(np.random.default_rng(seed), 1)])


def test_every_problem_of_a_network_has_a_kernel_and_a_space_worth_searching() -> None:
    for problem in sample_problems("attention", 40, seed=0):
        for device in DEVICES:
            spaces = [SearchSpace(family, problem, device) for family in kernels_for(problem, device)]
            assert spaces, problem.brief()
            assert all(4 <= len(space) <= 6000 for space in spaces), problem.brief()


@pytest.mark.parametrize("features", [
    "q_len=1 kv_len=13 head_dim=10", "q_len=2 kv_len=9 head_dim=6 value_dim=8",
    "q_len=9 kv_len=3 head_dim=16 value_dim=2"])
def test_few_queries_of_heads_of_2_numbers_more_than_a_multiple_of_4_have_a_kernel(
        backends: dict[str, LLVMBackend], features: str) -> None:
    problem = parse_problem(f"attention heads=2 {features}")
    family = kernel("llvm.attention_decode")
    for backend in backends.values():
        space = SearchSpace(family, problem, backend.device)
        check(backend, family, problem, [space.default])


@pytest.mark.parametrize("name", FAMILIES)
class TestSpecialNumbers:
    @staticmethod
    def solved(backend: LLVMBackend, name: str, **features: int | str) -> tuple[Problem, Configuration]:
        problem = Problem.make("attention", **{"heads": 1, "q_len": 16, "kv_len": 40, "head_dim": 16,
                                               "value_dim": 16, **features})
        return problem, SearchSpace(kernel(name), problem, backend.device).default

    def test_queries_that_see_no_key_give_zero_and_the_least_number_hides_nothing(
            self, backends: dict[str, LLVMBackend], name: str) -> None:
        backend = next(iter(backends.values()))
        problem, configuration = self.solved(backend, name, mask="scores")
        operands = make_operands(problem)
        operands["mask"][0, 3] = -np.inf
        operands["mask"][0, 5] = np.finfo(np.float32).min  # Hugging Face's mask: all scores are then equal
        operands["mask"][0, 7, 1:] = -np.inf
        y = launch(backend, kernel(configuration.kernel), problem, configuration, operands)[0, 0]
        assert (y[3] == 0).all()
        assert np.allclose(y[5], operands["v"][0, 0].mean(axis=0), atol=1e-5)
        assert np.allclose(y[7], operands["v"][0, 0, 0], atol=1e-6)

    def test_a_nan_stays_in_its_row_and_large_scores_do_not_overflow(
            self, backends: dict[str, LLVMBackend], name: str) -> None:
        backend = next(iter(backends.values()))
        problem, configuration = self.solved(backend, name)
        operands = make_operands(problem)
        operands["q"][0, 0, 2, 0] = np.nan
        operands["q"][0, 0, 4] *= np.float32(1e30)
        operands["q"][0, 0, 6] *= np.float32(1e-40)
        expected = reference(problem, operands)[0, 0]
        y = launch(backend, kernel(configuration.kernel), problem, configuration, operands)[0, 0]
        assert np.isnan(y[2]).all()
        others = [row for row in range(16) if row != 2]
        assert np.abs(y[others] - expected[others]).max() < 1e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_slices_of_one_buffer_are_read_and_written_in_place(backends: dict[str, LLVMBackend], name: str) -> None:
    """q, k and v are thirds of the rows of one buffer, y a half of wider rows, and all heads share a mask."""
    backend = next(iter(backends.values()))
    n, heads, length, dim = 2, 3, 20, 16
    width = heads * dim
    problem = Problem.make("attention", n=n, heads=heads, q_len=length, kv_len=length, head_dim=dim,
                           value_dim=dim, mask="scores", layout="tokens")
    whole = np.random.default_rng(0).standard_normal((n, length, 3 * width), np.float32)
    mask = np.random.default_rng(1).standard_normal((n, length, length), np.float32)
    steps = (length * 3 * width, dim, 3 * width)
    views = AttentionViews(steps, steps, steps, (length * 2 * width, dim, 2 * width), (length * length, 0, length), 1.0)
    thirds = [whole[:, :, third * width:(third + 1) * width].reshape(n, length, heads, dim) for third in range(3)]
    operands: dict[str, Any] = dict(zip("qkv", thirds, strict=True))
    operands["q"] = operands["q"] * np.float32(np.sqrt(dim))  # the scale is 1
    for copy in (0, 1):
        space = SearchSpace(kernel(name), problem, backend.device)
        configuration = next(c for c in space.sample(np.random.default_rng(0), len(space))
                             if dict(c.settings).get("copy", copy) == copy)
        implementation: Any = llvm_implementation(kernel(name))
        y = np.full((n, length, 2 * width), np.nan, np.float32)
        _launch(backend, implementation.source(problem, backend.device, configuration, views),
                implementation.launch(problem, backend.device, configuration, views),
                [whole.ctypes.data, whole.ctypes.data + 4 * width, whole.ctypes.data + 8 * width,
                 y.ctypes.data + 4 * width], mask.ctypes.data)
        assert np.isnan(y[:, :, :width]).all()
        for image in range(n):
            alone = Problem.make("attention", **{**dict(problem), "n": 1})
            expected = reference(alone, {**{key: value[image:image + 1] for key, value in operands.items()},
                                         "mask": np.broadcast_to(mask[image], (heads, length, length))})
            assert np.abs(y[image, :, width:].reshape(length, heads, dim) - expected[0]).max() < 1e-5


def _launch(backend: LLVMBackend, source: Any, launch: Any, buffers: list[int], mask: int) -> None:
    from seqtune.networks.program.bound_kernels import KernelBinder
    from seqtune.tuner.backends.llvm.compiler import Compiler

    binder = KernelBinder(backend.device, Compiler(backend.device.instruction_set), backend.threads)
    bound = binder.bind_source(source, replace(launch, arguments=(*launch.arguments[:-1], mask)))
    bound.job[:4] = buffers
    backend.threads.run(bound.address)


def test_what_they_do_not_solve_is_refused_with_the_reason() -> None:
    family = kernel("llvm.attention")
    for text, reason in (("q_len=2", "at least 4 queries"), ("q_len=16 kv_len=3", "at least 4 keys"),
                         ("q_len=16 dtype=bf16", "fp32")):
        assert reason in str(family.why_not(parse_problem(f"attention heads=2 head_dim=64 {text}"), DEVICES[0]))


def test_answers_do_not_depend_on_the_threads(backends: dict[str, LLVMBackend]) -> None:
    problem = parse_problem("attention heads=5 q_len=70 head_dim=16 causal=yes")
    operands = make_operands(problem)
    several = backends[DEVICES[0].name]
    one = next((backends[device.name] for device in BY_NAME.values() if device.threads == 1
                and device.instruction_set == several.device.instruction_set), several)
    configuration = SearchSpace(kernel("llvm.attention"), problem, several.device).default
    assert (answer(several, kernel("llvm.attention"), problem, configuration, operands)
            == answer(one, kernel("llvm.attention"), problem, configuration, operands)).all()
