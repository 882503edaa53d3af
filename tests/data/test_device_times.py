"""Measured times of a device, as its journal holds them: only what today's kernels took on this machine counts."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.data.device_times import device_times, own_times
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.task import Task
from tests.support.synthetic import MIDDLE, problems

pytestmark = pytest.mark.usefixtures("fake_kernel")
PROBLEMS = problems(12)


def test_records_of_another_machine_toolchain_or_version_are_no_evidence(journal: Journal) -> None:
    task = Task.of(PROBLEMS[0], MIDDLE)
    good = Measurement(Status.CORRECT, (1e-3,))

    def record(number: int, **changes: object) -> Record:
        fields: dict[str, object] = {"kernel_version": 1, "toolchain": MIDDLE.toolchain, "run": "random",
                                     "machine": MIDDLE.fingerprint, **changes}
        return Record(PROBLEMS[0], MIDDLE.key, configuration=task[number], measurement=good,
                      **fields)  # type: ignore[arg-type]

    for foreign in (record(0, machine="l1=1"), record(1, toolchain="another"), record(2, kernel_version=99)):
        journal.add(foreign)
    assert own_times(journal, task) is None
    assert not device_times(journal, MIDDLE, 5)
    journal.add(record(3))
    journal.add(record(4, run="verify"))
    (measured,) = device_times(journal, MIDDLE, 5)
    assert np.flatnonzero(measured.known).tolist() == [3, 4]
    (trials,) = device_times(journal, MIDDLE, 5, verified=False)
    assert np.flatnonzero(trials.known).tolist() == [3]
