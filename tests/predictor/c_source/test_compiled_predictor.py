"""Exported predictors compile strictly, answer as Python does, and survive any input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import CheckpointError, KernelError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import Task
from seqtune.predictor.c_source.file import CFile, c_file
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.proposing import SMALL
from tests.support.learning.c_programs import CPU, mixed_checkpoint, needs_compiler, run_program, small_checkpoint
from tests.support.learning.compiled_predictor import CompiledPredictor, compile_shared
from tests.support.learning.miopen_problems import draw, gpus

LARGEST_SOURCE = 10_000_000  # bytes
OTHER = replace(CPU, name="llvm:avx2:1", threads=1, l2_bytes=1 << 20)

# Problems and devices of random bytes, and with random features that are nearly valid.
FUZZ = """
#include <stdio.h>
static uint64_t fuzz_state = 88172645463325252u;
static uint64_t fuzz(void) {
    fuzz_state ^= fuzz_state << 13; fuzz_state ^= fuzz_state >> 7; fuzz_state ^= fuzz_state << 17;
    return fuzz_state;
}
static void fuzz_bytes(void *to, size_t size) {
    unsigned char *bytes = to; size_t i;
    for (i = 0; i < size; ++i) bytes[i] = (unsigned char)(fuzz() >> 20);
}
int main(void) {
    static const char *const words[] = {"llvm", "opencl", "miopen", "", "avx2", "gfx906", "a word that nobody knows"};
    int round, good = 0, refused = 0;
    for (round = 0; round < ROUNDS; ++round) {
        seqtune_problem problem; seqtune_device device; seqtune_configuration out[SEQTUNE_MOST];
        int found, i, count = 1 + (int)(fuzz() % SEQTUNE_MOST);
        if (seqtune_problem_init(&problem, (seqtune_operation)(fuzz() % 8 ? fuzz() % OPERATIONS : 9))) refused++;
        seqtune_device_init(&device);
        FEATURES
        if (fuzz() % 4 == 0) fuzz_bytes((char *)&problem.of + fuzz() % sizeof problem.of / 8 * 8, 8);
        device.threads = (int64_t)(fuzz() % 9); device.compute_units = (int64_t)(fuzz() % 9);
        device.vector_bits = (int64_t)(fuzz() % 6) * 128; device.vector_registers = (int64_t)(fuzz() % 65);
        device.l1_bytes = (int64_t)(fuzz() % 70000); device.l2_bytes = (int64_t)(fuzz() >> fuzz() % 60);
        device.peak_gflops = (double)(fuzz() % 1000); device.bandwidth_gbs = (double)(fuzz() % 100);
        if (fuzz() % 32 == 0) fuzz_bytes(&problem, sizeof problem);
        if (fuzz() % 32 == 0) fuzz_bytes(&device, sizeof device);
        device.backend = words[fuzz() % 7]; device.instruction_set = words[fuzz() % 7];
        device.architecture = fuzz() % 50 ? words[fuzz() % 7] : 0;
        if (fuzz() % 2) device.backend = words[BACKEND];
        if (fuzz() % 50 == 0) count = (int)(fuzz() % 100) - 50;
        found = seqtune_predict(&problem, &device, out, count);
        if ((found > 0 && found > count) || found == 0 || found < SEQTUNE_ERROR_TOO_LARGE) return 1;
        if (found < 0) refused++; else good++;
        for (i = 0; i < found; ++i) if (!out[i].kernel || out[i].count < 0) return 2;
    }
    if (seqtune_predict(0, 0, 0, 1) != SEQTUNE_ERROR_NULL) return 3;
    printf("%d %d\\n", good, refused);
    return 0;
}
"""
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
CHOSEN = {"OPERATIONS": "1", "BACKEND": "2", "FEATURES": """
        seqtune_convnd *conv = &problem.of.convnd;
        conv->n = 1 + (int64_t)(fuzz() % 40);
        conv->c = (int64_t)(8 << fuzz() % 6); conv->k = (int64_t)(8 << fuzz() % 6);
        if (fuzz() % 8) conv->h = conv->w = 1 + (int64_t)(fuzz() % 60);
        if (fuzz() % 4 == 0) conv->out_h = 1 + (int64_t)(fuzz() % 60);
        conv->r = 1 + (int64_t)(fuzz() % 3); conv->s = conv->r; conv->pad_h = conv->pad_w = conv->r / 2;
        conv->direction = (int)(fuzz() % 4) - 1; conv->dtype = (int)(fuzz() % 8 ? 0 : fuzz() % 5) - (fuzz() % 9 == 0);
        device.local_memory = 65536; device.l3_bytes = (int64_t)(fuzz() >> fuzz() % 60);
        device.generation = 9; device.legacy = device.dot2 = 1; device.matrix_units = 0; device.alloc_bytes = 1 << 30;
        device.scalar_registers = 102; device.group_waves = 16;
        device.wave_size = fuzz() % 8 ? 64 : SEQTUNE_UNKNOWN;"""}


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


@pytest.fixture(scope="module")
def chosen(label_checkpoint: Path) -> Checkpoint:
    return Checkpoint.load(label_checkpoint)


@pytest.fixture(scope="module")
def chosen_file(chosen: Checkpoint) -> CFile:
    return c_file(chosen)


def queries(count: int) -> Iterator[tuple[Problem, Device]]:
    generator = np.random.default_rng(11)
    for problem in (*sample_problems("conv2d", count, 4), *sample_problems("gemm", count // 2, 4)):
        yield problem, replace(CPU, threads=int(generator.integers(1, 4)), peak_gflops=float(generator.integers(0, 99)))


def convolutions(count: int) -> Iterator[tuple[Problem, Device]]:
    """Convolutions on GPUs, some of which the vocabulary does not know; features of some are unknown."""
    generator = np.random.default_rng(5)
    for _, problem in draw(count, generator).problems():
        features = {name: None if name in ("n", "h", "groups", "bias", "direction") and generator.random() < 0.1
                    else value for name, value in problem.features}
        device = gpus()[int(generator.integers(len(gpus())))]
        if generator.random() < 0.3:
            device = replace(device, architecture="gfx1201", peak_gflops=0.0, extra=tuple(
                fact for fact in device.extra if fact[0] != "scalar_registers"))
        yield Problem.make("convnd", **features), device


def check_labels(checkpoint: Checkpoint, predictor: CompiledPredictor, count: int) -> int:
    """Compare the answers of a checkpoint of labels without its trees; the result is the number of solved problems."""
    assert checkpoint.labels is not None
    alone = replace(checkpoint, labels=checkpoint.labels.without_trees())
    solved = 0
    for problem, device in convolutions(count):
        answers = predictor.propose(problem, device, 5)
        try:
            task = checkpoint.task(problem, device)
            checkpoint.check_kernels(task.kernels)  # where none of its solvers applies, the task has others
        except (KernelError, CheckpointError):
            assert answers == []
            continue
        expected = alone.propose([task], 5)[0]
        assert answers == [candidate.configuration for candidate in expected]
        logs = [candidate.log_probability for candidate in expected]
        assert predictor.log_probabilities[:len(logs)] == pytest.approx(logs, abs=1e-3)
        solved += 1
    return solved


def check_proposals(checkpoint: Checkpoint, predictor: CompiledPredictor,
                    asked: Iterable[tuple[Problem, Device]]) -> None:
    """Compare five proposals and their log-probabilities with those of a checkpoint."""
    for problem, device in asked:
        expected = checkpoint.propose([Task.of(problem, device)], 5)[0]
        assert predictor.propose(problem, device, 5) == [candidate.configuration for candidate in expected]
        logs = [candidate.log_probability for candidate in expected]
        assert predictor.log_probabilities[:len(logs)] == pytest.approx(logs, abs=1e-3)


def compiled(written: CFile, folder: Path, *options: str) -> CompiledPredictor:
    source = folder / "predictor.c"
    source.write_text(written.source)
    return CompiledPredictor(compile_shared(source, options), written)


@needs_compiler
@pytest.mark.parametrize("options", [("-O2",), ("-O0", "-DSEQTUNE_PORTABLE")])
def test_c_proposes_what_python_proposes(small: Checkpoint, written: CFile, tmp_path: Path,
                                         options: tuple[str, ...]) -> None:
    predictor = compiled(written, tmp_path, *options)
    check_proposals(small, predictor, queries(8))
    assert predictor.propose(Problem.make("gemm", m=8, n=8, k=8), replace(CPU, backend="cuda"), 5) == []


@needs_compiler
@pytest.mark.slow
def test_the_shipped_checkpoint_in_c_proposes_what_its_transformer_proposes(tmp_path: Path) -> None:
    checkpoint = Checkpoint.load("default")
    assert len(c_file(checkpoint).source) < LARGEST_SOURCE
    written = c_file(checkpoint, ["llvm"])
    assert "forests of boosted trees" in str(written.report["answers"])
    predictor = compiled(written, tmp_path, "-O0")
    check_proposals(written.checkpoint, predictor, queries(20))


@needs_compiler
@pytest.mark.parametrize("options", [("-O0",), ("-O0", "-DSEQTUNE_PORTABLE")])
def test_trees_judge_and_processes_in_c_say_what_they_say_in_python(mixed_file: CFile, tmp_path: Path,
                                                          options: tuple[str, ...]) -> None:
    assert "its judge, 2 of 2 forests of boosted trees and Gaussian processes" in str(mixed_file.report["answers"])
    predictor = compiled(mixed_file, tmp_path, *options)
    asked = [(problem, replace(device, threads=known.threads, l2_bytes=known.l2_bytes, name=known.name))
             for problem, device in queries(12) for known in (CPU, OTHER)]
    check_proposals(mixed_file.checkpoint, predictor, asked)


@needs_compiler
def test_experts_order_all_configurations_of_small_spaces_in_c_too(mixed: Checkpoint, mixed_file: CFile,
                                                                   tmp_path: Path) -> None:
    asked = [(problem, replace(CPU, threads=threads)) for problem in (
        *(Problem.make("gemm", m=m, n=n, k=k) for m, n, k in ((1, 1, 1), (2, 3, 4), (16, 8, 16), (33, 7, 5))),
        *sample_problems("gemm", 30, 9), *sample_problems("conv2d", 40, 4)) for threads in (1, 2)]
    few = [(problem, device) for problem, device in asked if len(Task.of(problem, device)) < 2 * SMALL]
    assert {1, 124, 134} <= {len(Task.of(problem, device)) for problem, device in few}  # SMALL lies between the last
    assert any(len(Task.of(problem, device).spaces) > 1 for problem, device in few)
    check_proposals(mixed, compiled(mixed_file, tmp_path, "-O0"), few)


@needs_compiler
def test_forests_that_are_left_out_for_their_size_do_not_count(mixed: Checkpoint, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.predictor.c_source.trees.MOST_NODES", 10)
    written = c_file(mixed)
    assert "1 of 2 forests of boosted trees" in str(written.report["answers"])
    check_proposals(written.checkpoint, compiled(written, tmp_path, "-O0"), queries(12))


@needs_compiler
@pytest.mark.parametrize("options", [("-O0",), ("-O0", "-DSEQTUNE_PORTABLE")])
def test_a_translator_of_labels_in_c_proposes_what_it_proposes_in_python(
        chosen: Checkpoint, chosen_file: CFile, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert "the translator; left out for their size: the boosted trees" in str(chosen_file.report["answers"])
    assert check_labels(chosen, compiled(chosen_file, tmp_path, *options), 60) > 10


@needs_compiler
@pytest.mark.slow
def test_the_shipped_labels_in_c_are_those_of_its_translator(tmp_path: Path) -> None:
    checkpoint = Checkpoint.load("miopen")
    written = c_file(checkpoint)
    assert len(written.source) < LARGEST_SOURCE
    assert check_labels(checkpoint, compiled(written, tmp_path, "-O0"), 60) > 10


@needs_compiler
def test_random_structs_do_no_harm(mixed_file: CFile, tmp_path: Path) -> None:
    check_random_structs(mixed_file, MEASURED, tmp_path)


@needs_compiler
def test_random_structs_do_no_harm_where_labels_were_learned(chosen_file: CFile, tmp_path: Path) -> None:
    check_random_structs(chosen_file, CHOSEN, tmp_path, "-DSEQTUNE_PORTABLE")


def check_random_structs(written: CFile, words: dict[str, str], folder: Path, *options: str) -> None:
    """Predict for random structs under sanitizers; `words` are what FUZZ leaves open."""
    fuzz = FUZZ.replace("ROUNDS", "250")
    for name, text in words.items():
        fuzz = fuzz.replace(name, text)
    source = folder / "fuzz.c"
    source.write_text(written.source + fuzz)
    good, refused = map(int, run_program(source, "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                                         "-O0", *options).split())
    assert good > 20
    assert refused > 20


def test_checkpoints_that_c_cannot_hold_are_refused(small: Checkpoint) -> None:
    with pytest.raises(MisuseError, match="heads of 8"):
        c_file(replace(small, size=replace(small.size, heads=4)))
    with pytest.raises(MisuseError, match="knows no kernel of cuda"):
        c_file(small, ["cuda"])


@needs_compiler
def test_the_header_alone_is_enough_for_a_caller(written: CFile, tmp_path: Path) -> None:
    (tmp_path / "predictor.h").write_text(written.header)
    caller = tmp_path / "caller.c"
    caller.write_text('#include "predictor.h"\nint main(void) { seqtune_device device; (void)sizeof device; '
                      "return SEQTUNE_CONV2D_DTYPE_FP32; }\n")
    run_program(caller)
