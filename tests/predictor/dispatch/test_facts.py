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


def test_sides_of_the_matrix_product_are_what_a_tensor_lacks_of_the_work() -> None:
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 100, (60, 4)).tolist()
    convolutions = [Problem.make("conv2d", n=n, c=c, h=h, w=h, k=k, r=1 + h % 3, s=1 + h % 3, pad_h=1, pad_w=1)
                    for n, c, h, k in sizes]
    facts = facts_of(operation("conv2d"), convolutions, (), None)
    texts = {fact.name: fact.expression.text for fact in facts}
    assert texts["work per the output"] == "(c // groups) * r * s"
    assert texts["work per the filter"] == "n * out_h * out_w"
    assert not any("flop" in text for text in texts.values())
    values = dict(zip(texts, fact_columns(facts, ProblemColumns.of(convolutions)).T.tolist(), strict=True))
    points = [problem.size("n") * problem.size("out_h") * problem.size("out_w") for problem in convolutions]
    assert values["share of tiles of 256 in work per the filter"] == [256 * x // (-(-x // 256) * 256) for x in points]
    assert values["power of 2 in n*c"] == [n * c & -(n * c) for n, c, _, _ in sizes]
