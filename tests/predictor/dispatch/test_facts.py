"""Facts: words, unknown sizes and large products as whole numbers."""

import numpy as np

from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.predictor.dispatch.facts import LARGEST, UNKNOWN, Fact, fact_columns, facts_of


def test_facts_are_words_tiles_and_powers_of_two_that_differ_among_the_shapes() -> None:
    sizes = np.random.default_rng(0).integers(1, 300, (60, 2)).tolist()
    products = [Problem.make("gemm", m=m, n=n, k=64, trans_b="yes" if m % 2 else "no") for m, n in sizes]
    facts = facts_of(operation("gemm"), products, (), None)
    columns = fact_columns(facts, ProblemColumns.of(products)).T.tolist()
    values = dict(zip([fact.name for fact in facts], columns, strict=True))
    assert values["trans_b=yes"] == [m % 2 for m, _ in sizes]
    assert values["share of tiles of 64 in m"] == [256 * m // (-(-m // 64) * 64) for m, _ in sizes]
    assert values["tiles of 64 in m, n"] == [-(-m // 64) * -(-n // 64) for m, n in sizes]
    assert values["power of 2 in m*n"] == [m * n & -(m * n) for m, n in sizes]
    assert "k" not in values


def test_values_beyond_62_bits_are_cut_off_and_unknown_ones_have_a_value_of_their_own() -> None:
    huge = Fact("huge", Expression("m * m * m * n * n * n * 1000000000"))
    values = fact_columns((huge,), ProblemColumns.of([
        Problem.make("gemm", m=1 << 20, n=1 << 20, k=1), Problem.make("gemm", m=1, n=1, k=1)]))
    assert values.tolist() == [[LARGEST], [1_000_000_000]]
    strided = Problem.make("convnd", c=1, h=None, w=5, k=1, r=1, s=1, stride_h=2, out_h=3, direction="backward_data")
    assert fact_columns((Fact("h", Expression("h")),), ProblemColumns.of([strided])).tolist() == [[UNKNOWN]]
