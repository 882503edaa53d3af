"""The promises of every operation; a new one is tested by being named in the table."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.operations.operation import FURTHER_OPERANDS, MOST_OPERANDS, Operation
from seqtune.kernels.operations.table import OPERATIONS, operation, operations
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import parse_keys
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.sampler import LARGEST_OPERAND, largest_tensor, sample_problems
from seqtune.kernels.problem_sets.similarity import NEAR, distance, near
from seqtune.tuner.measuring.reference import make_operands, reference

COUNT = 30  # sampled problems


def samples(work: Operation) -> list[Problem]:
    """Sampled problems; none where the operation has no sampler."""
    try:
        work.draw(np.random.default_rng(0))
    except ProblemError:
        return []
    return sample_problems(work.name, COUNT, seed=0)


def problems(work: Operation) -> list[Problem]:
    """The example, what is sampled, and the example with every feature unknown in turn."""
    example = parse_problem(work.example)
    unknown = [Problem.make(work.name, **{**dict(example), name: None}) for name, _ in example]
    return [example, *samples(work), *unknown]


def runnable(work: Operation) -> Problem:
    """The example, or the smallest sampled problem where that is smaller."""
    example = parse_problem(work.example)
    try:
        work.operands(example)
    except ProblemError:
        pytest.skip(f"nothing here runs {work.name}")
    return min([example, *samples(work)], key=lambda problem: problem.size("flop"))


@pytest.mark.parametrize("name", OPERATIONS)
class TestOperation:
    def test_it_is_declared_in_full(self, name: str) -> None:
        work = operation(name)
        assert work.name == name
        assert work.meaning
        assert all(feature.meaning for feature in work.features)
        assert len(work.by_name) == len(work.features)
        assert all(reason for _, reason in work.rules)
        for feature in work.features:
            assert feature.check(feature.default) == feature.default

    def test_its_words_and_hints_are_its_own(self, name: str) -> None:
        work = operation(name)
        for other in operations():
            if other is not work:
                assert {work.name, *work.words}.isdisjoint((other.name, *other.words))
        assert all(parse_problem(work.example.replace(name, word, 1)).type == name for word in work.words)
        assert work.hints <= {*work.by_name, *work.shorthands}

    def test_every_feature_that_it_speaks_of_is_there(self, name: str) -> None:
        work = operation(name)
        names = {*work.by_name, *(derived for derived, _ in work.derived)}
        assert {*work.quantities, *work.tiled_sizes} <= names
        assert set(work.sizes) <= set(work.by_name)
        assert {*work.repeated, *work.repeated.values()} <= set(work.by_name)
        assert {feature for features in work.shorthands.values() for feature in features} <= set(work.by_name)

    def test_problems_survive_every_way_of_writing_them(self, name: str) -> None:
        found = problems(operation(name))
        for problem in found:
            assert parse_problem(problem.key) == problem
            assert parse_problem(problem.brief(skip_defaults=False)) == problem
            assert Problem.from_json(problem.to_json()) == problem
        assert parse_keys([problem.key for problem in found], parse_problem) == {
            problem.key: problem for problem in found}

    def test_what_follows_from_an_unknown_feature_is_unknown(self, name: str) -> None:
        work = operation(name)
        example = parse_problem(work.example)
        for feature, _ in example:
            names = Problem.make(name, **{**dict(example), feature: None}).names()
            assert names.keys() == example.names().keys()
            ways = [derived for derived, _ in work.derived]
            for derived, expression in work.derived:
                if names[feature] is None and feature in expression.names and ways.count(derived) == 1:
                    assert names[derived] is None

    def test_an_unknown_name_and_a_missing_one_are_refused(self, name: str) -> None:
        work = operation(name)
        if work.is_open:
            assert Problem.make(name, anything=3)["anything"] == 3
            return
        with pytest.raises(ProblemError, match="has no feature 'wings'"):
            Problem.make(name, wings=2)
        required = [feature.name for feature in work.features if feature.required]
        if required:
            with pytest.raises(ProblemError, match=f"{name} needs {required[0]}"):
                Problem.make(name)

    def test_near_and_distance_are_symmetric_and_reflexive(self, name: str) -> None:
        found = problems(operation(name))
        for a in found:
            assert near(a, a)
            assert distance(a, a) == 0
            for b in found[::3]:
                assert near(a, b) == near(b, a)
                assert distance(a, b) == pytest.approx(distance(b, a))
                assert a == b or distance(a, b) > 0

    def test_a_size_may_differ_by_a_quarter_and_no_more(self, name: str) -> None:
        work = operation(name)
        features = dict(parse_problem(work.example))
        for size in work.sizes:
            here = Problem.make(name, **{**features, size: 400})
            for factor, expected in ((NEAR, True), (NEAR + 0.05, False)):
                other = Problem.make(name, **{**features, size: round(400 * factor)})
                assert near(here, other) == near(other, here) == expected

    def test_samples_are_seeded_distinct_and_small_enough(self, name: str) -> None:
        work = operation(name)
        found = samples(work)
        if not found:
            with pytest.raises(ProblemError, match="has no sampler"):
                sample_problems(name, 3, seed=0)
            return
        assert len(set(found)) == COUNT
        assert found == sample_problems(name, COUNT, seed=0) != sample_problems(name, COUNT, seed=1)
        assert all(work.least_flop <= problem.size("flop") <= work.most_flop for problem in found)
        assert all(largest_tensor(problem) < LARGEST_OPERAND for problem in found)

    def test_its_operands_fit_the_reference_and_each_of_them_counts(self, name: str) -> None:
        work = operation(name)
        problem = runnable(work)
        operands = make_operands(problem)
        assert len(operands) <= MOST_OPERANDS + FURTHER_OPERANDS
        assert {"y", "workspace"}.isdisjoint(operands)  # names of the other buffers
        assert work.constant is None or work.constant in operands
        for array in operands.values():
            array.setflags(write=False)
        expected = reference(problem, operands)
        assert expected.dtype == np.float64
        assert expected.shape == work.output(problem)
        assert np.isfinite(expected).all()
        for operand, array in operands.items():
            changed = reference(problem, {**operands, operand: 2 * array + np.float32(1)})  # a softmax hides shifts
            assert not np.allclose(changed, expected)

    def test_a_size_that_is_needed_and_unknown_is_refused(self, name: str) -> None:
        work = operation(name)
        features = dict(runnable(work))
        for size in work.sizes:
            with pytest.raises(ProblemError, match="unknown here, and is needed"):
                make_operands(Problem.make(name, **{**features, size: None}))


def test_an_operation_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ProblemError, match="no operation 'fft'; there are conv2d"):
        operation("fft")
