"""C programs of tests: the compiler, and small checkpoints that C can hold."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, table
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.c_source.file import CFile
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.experts.process import Processes
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from tests.support.learning.compiled_predictor import STRICT, compiler
from tests.support.learning.translators import small_translator

CPU = Device("llvm:avx2:2", "llvm", "znver3", "avx2", threads=2, compute_units=2, vector_bits=256, vector_registers=16,
             l1_bytes=32768, l2_bytes=524288, l3_bytes=1 << 24, peak_gflops=90.0, bandwidth_gbs=20.0)
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler: cc is not found, and CC names none")


def small_checkpoint(device: Device, judge: int = 32) -> Checkpoint:
    """A checkpoint with random weights whose rows are not a multiple of four panels."""
    return _checkpoint([kernel(name) for name in table(device.backend)], device, judge)


def mixed_checkpoint(devices: Sequence[Device], problems: Sequence[Problem],
                     plain: Checkpoint | None = None) -> Checkpoint:
    """A checkpoint, the small one by default, with trees and processes of random times of these problems."""
    generator, fitting = np.random.default_rng(2), []
    for number, problem in enumerate(problems):
        task = Task.of(problem, devices[number % len(devices)])
        seconds = np.full(len(task), np.nan)
        rows = generator.permutation(len(task))[:60]
        seconds[rows] = np.exp(generator.normal(0, 0.3, len(rows)))
        fitting.append(MeasuredTask(task, seconds))
    trees = Trees(fitting, TreesOptions(rounds=12, models=2, least_weight=1.0, threads=1))
    return replace(plain or small_checkpoint(devices[0]), ranker=Ranker.of(trees),
                   processes=Processes.of(fitting))


def library_checkpoint(library: Library, device: Device) -> Checkpoint:
    """A checkpoint with random weights that knows the kernels of a declared library, which is in use."""
    return _checkpoint([kernel(name) for name in library.kernels], device, 32)


def _checkpoint(families: Sequence[Kernel], device: Device, judge: int) -> Checkpoint:
    vocabulary = Vocabulary.build(families, [device])
    model = small_translator(vocabulary, 32, seed=5, layers=2, decoder_layers=1, hidden=48, judge=judge)
    return Checkpoint.of_translator(model, vocabulary)


def run_program(source: Path, *options: str) -> str:
    """Compile a program strictly, run it and return what it prints; a sanitizer's complaint fails the test."""
    program, found = source.with_suffix(""), compiler()
    assert found is not None
    built = subprocess.run([found, *STRICT, "-o", str(program), str(source), *options, "-lm"], capture_output=True,
                           text=True, check=False)
    if built.returncode and "sanitize" in built.stderr:
        pytest.skip("the C compiler has no sanitizers")
    assert built.returncode == 0, built.stderr[:2000]
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr[:2000]
    return ran.stdout


LARGEST_SOURCE = 10_000_000  # bytes
# Without the last three, programs compile in a third of the time: `address` finds pointers that are null or outside an
# array, and whether a pointer is aligned does not depend on the input.
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize=null,pointer-overflow,alignment",
              "-fno-sanitize-recover=all")
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


def check_random_structs(written: CFile, words: dict[str, str], folder: Path, *options: str) -> None:
    """Predict for random structs under sanitizers; `words` are what FUZZ leaves open."""
    fuzz = FUZZ.replace("ROUNDS", "250")
    for name, text in words.items():
        fuzz = fuzz.replace(name, text)
    source = folder / "fuzz.c"
    source.write_text(written.source + fuzz)
    good, refused = map(int, run_program(source, *SANITIZERS, "-O0", *options).split())
    assert good > 20
    assert refused > 20
