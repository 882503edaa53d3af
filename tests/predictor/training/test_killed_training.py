"""A training that is killed again and again ends with the weights of an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.predictor.training.loop import Course, fit
from tests.predictor.training.test_loop import Options, batches, line, weights
from tests.support.paths import ROOT

EPOCHS = 240
SCRIPT = f"""
import sys, time
from dataclasses import replace
from pathlib import Path
from seqtune.predictor.training.loop import Course, fit
from tests.predictor.training.test_loop import Options, batches, line

def report(progress):
    print(progress.epoch, flush=True)
    time.sleep(0.002 if progress.epoch < int(sys.argv[2]) else 600)  # there it waits to be killed

options = replace(Options(), epochs={EPOCHS}, state=Path(sys.argv[1]), save_every=1)
fit(line(), Course(batches), options, "toy", report)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_a_killed_training_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    latest = 0
    # seconds: while an epoch is computed, or another one is saved; and the epoch where a training waits at the latest
    for delay, last in ((0.003, EPOCHS // 3), (0.01, EPOCHS - 40)):
        with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path), str(last)], stdout=subprocess.PIPE,
                              text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
            assert process.stdout is not None
            epochs = [int(process.stdout.readline()) for _ in range(20)]
            time.sleep(delay)
            process.kill()
            epochs += [int(text) for text in process.stdout.read().split("\n")[:-1]]
        assert process.returncode == -signal.SIGKILL
        assert latest <= epochs[0] <= latest + 2  # it goes on from its last state: at most an epoch was not yet saved
        latest = epochs[-1]
    assert 40 <= latest < EPOCHS
    options, messages = replace(Options(), epochs=EPOCHS, state=tmp_path, save_every=1), list[str]()
    resumed = fit(line(), Course(batches), options, "toy", say=messages.append)
    assert messages[0].startswith("resuming after epoch ")
    undisturbed = fit(line(), Course(batches), replace(options, state=None))
    assert weights(resumed.kept) == weights(undisturbed.kept)
    assert resumed.history == undisturbed.history
