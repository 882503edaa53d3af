"""Exported predictors compile strictly, answer as Python does, and survive any input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import Task
from seqtune.predictor.c_source.file import CFile, c_file
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.proposing import SMALL
from tests.support.learning.c_programs import (
    CPU,
    LARGEST_SOURCE,
    check_random_structs,
    mixed_checkpoint,
    needs_compiler,
    small_checkpoint,
)
from tests.support.learning.compiled_predictor import CompiledPredictor, compiled

OTHER = replace(CPU, name="llvm:avx2:1", threads=1, l2_bytes=1 << 20)

MEASURED = {"OPERATIONS": "2", "BACKEND": "0", "FEATURES": """
        if (problem.operation == SEQTUNE_CONV2D) {
            seqtune_conv2d *conv = &problem.of.conv2d;
            conv->n = 1 + (int64_t)(fuzz() % 3); conv->c = 1 + (int64_t)(fuzz() % 99);
            conv->k = 1 + (int64_t)(fuzz() % 99);
            conv->h = conv->w = 1 + (int64_t)(fuzz() % 60); conv->r = 1 + (int64_t)(fuzz() % 5); conv->s = conv->r;
            conv->pad_h = (int64_t)(fuzz() % 3); conv->pad_w = (int64_t)(fuzz() % 3);
            conv->layout = (int)(fuzz() % 4) - 1; conv->stride_w = 1 + (int64_t)(fuzz() % 2);
        } else {
            problem.of.gemm.m = (int64_t)(fuzz() % 300); problem.of.gemm.n = 1 + (int64_t)(fuzz() % 300);
            problem.of.gemm.k = 1 + (int64_t)(fuzz() % 300);
        }"""}


@pytest.fixture(scope="module")
def small() -> Checkpoint:
    return small_checkpoint(CPU)


@pytest.fixture(scope="module")
def written(small: Checkpoint) -> CFile:
    return c_file(small)


@pytest.fixture(scope="module")
def mixed() -> Checkpoint:
    problems = [*sample_problems("conv2d", 10, 1), *sample_problems("gemm", 10, 1)]
    return mixed_checkpoint([CPU, OTHER], problems)


@pytest.fixture(scope="module")
def mixed_file(mixed: Checkpoint) -> CFile:
    return c_file(mixed)


def queries(count: int) -> Iterator[tuple[Problem, Device]]:
    generator = np.random.default_rng(11)
    for problem in (*sample_problems("conv2d", count, 4), *sample_problems("gemm", count // 2, 4)):
        yield problem, replace(CPU, threads=int(generator.integers(1, 4)), peak_gflops=float(generator.integers(0, 99)))


def check_proposals(checkpoint: Checkpoint, predictor: CompiledPredictor,
                    asked: Iterable[tuple[Problem, Device]]) -> None:
    """Compare five proposals and their log-probabilities with those of a checkpoint."""
    for problem, device in asked:
        expected = checkpoint.propose([Task.of(problem, device)], 5)[0]
        assert predictor.propose(problem, device, 5) == [candidate.configuration for candidate in expected]
        logs = [candidate.log_probability for candidate in expected]
        assert predictor.log_probabilities[:len(logs)] == pytest.approx(logs, abs=1e-3)


@pytest.fixture(scope="module")
def mixed_predictor(mixed_file: CFile, tmp_path_factory: pytest.TempPathFactory) -> CompiledPredictor:
    return compiled(mixed_file, tmp_path_factory.mktemp("mixed"), "-O0")


@needs_compiler
def test_c_proposes_what_python_proposes(small: Checkpoint, written: CFile, tmp_path: Path) -> None:
    predictor = compiled(written, tmp_path, "-O0", "-DSEQTUNE_PORTABLE")
    check_proposals(small, predictor, queries(8))
    assert predictor.propose(Problem.make("gemm", m=8, n=8, k=8), replace(CPU, backend="cuda"), 5) == []


@needs_compiler
@pytest.mark.slow
def test_the_shipped_checkpoint_in_c_proposes_what_its_transformer_proposes(tmp_path: Path) -> None:
    written = c_file(Checkpoint.load("default"))
    assert len(written.source) < LARGEST_SOURCE
    assert "forests of boosted trees" in str(written.report["answers"])
    check_proposals(written.checkpoint, compiled(written, tmp_path, "-O0"), queries(12))


@needs_compiler
@pytest.mark.parametrize("portable", [False, True])
def test_trees_judge_and_processes_in_c_say_what_they_say_in_python(
        mixed_file: CFile, mixed_predictor: CompiledPredictor, tmp_path: Path, portable: bool) -> None:
    assert "its judge, 2 of 2 forests of boosted trees and Gaussian processes" in str(mixed_file.report["answers"])
    predictor = compiled(mixed_file, tmp_path, "-O0", "-DSEQTUNE_PORTABLE") if portable else mixed_predictor
    asked = [(problem, replace(device, threads=known.threads, l2_bytes=known.l2_bytes, name=known.name))
             for problem, device in queries(6 if portable else 12) for known in (CPU, OTHER)]
    check_proposals(mixed_file.checkpoint, predictor, asked)


@needs_compiler
def test_experts_order_all_configurations_of_small_spaces_in_c_too(
        mixed: Checkpoint, mixed_predictor: CompiledPredictor) -> None:
    asked = [(problem, replace(CPU, threads=threads)) for problem in (
        *(Problem.make("gemm", m=m, n=n, k=k) for m, n, k in ((1, 1, 1), (2, 3, 4), (16, 8, 16), (33, 7, 5))),
        *sample_problems("gemm", 30, 9), *sample_problems("conv2d", 40, 4)) for threads in (1, 2)]
    few = [(problem, device) for problem, device in asked if len(Task.of(problem, device)) < 2 * SMALL]
    assert {1, 124, 134} <= {len(Task.of(problem, device)) for problem, device in few}  # SMALL lies between the last
    assert any(len(Task.of(problem, device).spaces) > 1 for problem, device in few)
    check_proposals(mixed, mixed_predictor, few)


@needs_compiler
def test_forests_that_are_left_out_for_their_size_do_not_count(mixed: Checkpoint, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.predictor.c_source.trees.MOST_NODES", 10)
    written = c_file(mixed)
    assert "1 of 2 forests of boosted trees" in str(written.report["answers"])
    check_proposals(written.checkpoint, compiled(written, tmp_path, "-O0"), queries(4))


@needs_compiler
def test_random_structs_do_no_harm(mixed_file: CFile, tmp_path: Path) -> None:
    check_random_structs(mixed_file, MEASURED, tmp_path)


def test_checkpoints_that_c_cannot_hold_are_refused(small: Checkpoint) -> None:
    with pytest.raises(MisuseError, match="heads of 8"):
        c_file(replace(small, size=replace(small.size, heads=4)))
    with pytest.raises(MisuseError, match="knows no kernel of cuda"):
        c_file(small, ["cuda"])
