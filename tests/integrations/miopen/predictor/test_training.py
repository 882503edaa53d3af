"""Training a translator on labels: the rule that it learns, and how the training is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from seqtune.data.dataset import Dataset
from seqtune.integrations.miopen.predictor.labels import SolverTimings, read_solver_timings
from seqtune.integrations.miopen.predictor.learning import LabelRow, propose, score_labels
from seqtune.integrations.miopen.predictor.training import FIXED_WORDS, train_network
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.sequence.beam import NextWord
from seqtune.predictor.training.progress import Epoch
from seqtune.predictor.translator.numpy_translator import NumpyTranslator
from seqtune.predictor.translator.translator import Translator
from tests.support.label_toys import QUICK, Parts
from tests.support.learning.progress import parted


@pytest.fixture(scope="module")
def none_timed(label_data: Dataset) -> SolverTimings:
    return read_solver_timings(label_data).take(np.zeros(0, np.int64))


def test_a_translator_learns_all_solvers_and_devices_at_once(label_checkpoint: Path, label_parts: Parts) -> None:
    loaded = Checkpoint.load(label_checkpoint)
    torch.manual_seed(0)
    untrained = Translator.of(loaded.vocabulary, **FIXED_WORDS, width=32, heads=2, layers=1, hidden=64)
    sources: tuple[NextWord, ...] = (  # type: ignore[type-arg]
        NumpyTranslator(untrained.size, untrained.arrays(), loaded.vocabulary), loaded.translator, loaded.next_word())
    before, alone, with_trees = (score_labels(partial(propose, words), label_parts[1]) for words in sources)
    # a translator that learned nothing has none right
    assert exact_share(alone) > exact_share(before) + 0.4
    assert exact_share(with_trees) > exact_share(alone) - 0.05
    for row in alone:
        if row.solver == "ConvBinWinogradRxSf2x3":  # depends only on the batch and the GPU
            assert row.exact > 0.9, row


def exact_share(rows: Sequence[LabelRow]) -> float:
    """Mean share of labels that come first among the proposals; every device and solver counts the same."""
    return float(np.mean([row.exact for row in rows]))


def test_the_same_seed_gives_the_same_weights_and_an_interrupted_training_resumes(
        label_parts: Parts, none_timed: SolverTimings, tmp_path: Path) -> None:
    options = replace(QUICK, epochs=2, state=tmp_path / "state")
    epochs: list[Epoch] = []

    def stop(progress: Epoch) -> None:
        epochs.append(progress)
        if len(epochs) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_network(label_parts[0], none_timed, options, parted(stop))
    _, _, ended = train_network(label_parts[0], none_timed, replace(options, end_now=True))
    assert ended["epochs"] == 1
    messages: list[str] = []
    resumed, _, _ = train_network(label_parts[0], none_timed, options, parted(epochs.append, messages.append))
    assert messages[-1] == "resuming after epoch 1 of 2"
    whole, _, _ = train_network(label_parts[0], none_timed, replace(options, state=None))
    assert [progress.epoch for progress in epochs] == [1, 2]
    for resumed_weights, weights in zip(resumed.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(resumed_weights, weights)
