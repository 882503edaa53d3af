"""Classifier chains: their trees as arrays, and the rule that they learn."""

from __future__ import annotations

import numpy as np

from seqtune.predictor.choices.classifier_chain import ChainWords, KernelChain, as_arrays
from seqtune.predictor.learning.choices.mixture_weights import by_device
from seqtune.predictor.learning.choices.predictors import Beam
from seqtune.predictor.learning.choices.scores import score_labels
from seqtune.predictor.learning.choices.training import vocabulary_of
from seqtune.predictor.trees.forest import Forest
from tests.support.label_toys import MLIR, TREES, Parts


def test_trees_as_arrays_score_values_as_xgboost_does(label_parts: Parts) -> None:
    from seqtune.predictor.choices.inputs import tree_columns

    labels = label_parts[0][MLIR]
    chain = KernelChain.fit(labels, TREES)
    arrays = KernelChain(chain.kernel, as_arrays(chain.classifiers))
    columns = tree_columns(labels.queries)
    for column in range(labels.value_indices.shape[1]):
        fast = chain.logs(columns, labels.value_indices[:, :column])
        slow = arrays.logs(columns, labels.value_indices[:, :column])
        np.testing.assert_allclose(fast, slow, atol=3e-3)  # leaves have 11 bits


def test_a_chain_learns_a_rule_and_its_beam_proposes_only_valid_configurations(label_parts: Parts) -> None:
    fitting, held_out = label_parts
    chains = {group: KernelChain.fit(labels, TREES) for group, labels in by_device(fitting).items()}
    words = ChainWords(chains, vocabulary_of(fitting, None))
    for row in score_labels(Beam(words), held_out):
        assert row.score.invalid == 0
        assert row.score.exact > 0.8
        assert row.score.teacher_forced is not None
        assert row.score.teacher_forced >= row.score.per_parameter - 0.05


def test_a_forest_of_one_leaf_is_a_constant() -> None:
    forest = Forest(1, np.zeros(1, np.int32), np.zeros(1, np.uint8), np.array([0.5], np.float32),
                    np.zeros(1, np.uint16))
    assert forest.margins(np.zeros((3, 2), np.float32)).tolist() == [[0.5]] * 3
