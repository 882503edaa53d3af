"""Tests of the translator: sentences, divisibility, and extended vocabularies."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.sequence.beam import Allowed, beam_search, beam_search_many
from seqtune.predictor.sequence.vocabulary import BEGIN, SourceBatch, Vocabulary
from seqtune.predictor.translator.numpy_translator import NumpyTranslator
from seqtune.predictor.translator.quantity_codes import resolved_numbers
from seqtune.predictor.translator.translator import Choices, Source, Translator
from tests.support.tasks import task_of

DEVICE = Device("toy:a", "toy", "arch1", "simd", threads=2, vector_bits=512)
KERNEL = Kernel("toy.direct", "conv2d", ("toy",), tuple(
    Parameter(name, values) for name, values in (
        ("tile_w", (1, 2, 4, 7, 14)), ("vector", (4, 8, 16)), ("order", ("a", "b")), ("unroll", (1, 2, 4)),
        ("depth", (1, 2, 3, 4)), ("split", (1, 2)), ("stage", (1, 2, 3)))),
    (Constraint.of("tile_w <= row_w", "too wide"),), (("tile_w", 1),),
    derived=(("lanes", Expression("vector * split")),
             ("w_waste", Expression("ceil_div(row_w, tile_w) * tile_w / row_w"))))
GEMM = Kernel("toy.gemm", "gemm", ("toy",), (Parameter("tile_m", (1, 2, 8)),), (), (("tile_m", 1),))
PROBLEMS = [Problem.make("conv2d", c=64, h=size, w=size, k=48, r=3, s=3) for size in (9, 16, 56)]
PROBLEMS.append(Problem.make("gemm", m=64, n=30, k=7))
VOCABULARY = Vocabulary.build([KERNEL, GEMM], [DEVICE])


def source(problems: list[Problem]) -> Source:
    return Source.of(SourceBatch.of([VOCABULARY.source(problem, DEVICE) for problem in problems]))


def resolved(*shape: int, seed: int = 0) -> torch.Tensor:
    """Random quantities of the given shape, a part of them not resolved."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn((*shape, len(VOCABULARY.derived)), generator=generator) * 3
    return torch.where(torch.rand(found.shape, generator=generator) < 0.3, torch.nan, found)


def every(words: torch.Tensor) -> Choices:
    """Choices of every target word after each of the words."""
    targets = len(VOCABULARY.targets)
    return Choices(torch.arange(words.numel()).repeat_interleave(targets), torch.arange(targets).repeat(words.numel()),
                   resolved(words.numel() * targets, seed=1))


def logits(translator: Translator, read: Source, words: torch.Tensor) -> torch.Tensor:
    """The scores of all target words, (sentence, step, target word)."""
    scores: torch.Tensor = translator(read, words, resolved(1, words.shape[1]).expand(len(words), -1, -1), every(words))
    return scores.view(*words.shape, -1)


@pytest.fixture
def translator() -> Translator:
    torch.manual_seed(0)
    return Translator.of(VOCABULARY).eval()


def test_no_word_sees_the_words_after_it_nor_what_they_settle(translator: Translator) -> None:
    words = torch.full((1, VOCABULARY.longest), BEGIN)
    other, choices = words.clone(), every(words)
    other[:, 3:] = 4
    said, settling = torch.full((1, VOCABULARY.longest, 2), torch.nan), resolved(1, VOCABULARY.longest)
    settling[:, :5] = torch.nan
    with torch.inference_mode():
        first, second, third = (
            translator(source(PROBLEMS[:1]), *given, choices).view(VOCABULARY.longest, -1)
            for given in ((words, said), (other, said), (words, settling)))
    torch.testing.assert_close(first[:3], second[:3])
    assert (first[3:] - second[3:]).abs().max() > 1e-3
    torch.testing.assert_close(first[:5], third[:5])
    assert (first[5:] - third[5:]).abs().max() > 1e-3


def test_a_word_is_scored_by_what_it_settles(translator: Translator) -> None:
    words = torch.full((1, 1), BEGIN)
    choices = Choices(torch.zeros(3, dtype=torch.int64), torch.full((3,), 4),
                      torch.tensor([[2.0, torch.nan], [3.0, torch.nan], [2.0, torch.nan]]))
    with torch.inference_mode():
        one, other, again = translator(source(PROBLEMS[:1]), words, torch.full((1, 1, 2), torch.nan), choices)
    assert abs(one - other) > 1e-4
    assert one == again


