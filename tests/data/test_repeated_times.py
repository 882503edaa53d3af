"""Repeated times: one rule for journals and data sets."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.device_times import device_times, own_times
from seqtune.data.journal.journal import Journal
from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.record import ALONE, REBUILT, TOGETHER, VERIFIED, Measurement, Record, Status
from seqtune.data.repeated_times import times_by_number
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from tests.support.measuring.instant import DEVICE

TASK = Task.of(Problem.make("gemm", m=1, n=24, k=16), DEVICE)


def seconds_of(*measurements: tuple[int, float, bool]) -> np.ndarray:
    """The times that count of the first five configurations; a measurement is number, seconds, compared."""
    numbers, times, compared = zip(*measurements, strict=True)
    return times_by_number(TASK, np.array(numbers), np.array(times), np.array(compared))[0][:5]


def test_the_median_of_undisturbed_times_alone_counts() -> None:
    seconds = seconds_of((0, 1.0, False), (0, 1.1, False), (0, 1.2, False), (0, 9.0, False), (1, np.inf, False),
                         (2, 2.0, False), (2, np.inf, False))
    assert seconds == pytest.approx([1.1, np.inf, 2.0, np.nan, np.nan], nan_ok=True)


def test_compared_times_are_scaled_by_their_better_half_and_bound_all_others() -> None:
    alone = [(number, time, False) for number, time in enumerate((1.0, 0.9, 0.5, 0.6))]  # 2 was lucky, 3 is alone
    compared = [(number, time, True) for number, time in enumerate((2.0, 2.2, 2.4))] * 2
    assert seconds_of(*alone, *compared) == pytest.approx(
        [2.0 * factor if factor else np.nan for factor in (0.4545, 0.5, 0.5454, 0.4545, None)], rel=1e-3, nan_ok=True)


def test_a_journal_and_its_data_set_give_the_same_times(journal: Journal) -> None:
    generator = np.random.default_rng(0)
    journal.add_device(DEVICE)
    versions = {kernel.name: kernel.version for kernel in TASK.kernels}
    for run, count in (("random", 24), ("again", 8), ("final", 6), ("contest", 6), ("contest", 6), ("verify", 3)):
        for number in range(count):
            seconds = float((1 + number / 50) * np.exp(generator.normal(0, 0.1)))
            measurement = (Measurement(Status.COMPILE) if number == 7 else Measurement(Status.CORRECT, (seconds,)))
            configuration = TASK[number]
            journal.add(Record(TASK.problem, DEVICE.key, versions[configuration.kernel], configuration,
                               DEVICE.toolchain, measurement, when=1.0, run=run, machine=DEVICE.fingerprint))
    (measured,) = measured_tasks(Dataset.from_journal(journal), held_out=False)
    own = own_times(journal, TASK)
    (newest,) = device_times(journal, DEVICE, 5)
    assert own == pytest.approx(measured.seconds, rel=1e-5, nan_ok=True)
    assert np.array_equal(newest.seconds, own, equal_nan=True)


def test_a_time_that_rests_on_one_build_does_not_correct_a_prediction(journal: Journal) -> None:
    versions = {kernel.name: kernel.version for kernel in TASK.kernels}
    for number, stage in enumerate((ALONE, REBUILT, TOGETHER)):
        journal.add(Record(TASK.problem, DEVICE.key, versions[TASK[number].kernel], TASK[number], DEVICE.toolchain,
                           Measurement(Status.CORRECT, (1.0,)), when=1.0, run=VERIFIED, machine=DEVICE.fingerprint,
                           session="s", stage=stage))
    own = own_times(journal, TASK)
    assert own is not None
    assert own[:3].tolist() == pytest.approx([np.nan, 1.0, 1.0], nan_ok=True)
