"""Tests of derived quantities: the word that resolves each, and the value it has then."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for, names
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.sequence.grammar import (
    MAX_LOG2,
    MIN_LOG2,
    Quantities,
    ResolvedByRow,
    resolving_columns,
)
from seqtune.predictor.sequence.vocabulary import Vocabulary

DEVICE = Device("toy:a", "toy", "arch1", "simd", threads=2)
TOY = Kernel("toy.direct", "conv2d", ("toy",), (
    Parameter("tile", (1, 2, 7)), Parameter("order", ("a", "b")), Parameter("depth", (0, 2))), (
    Constraint.of("tile <= row_w", "too wide"),), (), derived=(
        ("per_thread", Expression("row_w / threads")), ("area", Expression("tile * tile")),
        ("loop", Expression("'deep' if depth > 0 else 'flat'")), ("volume", Expression("area * depth")),
        ("early", Expression("area + per_thread"))))
PROBLEM = Problem.make("conv2d", c=64, h=58, w=58, k=48, r=3, s=3)


def after(space: SearchSpace, vocabulary: Vocabulary, rows: NDArray[np.int64], column: int) -> Quantities:
    """All quantities that prefixes resolve; a row has each, and the word in `column` ends it."""
    resolved = ResolvedByRow(space, vocabulary)
    quantities = np.full((len(rows), len(vocabulary.derived)), np.nan, np.float32)
    for number in range(-1, column + 1):
        resolved.resolve(rows, number, quantities)
    return quantities


def test_a_quantity_is_resolved_by_the_last_parameter_that_it_needs_even_through_others() -> None:
    assert resolving_columns(TOY) == {"per_thread": -1, "area": 0, "loop": 2, "volume": 2, "early": 0}


def test_quantities_are_given_as_log2_once_resolved_and_words_never() -> None:
    vocabulary, space = Vocabulary.build([TOY], [DEVICE]), SearchSpace(TOY, PROBLEM, DEVICE)
    row = len(space) - 1  # tile=7 depth=2
    for column, wanted in ((-1, {"per_thread": 28}), (0, {"per_thread": 28, "area": 49, "early": 77}),
                           (2, {"per_thread": 28, "area": 49, "early": 77, "volume": 98})):
        (found,) = after(space, vocabulary, np.array([row]), column)
        known = {name: 2.0**value for name, value in zip(vocabulary.derived, found, strict=True) if not np.isnan(value)}
        assert known == pytest.approx(wanted, rel=5e-3)
    flat = after(space, vocabulary, np.array([0]), 2)[0]
    assert flat[vocabulary.derived.index("volume")] == MIN_LOG2, "zero has no log2"


def test_quantities_that_the_vocabulary_lacks_are_left_out() -> None:
    rows, vocabulary = np.array([0, 1]), Vocabulary.build([], [DEVICE])
    assert after(SearchSpace(TOY, PROBLEM, DEVICE), vocabulary, rows, 2).shape == (2, 0)
    assert ResolvedByRow(SearchSpace(TOY, PROBLEM, DEVICE), vocabulary).complete(rows)[1].shape == (2, 0)


def test_in_every_real_kernel_all_rows_of_a_prefix_agree_on_what_it_settles() -> None:
    device = Device("llvm:avx2:2", "llvm", "znver5", "avx2", threads=2, compute_units=2, vector_bits=256,
                    l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20)
    problem = Problem.make("conv2d", c=24, h=14, w=14, k=24, r=3, s=3)
    families = kernels_for(problem, device)
    assert families
    vocabulary = Vocabulary.build([kernel(name) for name in names() if name.startswith(("llvm.", "opencl."))], [device])
    for family in families:
        space = SearchSpace(family, problem, device)
        rows = space.rows
        for column in range(-1, rows.shape[1]):
            new = np.ones(len(rows), bool)
            new[1:] = (rows[1:, :column + 1] != rows[:-1, :column + 1]).any(axis=1)
            first = np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))
            np.testing.assert_array_equal(after(space, vocabulary, np.arange(len(rows)), column),
                                          after(space, vocabulary, first, column))
        last = after(space, vocabulary, np.arange(len(rows)), rows.shape[1] - 1)
        known = ~np.isnan(last)
        assert known.any()
        assert ((last[known] >= MIN_LOG2) & (last[known] <= MAX_LOG2)).all()