def test_codes_of_resolved_quantities_are_finite_and_zero_where_nothing_is_resolved() -> None:
    found = resolved_numbers(torch.tensor([[0.0, torch.nan], [48.0, -14.0]]))
    assert found.isfinite().all()
    known, unknown = found[0].view(2, -1)
    assert known.tolist() == [1, 0, 0, 1, 1, 1 / 16]
    assert not unknown.any()


def test_padding_changes_nothing(translator: Translator) -> None:
    gemm = PROBLEMS[-1]
    assert len(VOCABULARY.source(gemm, DEVICE).names) < len(VOCABULARY.source(PROBLEMS[0], DEVICE).names)
    words = torch.full((1, 1), BEGIN)
    with torch.inference_mode():
        alone = logits(translator, source([gemm]), words)
        padded = translator(source([PROBLEMS[0], gemm]), words.expand(2, 1), resolved(1, 1).expand(2, -1, -1),
                            every(words)._replace(position=torch.ones(len(VOCABULARY.targets), dtype=torch.int64)))
    torch.testing.assert_close(alone.flatten(), padded, atol=1e-5, rtol=1e-4)


def test_training_reads_some_words_as_unknown_and_prediction_does_not(translator: Translator) -> None:
    words = torch.full((1, 1), BEGIN)
    batch = source(PROBLEMS[:1])
    assert torch.equal(logits(translator, batch, words), logits(translator, batch, words))
    noisy = Translator.of(VOCABULARY, dropout=0.0, word_dropout=0.5, number_dropout=0.1).train()
    assert not torch.equal(logits(noisy, batch, words), logits(noisy, batch, words))


def test_growing_keeps_what_was_learned_and_makes_room(translator: Translator) -> None:
    new = Kernel("toy.new", "conv2d", ("toy",), tuple(Parameter(f"p{number}", (1, 2)) for number in range(12)), (), (),
                 derived=(("lanes", Expression("p0")), ("depths", Expression("p1 * p2"))))
    device = Device("toy:b", "toy", "arch2", "simd2")
    larger = VOCABULARY.extended([new], [device])
    assert larger.derived == (*VOCABULARY.derived, "depths")
    grown = translator.grown(larger)
    words = torch.tensor([[BEGIN, 2, 5]])
    said, choices = resolved(1, 3), every(words)
    wider = [torch.cat([known, torch.ones(*known.shape[:-1], 1)], dim=-1) for known in (said, choices.resolved)]
    with torch.inference_mode():
        old = translator(source(PROBLEMS[:1]), words, said, choices)
        more = grown(source(PROBLEMS[:1]), words, wider[0], choices._replace(resolved=wider[1]))
        torch.testing.assert_close(more, old, msg="a new quantity begins as of no influence")
        there = [Source.of(SourceBatch.of([one.source(PROBLEMS[0], device)])) for one in (VOCABULARY, larger)]
        assert not torch.equal(there[0].words, there[1].words)
        before = translator(there[0], words, said, choices)
        after = grown(there[1], words, wider[0], choices._replace(resolved=wider[1]))
        torch.testing.assert_close(after, before, msg="a new word begins as <unknown>")
    problem = PROBLEMS[0]
    grown_words = NumpyTranslator(grown.size, grown.arrays(), larger)
    assert beam_search(grown_words, task_of(SearchSpace(new, problem, device)), 3, 3)


def test_a_prediction_asks_the_model_once_for_each_word(translator: Translator) -> None:
    """All hypotheses and problems go through the decoder together: its time is that of the longest sentence."""
    steps: list[int] = []

    class Counted(NumpyTranslator):
        def advance(self, state: Any, words: Allowed, allowed: Allowed) -> Any:
            steps.append(len(words.words))
            return super().advance(state, words, allowed)

    tasks = [task_of(SearchSpace(KERNEL, problem, DEVICE)) for problem in PROBLEMS[:3]]
    for candidates in beam_search_many(Counted(translator.size, translator.arrays(), VOCABULARY), tasks, 5, 5):
        assert len(candidates) == 5
    assert 0 < len(steps) <= 1 + len(KERNEL.parameters)  # <begin>, too
    assert max(steps) > 3, "hypotheses of several problems are in one step"
