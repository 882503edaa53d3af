"""Tests of the constrained beam search: valid configurations, enough of them, exact probabilities."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from seqtune.errors import CheckpointError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.sequence.beam import Allowed, beam_search, beam_search_many
from seqtune.predictor.sequence.grammar import BatchGrammar
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator.numpy_translator import NumpyTranslator
from tests.support.learning.translators import small_translator
from tests.support.tasks import task_of

TOYS = (
    Kernel("toy.tiles", "conv2d", ("toy",), (
        Parameter("vector", (1, 4, 8, 16)), Parameter("tile_w", (1, 2, 3, 4, 7, 14)), Parameter("tile_h", (1, 2, 4)),
        Parameter("order", ("rows", "channels"))), (
        Constraint.of("vector <= vector_floats", "wider than a register"),
        Constraint.of("tile_w * tile_h * vector <= 64", "too many accumulators"),
        Constraint.of("row_w % tile_w == 0 or order == 'rows'", "tails only in rows"),
        Constraint.of("tile_w * tile_h >= 4 or vector == 16", "a late condition that dead-ends naive decodes")),
        (("vector", 4),)),
    Kernel("toy.blocks", "conv2d", ("toy",), (
        Parameter("block", (16, 32, 48, 64)), Parameter("vector", (4, 8)), Parameter("depth", (1, 2, 3, 4, 5, 6, 7, 8)),
        Parameter("split", (1, 2, 3)), Parameter("unroll", (1, 2, 4, 8)), Parameter("hint", ("none", "near", "far"))), (
        Constraint.of("k_per_group % block == 0", "whole blocks"),
        Constraint.of("depth * vector * split == 24", "exactly 24 lanes: most prefixes dead-end"),
        Constraint.of("c_per_group % unroll == 0", "whole unrolls")), (("block", 16),)),
    Kernel("toy.lonely", "conv2d", ("toy",), (Parameter("only", (7,)), Parameter("word", ("yes",))), (), ()),
    Kernel("toy.few", "gemm", ("toy",), (Parameter("tile_m", (1, 2, 4)), Parameter("tile_n", (1, 2, 4))),
           (Constraint.of("m % tile_m == 0 and work == n // tile_n", "odd"),), (),
           derived=(("work", Expression("n // tile_n")),)),
)
DEVICES = (Device("toy:wide", "toy", "t1", "simd", vector_bits=512), Device("toy:thin", "toy", "t2", "simd"))
REAL_DEVICES = (
    Device("llvm:avx512:2", "llvm", "znver5", "avx512", threads=2, compute_units=2, vector_bits=512,
           vector_registers=32, l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20),
    Device("llvm:sse:1", "llvm", "znver5", "sse", l1_bytes=48 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20),
    Device("opencl:cpu", "opencl", "znver5", "opencl-c-1.2", threads=2, compute_units=2, vector_bits=512,
           l1_bytes=48 << 10, l2_bytes=1 << 20, local_memory=512 << 10, max_work_group=4096),
)
PROBLEMS = tuple(
    Problem.make("conv2d", n=n, c=c, h=h, w=w, k=k, r=r, s=r, pad_h=r // 2, pad_w=r // 2, stride_h=stride,
                 stride_w=stride, groups=groups)
    for n, c, h, w, k, r, stride, groups in (
        (1, 64, 56, 56, 64, 3, 1, 1), (1, 3, 224, 224, 64, 7, 2, 1), (2, 96, 14, 14, 576, 1, 1, 1),
        (1, 32, 17, 13, 48, 5, 1, 1), (1, 144, 28, 28, 144, 3, 2, 144), (4, 1, 1, 1, 1, 1, 1, 1),
        (1, 30, 7, 9, 35, 3, 1, 5))
) + tuple(Problem.make("gemm", m=m, n=n, k=k) for m, n, k in ((64, 64, 64), (1, 1000, 512), (37, 4, 129), (1, 1, 1)))


def known_kernels() -> Iterator[Kernel]:
    yield from TOYS
    for name in names():
        if not name.startswith(("llvm.", "opencl.")):
            continue  # fakes that other tests may have registered
        yield kernel(name)


ALL = tuple(known_kernels())
VOCABULARY = Vocabulary.build(ALL, DEVICES + REAL_DEVICES)


def spaces_of(problem: Problem, device: Device) -> tuple[SearchSpace, ...]:
    """The spaces of all kernels, toys and real ones, for the problem on the device."""
    found: list[SearchSpace] = []
    for family in ALL:
        try:
            space = SearchSpace(family, problem, device)
        except KernelError:
            continue
        if len(space):
            found.append(space)
    return tuple(found)


CASES = [Task(problem, device, spaces) for problem, device in itertools.product(PROBLEMS, DEVICES + REAL_DEVICES)
         if (spaces := spaces_of(problem, device))]
SMALL = [task_of(*few) for task in CASES if (few := [space for space in task.spaces if len(space) <= 2000])]


class Dice:
    """A NextWord without a network: scores are a hash of all words so far."""

    def __init__(self, vocabulary: Vocabulary, seed: int = 0, scale: float = 3.0) -> None:
        self.vocabulary, self.seed, self.scale = vocabulary, seed, scale

    def _scores(self, said: tuple[object, ...]) -> np.ndarray:
        """The scores of all target words, allowed or not."""
        generator = np.random.default_rng(zlib.crc32(repr((said, self.seed)).encode()))
        return generator.normal(0, self.scale, len(self.vocabulary.targets)).astype(np.float32)

    def _of(self, state: list[tuple[object, ...]], allowed: Allowed) -> np.ndarray:
        assert allowed.resolved.shape == (len(allowed.words), len(self.vocabulary.derived))
        assert set(allowed.after.tolist()) == set(range(len(state))), "every hypothesis has a word that may follow"
        table = np.stack([self._scores(said) for said in state])
        return np.asarray(table[allowed.after, allowed.words])

    def start(self, queries: Sequence[tuple[Problem, Device]],
              allowed: Allowed) -> tuple[list[tuple[object, ...]], np.ndarray]:
        state: list[tuple[object, ...]] = [(problem.key, device.name) for problem, device in queries]
        return state, self._of(state, allowed)

    def advance(self, state: list[tuple[object, ...]], said: Allowed,
                allowed: Allowed) -> tuple[list[tuple[object, ...]], np.ndarray]:
        state = [(*state[parent], int(word)) for parent, word in zip(said.after, said.words, strict=True)]
        return state, self._of(state, allowed)


class Flat(Dice):
    """A NextWord that gives all words equal scores, so that there are only ties."""

    def _scores(self, said: tuple[object, ...]) -> np.ndarray:
        return np.zeros(len(self.vocabulary.targets), np.float32)


def log_probability(model: Dice, task: Task, configuration: Configuration) -> float:
    """The log-probability by definition: of each word among the words with which a valid configuration continues."""
    said: tuple[object, ...] = (task.problem.key, task.device.name)
    rest = [VOCABULARY.target(other).tolist() for other in task]
    total = 0.0
    for step, word in enumerate(VOCABULARY.target(configuration).tolist()):
        allowed, scores = sorted({sentence[step] for sentence in rest}), model._scores(said)
        given = {other: float(scores[other]) for other in allowed}
        total += given[word] - np.log(sum(np.exp(value) for value in given.values()))
        rest = [sentence for sentence in rest if sentence[step] == word]
        said = (*said, word)
    return float(total)


def valid(candidates: Sequence[Candidate], task: Task, count: int) -> bool:
    found = [candidate.configuration for candidate in candidates]
    costs = [-(candidate.log_probability or 0.0) for candidate in candidates]
    return (len(found) == len(set(found)) == min(count, len(task)) and costs == sorted(costs) and costs[0] >= 0
            and all(task.find(configuration) is not None for configuration in found))


def drawn(task: Task, generator: np.random.Generator, count: int) -> list[Configuration]:
    """Draw configurations word by word, each word uniformly from the allowed ones."""
    grammar = BatchGrammar(VOCABULARY, [task])
    prefixes, found, column = grammar.begin().prefixes, [], 0
    prefixes = prefixes.select(np.sort(generator.integers(len(prefixes.space), size=count)))
    while len(prefixes.space):
        following = grammar.follow(prefixes, column)
        counts = np.bincount(following.after)
        prefixes = following.prefixes.select(np.cumsum(counts) - counts + generator.integers(counts))
        column += 1
        ended = np.array([column == len(grammar.spaces[space].kernel.parameters) for space in prefixes.space.tolist()])
        assert (prefixes.end - prefixes.begin)[ended].tolist() == [1] * int(ended.sum())
        found += [grammar.spaces[space][row] for space, row in zip(
            prefixes.space[ended].tolist(), prefixes.begin[ended].tolist(), strict=True)]
        prefixes = prefixes.select(np.flatnonzero(~ended))
    return found


def test_thousands_of_random_sentences_are_valid_and_none_dead_ends() -> None:
    generator = np.random.default_rng(1)
    decoded = 0
    for task in CASES:
        by_kernel = {space.kernel.name: space for space in task.spaces}
        for configuration in drawn(task, generator, 100):
            assert by_kernel[configuration.kernel].why_not(configuration) is None
            decoded += 1
    assert decoded >= 3000


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_model_driven_sentences_are_valid_and_none_is_missing(seed: int) -> None:
    translator = small_translator(VOCABULARY, 32, seed)
    with torch.no_grad():
        translator.decoded.weight.mul_(10)  # sharper probabilities, as after training
    decoded = 0
    for count in (1, 40):
        words = NumpyTranslator(translator.size, translator.arrays(), VOCABULARY)
        found = beam_search_many(words, CASES, width=4, count=count)
        decoded += sum(map(len, found))
        for candidates, task in zip(found, CASES, strict=True):
            assert valid(candidates, task, count)
    assert decoded >= 1000


def test_look_ahead_offers_exactly_the_words_that_brute_force_finds() -> None:
    prefixes = 0
    for family, (problem, device) in itertools.product(TOYS, itertools.product(PROBLEMS, DEVICES)):
        if family.why_not(problem, device) is not None:
            continue
        values = [[(parameter.name, value) for value in parameter.values] for parameter in family.parameters]
        names = {**device.names(), **problem.names()}
        brute = []
        for settings in itertools.product(*values):
            here = {**names, **dict(settings)}
            for name, expression in family.derived:
                here[name] = expression(here)
            if all(constraint.expression(here) for constraint in family.constraints):
                brute.append(VOCABULARY.target(Configuration(family.name, settings)).tolist())
        task = task_of(SearchSpace(family, problem, device))
        assert len(task) == len(brute)
        if not brute:
            continue
        grammar, said = BatchGrammar(VOCABULARY, [task]), [[VOCABULARY.kernel(family.name)]]
        following = grammar.begin()
        for column in range(len(family.parameters)):
            following = grammar.follow(following.prefixes, column)
            for number, sentence in enumerate(said):
                wanted = {other[column + 1] for other in brute if other[:column + 1] == sentence}
                assert sorted(following.words[following.after == number].tolist()) == sorted(wanted)
                prefixes += 1
            said = [[*said[after], word] for after, word in zip(
                following.after.tolist(), following.words.tolist(), strict=True)]
    assert prefixes > 1000


@pytest.mark.parametrize("number", [0, 7, 16, 24])
def test_a_beam_as_wide_as_the_space_ranks_it_by_probability_and_probabilities_sum_to_one(number: int) -> None:
    task = SMALL[number % len(SMALL)]
    size = len(task)
    model = Dice(VOCABULARY, seed=number)
    found = beam_search(model, task, width=size, count=size)
    assert valid(found, task, size)
    assert sum(candidate.probability or 0.0 for candidate in found) == pytest.approx(1.0, abs=1e-6)
    for candidate in found[::max(1, size // 25)]:
        wanted = log_probability(model, task, candidate.configuration)
        assert candidate.log_probability == pytest.approx(wanted, abs=1e-5)


def test_a_narrow_beam_gives_the_true_probabilities_of_what_it_finds() -> None:
    model = Dice(VOCABULARY)
    for task in SMALL[:4]:
        for candidate in beam_search(model, task, width=3, count=3):
            wanted = log_probability(model, task, candidate.configuration)
            assert candidate.log_probability == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_fewer_than_count_come_only_from_smaller_spaces(width: int) -> None:
    for task in CASES:
        for count in (1, 3, 17):
            assert valid(beam_search(Dice(VOCABULARY, scale=30), task, width, count), task, count)


def test_the_same_answer_every_time_and_ties_go_by_kernel_and_row() -> None:
    for task in SMALL[:8]:
        first = beam_search(Dice(VOCABULARY), task, 5, 5)
        assert beam_search(Dice(VOCABULARY), task, 5, 5) == first
        one = task_of(task.spaces[0])
        flat = beam_search(Flat(VOCABULARY), one, len(one), len(one))
        order = [(-(candidate.log_probability or 0.0), one.number(candidate.configuration)) for candidate in flat]
        assert order == sorted(order)


def test_many_problems_at_once_get_what_each_gets_alone() -> None:
    translator = small_translator(VOCABULARY, 32)
    model = NumpyTranslator(translator.size, translator.arrays(), VOCABULARY)
    for candidates, task in zip(beam_search_many(model, CASES, 4, 4), CASES, strict=True):
        alone = beam_search(model, task, 4, 4)
        assert [one.log_probability for one in candidates] == pytest.approx(
            [one.log_probability for one in alone], abs=1e-4)
    assert beam_search_many(model, []) == []


def test_scores_that_are_no_numbers_still_give_valid_configurations() -> None:
    class Broken(Dice):
        def _scores(self, said: tuple[object, ...]) -> np.ndarray:
            scores = super()._scores(said)
            scores[::2], scores[1::5] = np.nan, -np.inf
            return scores

    for task in CASES[::5]:
        assert valid(beam_search(Broken(VOCABULARY), task, 4, 4), task, 4)


def test_a_forced_sentence_costs_nothing_and_asks_the_model_nothing_more() -> None:
    class Once(Dice):
        def advance(self, state: list[tuple[object, ...]], said: Allowed,
                    allowed: Allowed) -> tuple[list[tuple[object, ...]], np.ndarray]:
            raise AssertionError("there was nothing to decide")

    space = SearchSpace(TOYS[2], PROBLEMS[0], DEVICES[0])
    assert beam_search(Once(VOCABULARY), task_of(space)) == [Candidate(space[0], 0.0)]


def test_a_kernel_outside_the_vocabulary_is_refused() -> None:
    vocabulary = Vocabulary.build(TOYS[:1], DEVICES)
    with pytest.raises(CheckpointError, match=r"toy\.lonely"):
        beam_search(Dice(vocabulary), task_of(SearchSpace(TOYS[2], PROBLEMS[0], DEVICES[0])))
