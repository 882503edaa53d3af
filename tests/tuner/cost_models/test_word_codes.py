"""Word codes: the number of a word depends on the kernel's declaration alone, not on the other rows."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.encoding import declared_words, word_codes
from seqtune.tuner.cost_models.features import features
from tests.support.synthetic import WIDE

QUANTITIES = {"kind": "'wide' if vector > 2 else body", "again": "kind", "named": "{1: 'one', 2: 'two'}[vector]",
              "layout_or_body": "body if vector == 1 else layout", "lanes": "vector * 2",
              "flag": "1 if body == 'row' else 0"}
WORDY = Kernel("fake.wordy", "conv2d", ("fake",), (
    Parameter("vector", (1, 2, 4)), Parameter("body", ("tap", "row"))), (), (),
    derived=tuple((name, Expression(text)) for name, text in QUANTITIES.items() if name != "named"))


def test_the_words_that_a_declaration_can_give_are_found() -> None:
    assert declared_words(WORDY) == {"kind": ("row", "tap", "wide"), "again": ("row", "tap", "wide"),
                                     "layout_or_body": ("NCHW", "NHWC", "row", "tap")}
    named = Kernel("fake.named", "conv2d", ("fake",), WORDY.parameters, (), (),
                   derived=(("named", Expression(QUANTITIES["named"])),))
    assert declared_words(named) == {"named": ("one", "two")}


def test_a_word_has_its_place_among_them_whatever_else_is_there() -> None:
    assert word_codes(WORDY, "kind", np.array(["wide", "row", "wide"])).tolist() == [2, 0, 2]
    assert word_codes(WORDY, "kind", np.array(["wide"])).tolist() == [2]
    foreign = word_codes(WORDY, "kind", np.array(["zen4", "row", "zen5"]))
    assert foreign[1] == 0
    assert foreign[0] != foreign[2]
    assert min(foreign[0], foreign[2]) >= 3
    assert word_codes(WORDY, "kind", np.array(["zen5"])).tolist() == [foreign[2]]


@pytest.mark.parametrize("rows", [[0], [1, 4], [5, 2, 3]])
def test_the_features_of_a_configuration_do_not_depend_on_the_others(rows: list[int]) -> None:
    space = SearchSpace(WORDY, Problem.make("conv2d", c=16, h=14, w=14, k=32, r=3, s=3), WIDE)
    chosen = np.array(rows)
    np.testing.assert_array_equal(features(space, chosen), features(space)[chosen])


def test_no_kernel_of_ours_derives_words_so_no_shipped_trees_read_codes() -> None:
    assert [name for name in names() if declared_words(kernel(name))] == []
