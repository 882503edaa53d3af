"""Chains of classifiers: their trees as arrays, and the rule that they learn."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.integrations.miopen.kernels.gpus import device
from seqtune.integrations.miopen.predictor import chains as module
from seqtune.integrations.miopen.predictor.chains import ANY, TREE_FEATURES, Chain, grow, tree_columns
from seqtune.integrations.miopen.predictor.labels import Queries, read_solver_timings
from seqtune.integrations.miopen.predictor.learned import LabelWords
from seqtune.integrations.miopen.predictor.learning import propose, score_labels
from seqtune.integrations.miopen.predictor.training import FIXED_WORDS, vocabulary_of
from seqtune.kernels.problem import Problem
from seqtune.predictor.translator.numpy_translator import NumpyTranslator
from seqtune.predictor.translator.translator import Translator
from tests.support.label_toys import MLIR, TREES, WINOGRAD, Parts

MI50, VEGA = device("gfx906_60"), device("gfx900_56")


def test_a_chain_learns_a_rule_and_its_beam_proposes_it(label_parts: Parts, label_data: Dataset) -> None:
    fitting, held_out = label_parts
    chains = {(device, name): Chain.fit([part], TREES)[0] for name, own in fitting.items()
              for device, part in own.by_device().items()}
    vocabulary = vocabulary_of(fitting, read_solver_timings(label_data))
    model = Translator.of(vocabulary, **FIXED_WORDS, width=32, heads=2, layers=1, hidden=64)
    words = LabelWords(NumpyTranslator(model.size, model.arrays(), vocabulary), chains, 1.0, {})
    for row in score_labels(partial(propose, words), held_out):
        assert row.exact > 0.8


def test_a_kernel_with_many_labels_has_a_chain_for_each_device_and_one_with_few_a_chain_of_all(
        label_parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [own.take(np.arange(60)) for own in label_parts[0].values()]
    assert grow(labels, 1).keys() == {(ANY, MLIR), (ANY, WINOGRAD)}
    monkeypatch.setattr(module, "SMALL", 50)
    devices = {device.name for device in labels[1].devices}
    assert grow(labels, 1).keys() == {("miopen:gfx906_60", MLIR), *((device, WINOGRAD) for device in devices)}


def test_kernels_of_equal_parameters_share_classifiers_that_tell_them_apart(label_parts: Parts) -> None:
    labels = label_parts[0][MLIR]
    other = labels.for_kernel(labels.kernel)
    first, second = Chain.fit([labels, other], TREES)
    assert first.classifiers is second.classifiers
    assert (first.member, second.member) == (0, 1)
    columns = tree_columns(labels.pairs())
    values = labels.kernel.parameters[1].values
    assert first.logs(columns, labels.value_indices[:, :1]).shape == (len(labels), len(values))


def test_what_a_perf_db_leaves_open_changes_neither_side_nor_features() -> None:
    known: dict[str, Any] = {"n": 4, "c": 64, "k": 96, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "stride_h": 2,
                             "stride_w": 2, "direction": "backward_data"}
    problems = [Problem.make("convnd", **known, h=55, w=55), Problem.make("convnd", **known, h=56, w=56),
                Problem.make("convnd", **known, h=None, w=None, out_h=28, out_w=28)]
    pairs = [(problem, MI50) for problem in problems]
    assert len(set(Queries.of([*pairs, (Problem.make("conv2d", **known, h=56, w=56), MI50)]).hashes.tolist())) == 1
    columns = tree_columns(pairs)
    assert columns.shape == (3, TREE_FEATURES)
    assert (columns == columns[0]).all()
