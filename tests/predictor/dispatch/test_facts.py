"""Facts: words, unknown sizes and large products as whole numbers."""

import numpy as np

from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.predictor.dispatch.facts import LARGEST, UNKNOWN, Fact, fact_columns, facts_of

PRODUCTS = [Problem.make("gemm", m=m, n=n, k=64, trans_b=word)
            for m, n, word in [(1, 8, "no"), (64, 100, "yes"), (128, 1000, "no")]]


def test_facts_that_are_equal_everywhere_are_left_out_and_words_become_numbers() -> None:
    facts = facts_of(operation("gemm"), PRODUCTS, (), None)
    names = [fact.name for fact in facts]
    assert "k" not in names
    assert "m" in names
    assert "trans_b=yes" in names
    values = fact_columns(facts, ProblemColumns.of(PRODUCTS))
    assert values[:, names.index("trans_b=yes")].tolist() == [0, 1, 0]


def test_values_beyond_62_bits_are_cut_off_and_unknown_ones_have_a_value_of_their_own() -> None:
    huge = Fact("huge", Expression("m * m * m * n * n * n * 1000000000"))
    values = fact_columns((huge,), ProblemColumns.of([
        Problem.make("gemm", m=1 << 20, n=1 << 20, k=1), Problem.make("gemm", m=1, n=1, k=1)]))
    assert values.dtype == np.int64
    assert values[:, 0].tolist() == [LARGEST, 1_000_000_000]
    strided = Problem.make("convnd", c=1, h=None, w=5, k=1, r=1, s=1, stride_h=2, out_h=3, direction="backward_data")
    assert fact_columns((Fact("h", Expression("h")),), ProblemColumns.of([strided])).tolist() == [[UNKNOWN]]


def test_tiles_and_powers_of_two_are_counted() -> None:
    sizes = np.random.default_rng(0).integers(1, 300, (60, 2)).tolist()
    products = [Problem.make("gemm", m=m, n=n, k=64) for m, n in sizes]
    facts = facts_of(operation("gemm"), products, (), None)
    values = dict(zip([fact.name for fact in facts], fact_columns(facts, ProblemColumns.of(products)).T.tolist(),
                      strict=True))
    assert values["share of tiles of 64 in m"] == [256 * m // (-(-m // 64) * 64) for m, _ in sizes]
    assert values["tiles of 64 in m, n"] == [-(-m // 64) * -(-n // 64) for m, n in sizes]
    assert values["power of 2 in m*n"] == [m * n & -(m * n) for m, n in sizes]
