"""Batches and members as messages, and how a member measures a batch."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest

from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from seqtune.tuner.fleet.batch import MeasuringBatch, Purpose, answers, is_sound
from seqtune.tuner.fleet.engine import Answered, Finished, Member
from seqtune.tuner.load import Load
from seqtune.tuner.measuring.timing import DEFAULTS
from tests.support.fake_measurer import DEVICE, PROBLEM, Fake

CONFIGURATIONS = tuple(Configuration.of("test.k", {"x": x, "y": 2}) for x in (1, 9))
BATCH = MeasuringBatch(7, Purpose.MEASURE, PROBLEM, CONFIGURATIONS, DEFAULTS, 0.5)


@pytest.mark.parametrize("sent", [
    BATCH, replace(BATCH, purpose=Purpose.COMPARE, rounds=16), Member("node1/test:1", DEVICE, "node1", 3.0),
    Answered("node1/test:1", 7, 1, Measurement(Status.CORRECT, (1e-3,), 0.0, disturbed=2)),
    Finished("node1/test:1", 7, "out of memory", Load(0.25, 0.5))])
def test_what_travels_is_the_same_after_its_journey(sent: object) -> None:
    assert pickle.loads(pickle.dumps(sent)) == sent


def test_a_member_answers_every_configuration_with_its_index() -> None:
    measured = [(index, answer.status) for index, answer in answers(Fake(), BATCH)]
    compared = [(index, answer.status) for index, answer in answers(Fake(), replace(BATCH, purpose=Purpose.COMPARE))]
    assert measured == compared == [(0, Status.CORRECT), (1, Status.CRASH)]


def test_a_member_builds_the_finalists_in_a_random_order() -> None:
    measurer, finalists = Fake(), [Configuration.of("test.k", {"x": 4, "y": y}) for y in range(6)]
    batch = replace(BATCH, purpose=Purpose.COMPARE, configurations=tuple(finalists))
    seconds = [answer.seconds for _, answer in answers(measurer, batch)]
    assert seconds == [1.0 + (y - 5) ** 2 for y in range(6)]
    (order,) = measurer.compared
    assert sorted(map(finalists.index, order)) == list(range(6))
    assert order != finalists


@pytest.mark.parametrize(("measurement", "sound"), [
    (Measurement(Status.CORRECT, (1e-3, 2e-3)), True), (Measurement(Status.CRASH, message="signal 11"), True),
    (Measurement(Status.CORRECT), False), (Measurement(Status.CORRECT, (1e-3, math.nan)), False),
    (Measurement(Status.CORRECT, (-1e-3,)), False), (Measurement(Status.CORRECT, (math.inf,)), False),
    (Measurement(Status.COMPILE, message="x" * 100_000), False)])
def test_an_answer_that_is_no_measurement_is_none(measurement: Measurement, sound: bool) -> None:
    assert is_sound(measurement) == sound


def test_a_first_answer_may_take_longer_than_the_next_ones() -> None:
    assert BATCH.silence(0.0, 0) > BATCH.silence(0.0, 1) > DEFAULTS.build_seconds + DEFAULTS.run_seconds
    assert BATCH.silence(100.0, 1) > BATCH.silence(0.0, 1)
