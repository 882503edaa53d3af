"""Boosters: the forests of a ranker as XGBoost models again, so that boosting can go on with further measurements."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xgboost

from seqtune.errors import CheckpointError
from seqtune.tuner.cost_models.boosting import Boosting

from .forest import Forest

if TYPE_CHECKING:
    from .ranker import Ranker

ROOTS_PARENT = 2**31 - 1  # XGBoost's number for the parent of a root


def boosters_of(ranker: Ranker, families: Collection[str]) -> dict[str, list[xgboost.Booster]]:
    """The forests of those of the kernel families that a ranker has, as boosters; they predict the same numbers.

    Families have equally many: forests of one that has fewer are repeated. Raises CheckpointError.
    """
    most = max(map(len, ranker.forests.values()), default=0)
    return {name: [booster_of(forests[number % len(forests)], ranker.features[name]) for number in range(most)]
            for name, forests in ranker.forests.items() if name in families}


def booster_of(forest: Forest, features: int) -> xgboost.Booster:
    """One forest as a booster: the inverse of `Forest.of`, up to the numbers that only the fitting of trees needs.

    The file format is that of a booster with a single tree, whose trees are replaced. Raises CheckpointError.
    """
    model = json.loads(bytes(_single_tree(features).save_raw("json")))
    content = model["learner"]["gradient_booster"]["model"]
    pattern = content["trees"][0]
    ends = np.append(forest.roots[1:], len(forest.value)).tolist()
    trees = [_tree(forest, begin, end, pattern, features, number)
             for number, (begin, end) in enumerate(zip(forest.roots.tolist(), ends, strict=True))]
    content["trees"], content["tree_info"] = trees, [0] * len(trees)
    content["iteration_indptr"] = list(range(len(trees) + 1))
    content["gbtree_model_param"]["num_trees"] = str(len(trees))
    booster = xgboost.Booster()
    try:
        booster.load_model(bytearray(json.dumps(model), "utf-8"))
    except xgboost.core.XGBoostError as error:
        raise CheckpointError(f"XGBoost {xgboost.__version__} does not read the checkpoint's trees: {error!s:.100}"
                              ) from None
    return booster


def _single_tree(features: int) -> xgboost.Booster:
    """Any booster with this number of features and one tree, whose sum starts at 0."""
    rows = np.zeros((2, features), np.float32)
    return Boosting("reg:squarederror", 1, 1, 1.0, more={"base_score": 0.0}).grow(rows, np.zeros(2))


def _tree(forest: Forest, begin: int, end: int, pattern: Mapping[str, Any], features: int,
          number: int) -> dict[str, Any]:
    """The nodes from `begin` to `end` as a tree in XGBoost's format."""
    left = forest.left[begin:end].astype(np.int64)
    inner, count = np.flatnonzero(left), end - begin
    left_children, right_children = np.full(count, -1), np.full(count, -1)
    left_children[inner], right_children[inner] = left[inner], left[inner] + 1
    parents = np.full(count, ROOTS_PARENT)
    parents[left[inner]], parents[left[inner] + 1] = inner, inner
    values = forest.value[begin:end].astype(np.float64)
    none, zeros = [0.0] * count, [0] * count
    return {**pattern, "id": number, "left_children": left_children.tolist(),
            "right_children": right_children.tolist(), "parents": parents.tolist(),
            "split_indices": forest.feature[begin:end].tolist(), "split_conditions": values.tolist(),
            "split_type": zeros, "default_left": zeros, "loss_changes": none, "sum_hessian": [1.0] * count,
            "base_weights": np.where(left == 0, values, 0.0).tolist(),
            "tree_param": {**pattern["tree_param"], "num_nodes": str(count), "num_feature": str(features)}}
