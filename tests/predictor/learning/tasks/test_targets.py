"""Tests of the wanted next words after each prefix, and of the measured tasks they come from."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from seqtune.data.measured_tasks import counted, measured_tasks, split
from seqtune.errors import FormatError
from seqtune.kernels.task import MeasuredTask
from seqtune.predictor.learning.tasks.adaptation.plan import Rehearsal
from seqtune.predictor.learning.tasks.examples import vocabulary_of
from seqtune.predictor.learning.tasks.targets import PrefixTree, probabilities
from seqtune.predictor.sequence.vocabulary import BEGIN
from tests.support.synthetic import DIRECT, WIDE, Data, data

pytestmark = pytest.mark.usefixtures("fake_kernel")

DATA = data(6, held_out=2, sampled=60)


def _measured() -> MeasuredTask:
    return measured_tasks(DATA, held_out=True)[0]


def test_wanted_probabilities_sum_to_one_and_hold_near_ties_dear() -> None:
    p = probabilities(np.array([0.0, 0.01, 0.5, np.inf]), 0.04)
    assert p.sum() == pytest.approx(1)
    assert p[1] / p[0] == pytest.approx(np.exp(-0.25))
    assert p[2] < 1e-4
    assert 0 <= p[3] < 1e-100


def test_next_words_agree_with_brute_force() -> None:
    measured = _measured()
    vocabulary = vocabulary_of([measured])
    slowness = measured.seconds / measured.best - 1
    p = probabilities(slowness, 0.1)
    (space,) = measured.task.spaces
    rows = np.random.default_rng(0).integers(0, len(space), 25)
    examples = PrefixTree(measured.task, slowness, vocabulary, 0.1).sentences(rows)
    sentences = np.array([vocabulary.target(space[row]) for row in range(len(space))])
    np.testing.assert_array_equal(examples.words, sentences[rows])
    assert (examples.inputs[:, 0] == BEGIN).all()
    np.testing.assert_array_equal(examples.inputs[:, 1:], examples.words[:, :-1])
    for sentence, row in enumerate(rows):
        for step in range(sentences.shape[1]):
            same = (sentences[:, :step] == sentences[row, :step]).all(axis=1)
            wanted = {int(word): p[same & (sentences[:, step] == word)].sum() / p[same].sum()
                      for word in np.unique(sentences[same, step])}
            here = (examples.sentence == sentence) & (examples.step == step)
            found = dict(zip(examples.word[here].tolist(), examples.share[here].tolist(), strict=True))
            assert found == pytest.approx(wanted, abs=1e-5)


def test_each_word_comes_with_the_quantities_that_it_settles() -> None:
    measured = _measured()
    vocabulary = vocabulary_of([measured])
    (space,) = measured.task.spaces
    rows = np.random.default_rng(0).integers(0, len(space), 25)
    examples = PrefixTree(measured.task, measured.seconds / measured.best - 1, vocabulary, 0.1).sentences(rows)
    sentences = np.array([vocabulary.target(space[row]) for row in range(len(space))])
    columns = space.columns()
    first = {"registers_each": 1, "accumulators": 3}  # the number of words with which each is resolved
    assert set(vocabulary.derived) == set(first)
    assert np.isnan(examples.inputs_resolved[:, 0]).all()
    np.testing.assert_array_equal(examples.inputs_resolved[:, 1:], examples.resolved[:, :-1])
    for place, name in enumerate(vocabulary.derived):
        wanted = np.log2(columns[name].astype(float))
        assert np.isnan(examples.resolved[:, :first[name], place]).all()
        assert examples.resolved[:, first[name]:, place] == pytest.approx(
            np.repeat(wanted[rows, None], sentences.shape[1] - first[name], axis=1), rel=1e-3)
        assert np.isnan(examples.quantities[examples.step < first[name], place]).all()
        for row in np.flatnonzero(examples.step >= first[name]):
            step, said = examples.step[row], sentences[rows[examples.sentence[row]]]
            same = (sentences[:, :step] == said[:step]).all(axis=1) & (sentences[:, step] == examples.word[row])
            assert examples.quantities[row, place] == pytest.approx(wanted[same][0], rel=1e-3)
            assert len(set(wanted[same])) == 1


def test_sentences_are_drawn_as_often_as_they_are_wanted() -> None:
    measured = _measured()
    vocabulary = vocabulary_of([measured])
    slowness = measured.seconds / measured.best - 1
    best = vocabulary.target(measured.task.spaces[0][int(np.argmin(slowness))])
    tree = PrefixTree(measured.task, slowness, vocabulary, 0.04)
    drawn = tree.sample(np.random.default_rng(0), 4000, explore=0.0).words
    often = (drawn == best).all(axis=1).mean()
    assert often == pytest.approx(probabilities(slowness, 0.04).max(), abs=0.03)
    explored = tree.sample(np.random.default_rng(0), 4000, explore=1.0).words
    assert (explored == best).all(axis=1).mean() < often


def test_a_narrowed_task_keeps_each_time_with_its_configuration() -> None:
    measured = measured_tasks(DATA, held_out=False)[0]
    small = measured.measured_only()
    assert len(small.seconds) == measured.known.sum() < len(measured.seconds)
    for row in range(len(small.seconds)):
        configuration = small.task[row]
        assert small.task.number(configuration) == row
        assert small.seconds[row] == measured.time(configuration)


def test_a_split_never_shares_a_problem() -> None:
    found = measured_tasks(DATA, held_out=False)
    fitting, validation = split(found, 0.3, seed=1)
    ours, theirs = ({measured.problem.key for measured in part} for part in (fitting, validation))
    assert ours
    assert theirs
    assert not ours & theirs
    assert len(fitting) + len(validation) == len(found)


def test_cases_use_final_runs_and_leave_out_what_no_longer_counts() -> None:
    frame = DATA.frame[(DATA.frame["device"] == WIDE.name) & DATA.frame["held_out"]]
    frame = frame[frame["problem"] == frame["problem"].iloc[0]].assign(kernel_version=DIRECT.version)
    before = measured_tasks(Data(frame, DATA.devices), held_out=True)[0]
    order = np.argsort(before.seconds)
    slow = order[np.isfinite(before.seconds).sum() - 1]
    first, second, last = (before.task.spaces[0][int(row)].key for row in (order[0], order[1], slow))
    extra = frame.iloc[[0, 0, 0, 0]].assign(
        configuration=[first, second, last, json.dumps({"vector": 99})], status="correct",
        seconds=[before.best * 1.5, before.best * 1.2, before.best / 9, 1e-12],
        run=["final", "final", "random", "random"],
        kernel_version=[DIRECT.version, DIRECT.version, DIRECT.version + 1, DIRECT.version])
    with pytest.warns(UserWarning, match="solved faster by a configuration that their search spaces no longer hold"):
        after = measured_tasks(Data(pd.concat([frame, extra]), DATA.devices), held_out=True)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of old records there is no warning
        (old,) = Rehearsal(pd.concat([frame, extra]), DATA.devices, {}).tasks()
    assert old.best == after.best
    finals, trials = before.best * np.array([1.5, 1.2]), before.seconds[order[:2]]
    finals *= trials[1] / finals[1]  # a slow minute's finals, on the trials' scale, by their better half
    assert after.seconds[order[:2]] == pytest.approx(finals)
    assert after.best == pytest.approx(finals[1])
    assert after.seconds[slow] == before.seconds[slow]
    assert (after.seconds[before.seconds < finals[1]] >= finals[1]).all(), "a lucky trial does not beat a final"


def test_a_configuration_that_cannot_be_read_is_refused_in_one_line() -> None:
    with pytest.raises(FormatError, match="not a configuration"):
        measured_tasks(Data(DATA.frame.assign(configuration="{vector:"), DATA.devices), held_out=False)


def test_what_another_toolchain_measured_is_not_known_of_a_device_that_names_its_own() -> None:
    made = data(4, held_out=1, sampled=20, devices=(WIDE,))
    old = made.frame.assign(toolchain="old", seconds=made.frame["seconds"] / 2)
    both = pd.concat([made.frame.assign(toolchain="new"), old], ignore_index=True)
    named = {WIDE.name: replace(WIDE, toolchain="new")}
    for held_out in (False, True):
        wanted = measured_tasks(made, held_out)
        for found in (measured_tasks(Data(both, named), held_out), measured_tasks(Data(made.frame, named), held_out)):
            assert all(np.array_equal(a.seconds, b.seconds, equal_nan=True)
                       for a, b in zip(found, wanted, strict=True))
        found = measured_tasks(Data(both, made.devices), held_out)
        assert [measured.best for measured in found] == [measured.best / 2 for measured in wanted]
        assert measured_tasks(Data(old, named), held_out) == []


def test_a_failing_pick_counts_as_the_default_and_a_failing_default_as_the_slowest() -> None:
    assert counted([1.0, np.inf], 3.0, [1.0, 9.0]).tolist() == [1.0, 3.0]
    assert counted([1.0, np.inf], np.inf, [1.0, 9.0, np.nan, np.inf]).tolist() == [1.0, 9.0]
