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

from seqtune.predictor.training.trainer import fit
from tests.predictor.training.test_trainer import COURSE, Options, line, weights
from tests.support.paths import ROOT

EPOCHS = 100
SCRIPT = f"""
import os, sys, time
import torch._dynamo  # an optimizer would load it in each process
from dataclasses import replace
from pathlib import Path
from seqtune.predictor.training.trainer import fit
from tests.predictor.training.test_trainer import COURSE, Options, line

def report(step):
    if isinstance(step, str):
        return
    print(step.epoch, flush=True)
    time.sleep(0.002 if step.epoch < last else 600)  # there it waits to be killed

options = replace(Options(), epochs={EPOCHS}, state=Path(sys.argv[1]), save_every=1)
for last in map(int, sys.argv[2:]):
    training = os.fork()
    if not training:
        print(os.getpid(), flush=True)
        fit(line(), COURSE, options, "toy", report)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(training, 0)[1]), flush=True)
"""  # a process that forks, since each one that starts anew takes seconds to load PyTorch


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_a_killed_training_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    latest = 0
    # seconds: while an epoch is computed, or another one is saved; and the epoch where a training waits at the latest
    kills = {0.003: EPOCHS // 3, 0.01: EPOCHS - 40}
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path), *map(str, kills.values())], text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        for delay in kills:
            training = int(process.stdout.readline())
            epochs = [int(process.stdout.readline()) for _ in range(20)]
            time.sleep(delay)
            os.kill(training, signal.SIGKILL)
            epochs += map(int, iter(process.stdout.readline, f"ended {-signal.SIGKILL}\n"))
            assert latest <= epochs[0] <= latest + 2  # it goes on from its last state: an epoch may not have been saved
            latest = epochs[-1]
    assert 40 <= latest < EPOCHS
    options, messages = replace(Options(), epochs=EPOCHS, state=tmp_path, save_every=1), list[str]()
    resumed = fit(line(), COURSE, options, "toy", progress=lambda step: messages.append(str(step)))
    assert messages[0].startswith("resuming after epoch ")
    undisturbed = fit(line(), COURSE, replace(options, state=None))
    assert weights(resumed.kept) == weights(undisturbed.kept)
    assert resumed.history == undisturbed.history
