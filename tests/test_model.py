"""The translator: cached steps, its view of divisibility, growth, and the pretrained wrapper."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.beam import beam_search
from seqtune.predictor.features import QUANTITIES
from seqtune.predictor.model import FIT_SIZE, Dimensions, Source, Translator, TranslatorWords, fits
from seqtune.predictor.vocabulary import BEGIN, Batch, Vocabulary

DEVICE = Device("toy:a", "toy", "arch1", "simd", threads=2, vector_bits=512)
KERNEL = Kernel("toy.direct", "conv2d", ("toy",), tuple(
    Parameter(name, values) for name, values in (
        ("tile_w", (1, 2, 4, 7, 14)), ("vector", (4, 8, 16)), ("order", ("a", "b")), ("unroll", (1, 2, 4)),
        ("depth", (1, 2, 3, 4)), ("split", (1, 2)), ("stage", (1, 2, 3)))),
    (Constraint.of("tile_w <= row_w", "too wide"),), (("tile_w", 1),))
GEMM = Kernel("toy.gemm", "gemm", ("toy",), (Parameter("tile_m", (1, 2, 8)),), (), (("tile_m", 1),))
PROBLEMS = [Problem.make("conv2d", c=64, h=size, w=size, k=48, r=3, s=3) for size in (9, 16, 56)]
PROBLEMS.append(Problem.make("gemm", m=64, n=30, k=7))
VOCABULARY = Vocabulary.build([KERNEL, GEMM], [DEVICE])


def source(problems: list[Problem]) -> Source:
    return Source.of(Batch.of([VOCABULARY.source(problem, DEVICE) for problem in problems]))


@pytest.fixture
def translator() -> Translator:
    torch.manual_seed(0)
    return Translator.of(VOCABULARY).eval()


def test_it_stays_under_two_million_weights(translator: Translator) -> None:
    assert sum(weight.numel() for weight in translator.parameters()) < 2_000_000


def test_cached_steps_give_what_teacher_forcing_gives(translator: Translator) -> None:
    words = torch.randint(2, len(VOCABULARY.targets), (len(PROBLEMS), VOCABULARY.longest))
    words[:, 0] = BEGIN
    with torch.inference_mode():
        whole = translator(source(PROBLEMS), words)
        memory, past = translator.encode(source(PROBLEMS)), None
        for place in range(words.shape[1]):
            logits, past = translator.step(words[:, place], memory, past)
            torch.testing.assert_close(logits, whole[:, place], atol=1e-5, rtol=1e-4)


def test_no_word_sees_the_words_after_it(translator: Translator) -> None:
    words = torch.full((1, VOCABULARY.longest), BEGIN)
    other = words.clone()
    other[:, 3:] = 4
    with torch.inference_mode():
        first, second = translator(source(PROBLEMS[:1]), words), translator(source(PROBLEMS[:1]), other)
    torch.testing.assert_close(first[:, :3], second[:, :3])
    assert (first[:, 3:] - second[:, 3:]).abs().max() > 1e-3


def test_the_order_of_words_matters() -> None:
    torch.manual_seed(0)
    shallow = Translator.of(VOCABULARY, layers=1).eval()  # deeper ones could tell without positions
    words = torch.tensor([[BEGIN, 4, 5, 6], [BEGIN, 5, 4, 6]])
    with torch.inference_mode():
        one, other = shallow(source(PROBLEMS[:1] * 2), words)[:, -1]
    assert (one - other).abs().max() > 1e-3


def test_padding_changes_nothing(translator: Translator) -> None:
    gemm = PROBLEMS[-1]
    assert len(VOCABULARY.source(gemm, DEVICE).names) < len(VOCABULARY.source(PROBLEMS[0], DEVICE).names)
    words = torch.full((1, 1), BEGIN)
    with torch.inference_mode():
        alone = translator(source([gemm]), words)
        padded = translator(source([PROBLEMS[0], gemm]), words.expand(2, 1))[1:]
    torch.testing.assert_close(alone, padded, atol=1e-5, rtol=1e-4)


def test_the_order_of_hypotheses_is_free(translator: Translator) -> None:
    model = TranslatorWords(translator, VOCABULARY)
    state, first = model.start([(problem, DEVICE) for problem in PROBLEMS])
    parents, words = np.array([2, 0, 0, 3]), np.array([3, 4, 5, 3])
    _, together = model.advance(state, parents, words)
    for row in range(4):
        alone, scores = model.start([(PROBLEMS[parents[row]], DEVICE)])
        assert scores[0] == pytest.approx(first[parents[row]], abs=1e-4)
        assert model.advance(alone, np.array([0]), words[row:row + 1])[1][0] == pytest.approx(together[row], abs=1e-4)


def test_a_value_is_seen_with_what_it_wastes() -> None:
    found = fits(torch.tensor([[56.0, 0.0]]), torch.tensor([14.0, 16.0, 0.0, 64.0]))
    assert found.shape == (1, 4, 2 * FIT_SIZE)
    assert found[0, 0, 1:FIT_SIZE].tolist() == [1.0, 1.0, 0.0]
    assert found[0, 1, 1:FIT_SIZE].tolist() == [0.875, 0.0, 0.0]
    assert found[0, 3, 1:FIT_SIZE].tolist() == [0.875, 0.0, 1.0]
    assert not found[:, 2].any()
    assert not found[:, :, FIT_SIZE:].any()


def test_training_reads_some_words_as_unknown_and_prediction_does_not(translator: Translator) -> None:
    words = torch.full((1, 1), BEGIN)
    batch = source(PROBLEMS[:1])
    assert torch.equal(translator(batch, words), translator(batch, words))
    noisy = Translator.of(VOCABULARY, dropout=0.0, word_dropout=0.5, number_dropout=0.1).train()
    assert not torch.equal(noisy(batch, words), noisy(batch, words))


def test_every_weight_learns(translator: Translator) -> None:
    translator.train()
    words = torch.full((len(PROBLEMS), VOCABULARY.longest), BEGIN)
    words[:, 1:] = torch.arange(2, 1 + VOCABULARY.longest)
    translator(source(PROBLEMS), words).logsumexp(-1).sum().backward()
    idle = [name for name, weight in translator.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert idle == []


def test_growing_keeps_what_was_learned_and_makes_room(translator: Translator) -> None:
    new = Kernel("toy.new", "conv2d", ("toy",), tuple(Parameter(f"p{number}", (1, 2)) for number in range(12)), (), ())
    device = Device("toy:b", "toy", "arch2", "simd")
    larger = VOCABULARY.extended([new], [device])
    grown = translator.grown(larger)
    words = torch.tensor([[BEGIN, 2, 5]])
    with torch.inference_mode():
        old = translator(source(PROBLEMS[:1]), words)
        assert torch.allclose(grown(source(PROBLEMS[:1]), words)[..., :old.shape[-1]], old, atol=1e-5)
        there = [Source.of(Batch.of([one.source(PROBLEMS[0], device)])) for one in (VOCABULARY, larger)]
        assert not torch.equal(there[0].words, there[1].words)
        before, after = translator(there[0], words), grown(there[1], words)
        assert torch.allclose(after[..., :old.shape[-1]], before, atol=1e-5), "a new word begins as <unknown>"
    problem = PROBLEMS[0]
    assert beam_search(TranslatorWords(grown, larger), [SearchSpace(new, problem, device)], 3, 3)


def test_a_warm_prediction_is_quick(translator: Translator) -> None:
    """A bound far above what it takes (some 10 ms on one thread), so that only a real loss fails."""
    model = TranslatorWords(translator, VOCABULARY)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = []
        for problem in PROBLEMS[:3] * 5:
            begin = time.process_time()
            assert len(beam_search(model, [SearchSpace(KERNEL, problem, DEVICE)], 5, 5)) == 5
            seconds.append(time.process_time() - begin)
    finally:
        torch.set_num_threads(threads)
    assert min(seconds) < 0.2


def test_dimensions_follow_the_vocabulary() -> None:
    size = Dimensions.of(VOCABULARY, width=64)
    assert (size.names, size.targets, size.longest) == (len(VOCABULARY.names), len(VOCABULARY.targets), 8)
    assert size.quantities == len(QUANTITIES)
    assert size.width == 64


def test_the_pretrained_wrapper_and_the_checkpoint_read_each_other(translator: Translator, tmp_path: Path) -> None:
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.pretrained import TranslatorModel

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    batch, words = source(PROBLEMS), torch.full((len(PROBLEMS), 2), BEGIN)
    Checkpoint(translator, VOCABULARY).save(ours)
    pretrained = TranslatorModel.from_pretrained(ours).eval()
    assert list(pretrained.state_dict()) == list(translator.state_dict())
    with torch.inference_mode():
        wanted = translator(batch, words)
        torch.testing.assert_close(pretrained(*batch, words), wanted)
        TranslatorModel.of(translator).save_pretrained(theirs)
        (theirs / "seqtune.json").write_bytes((ours / "seqtune.json").read_bytes())
        torch.testing.assert_close(Checkpoint.load(theirs).model(batch, words), wanted)


def test_the_pretrained_wrapper_trains_the_translator_itself(translator: Translator) -> None:
    from seqtune.predictor.pretrained import TranslatorModel

    model = TranslatorModel.of(translator).train()
    assert translator.source.training
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = translator.target.word.weight.detach().clone()
    model(*source(PROBLEMS), torch.full((len(PROBLEMS), 2), BEGIN)).square().sum().backward()
    optimizer.step()
    assert not torch.equal(before, translator.target.word.weight)
    assert model.translator is translator
