"""A training that is killed again and again ends with the weights of an undisturbed one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pytest

from seqtune.predictor.training.options import TrainingOptions
from seqtune.predictor.training.trainer import fit
from tests.predictor.training.test_trainer import COURSE, Options, line, weights

EPOCHS = 100


@contextmanager
def training(options: TrainingOptions, last: int) -> Iterator[tuple[int, TextIO]]:
    """A process that trains, and what it writes: a line after each epoch. After epoch `last` it waits to be killed.

    It is forked, since a process that starts anew takes seconds to load PyTorch.
    """
    def report(step: object) -> None:
        epoch = getattr(step, "epoch", None)
        if epoch is not None:
            os.write(writing, f"{epoch}\n".encode())
            time.sleep(0.002 if epoch < last else 600)

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            fit(line(), COURSE, options, "toy", report)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        yield child, lines


@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_a_killed_training_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    latest, options = 0, replace(Options(), epochs=EPOCHS, state=tmp_path, save_every=1)
    # seconds: while an epoch is computed, or another one is saved; and the epoch where a training waits at the latest
    for delay, last in {0.003: EPOCHS // 3, 0.01: EPOCHS - 40}.items():
        with training(options, last) as (child, lines):
            epochs = [int(lines.readline()) for _ in range(20)]
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
            epochs += map(int, lines)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert latest <= epochs[0] <= latest + 2  # it goes on from its last state: an epoch may not have been saved
        latest = epochs[-1]
    assert 40 <= latest < EPOCHS
    messages = list[str]()
    resumed = fit(line(), COURSE, options, "toy", progress=lambda step: messages.append(str(step)))
    assert messages[0].startswith("resuming after epoch ")
    undisturbed = fit(line(), COURSE, replace(options, state=None))
    assert weights(resumed.kept) == weights(undisturbed.kept)
    assert resumed.history == undisturbed.history
