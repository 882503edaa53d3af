"""A translator of MIOpen's labels in C: it proposes what it proposes in Python, also for random structs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import CheckpointError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.c_source.file import CFile, c_file
from seqtune.predictor.checkpoint import Checkpoint
from tests.support.learning.c_programs import LARGEST_SOURCE, check_random_structs, needs_compiler
from tests.support.learning.compiled_predictor import CompiledPredictor, compiled
from tests.support.learning.miopen_problems import draw, gpus

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
def chosen(label_checkpoint: Path) -> Checkpoint:
    return Checkpoint.load(label_checkpoint)


@pytest.fixture(scope="module")
def chosen_file(chosen: Checkpoint) -> CFile:
    return c_file(chosen)


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
def test_random_structs_do_no_harm_where_labels_were_learned(chosen_file: CFile, tmp_path: Path) -> None:
    check_random_structs(chosen_file, CHOSEN, tmp_path, "-DSEQTUNE_PORTABLE")
