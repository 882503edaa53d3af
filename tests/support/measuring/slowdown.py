"""A slow machine: `SEQTUNE_TEST_SLOWDOWN=10` multiplies the time limits of measuring workers by 10 for the whole run.

A worker that does not answer within seconds hangs, on a machine. An emulated one takes as many times as long for
everything (`make test-arm`).
"""

from __future__ import annotations

import os
from dataclasses import astuple
from typing import Any

import pytest

SLOWDOWN = float(os.environ.get("SEQTUNE_TEST_SLOWDOWN", "1"))


def stretch_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply the seconds after which a worker of this process counts as hanging."""
    from seqtune.tuner.measuring.worker import process
    from seqtune.tuner.measuring.worker.request import Limits, WorkerRequest

    begin = WorkerRequest.__init__

    def begin_patiently(request: WorkerRequest, worker: Any, problem: Any, limits: Limits, *others: Any) -> None:
        begin(request, worker, problem, Limits(*(SLOWDOWN * seconds for seconds in astuple(limits))), *others)

    monkeypatch.setattr(WorkerRequest, "__init__", begin_patiently)
    monkeypatch.setattr(process, "START_SECONDS", SLOWDOWN * process.START_SECONDS)
