"""The judge of whole configurations: its loss, and what it learns."""

from __future__ import annotations

import numpy as np
import torch

from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks.targets import ESTIMATED, PrefixTree
from seqtune.predictor.sequence.grammar import ResolvedByRow
from seqtune.predictor.sequence.vocabulary import PAD, SourceBatch, Vocabulary
from seqtune.predictor.translator.judge import list_loss
from seqtune.predictor.translator.translator import Listed, Source
from tests.support.devices import device_of
from tests.support.learning.translators import small_translator

CPU = device_of("llvm")
PROBLEM = Problem.make("gemm", m=64, n=96, k=32)


def landscape_of(count: int) -> tuple[Vocabulary, Task, PrefixTree]:
    task = Task.of(PROBLEM, CPU)
    vocabulary = Vocabulary.build(task.kernels, [CPU])
    slowness = np.linspace(0, 2, len(task))
    known = np.zeros(len(task), bool)
    known[:count] = True
    return vocabulary, task, PrefixTree(task, slowness, vocabulary, 0.04, known=known)


def test_configurations_with_weight_0_do_not_change_the_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    estimate, slowness = (torch.rand(2, 6, generator=generator) for _ in range(2))
    weight = torch.tensor([[1.0, 1, 0.3, 1, 0, 0], [1, 1, 1, 1, 0, 0]])
    other = torch.where(weight > 0, estimate, 7.0)
    assert torch.equal(list_loss(estimate, slowness, weight), list_loss(other, slowness, weight))


def test_the_loss_is_least_for_the_true_order_whatever_is_added_to_all_estimates() -> None:
    slowness, weight = torch.tensor([[0.0, 0.1, 0.4, 1.0]]), torch.ones(1, 4)
    right = list_loss(slowness + 3.0, slowness, weight)
    assert right < 1e-5
    assert list_loss(slowness.flip(1), slowness, weight) > 1


def test_a_landscape_holds_each_configuration_once_with_its_words_and_whether_it_was_measured() -> None:
    vocabulary, task, tree = landscape_of(40)
    drawn = tree.landscape(np.random.default_rng(0), 32)
    wanted = {tuple(vocabulary.target(task[number]).tolist()): number for number in range(len(task))}
    numbers = [wanted[tuple(row[row != PAD].tolist())] for row in drawn.words]
    assert len(set(numbers)) == 32
    np.testing.assert_allclose(drawn.slowness, np.log1p(np.linspace(0, 2, len(task)))[numbers], rtol=1e-5)
    assert drawn.weight.tolist() == [1.0 if number < 40 else np.float32(ESTIMATED) for number in numbers]
    assert sum(number < 40 for number in numbers) >= 24


def test_the_judge_learns_to_order_a_landscape() -> None:
    vocabulary, task, tree = landscape_of(len(Task.of(PROBLEM, CPU)))
    model = small_translator(vocabulary, judge=24, dropout=0.0)
    source = Source.of(SourceBatch.of([vocabulary.source(task.problem, task.device)]))
    optimizer, generator = torch.optim.Adam(model.parameters(), 3e-3), np.random.default_rng(0)

    def order_of(drawn: Listed) -> torch.Tensor:
        states = model.read(source)
        return model.slowness(states, source.mask, model.target(source.quantities), drawn)

    for _ in range(60):
        drawn = tree.landscape(generator, 64)
        listed = Listed(torch.from_numpy(drawn.words)[None], torch.from_numpy(drawn.resolved)[None])
        loss = list_loss(order_of(listed), torch.from_numpy(drawn.slowness)[None],
                         torch.from_numpy(drawn.weight)[None])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    drawn = tree.landscape(np.random.default_rng(1), 64)
    listed = Listed(torch.from_numpy(drawn.words)[None], torch.from_numpy(drawn.resolved)[None])
    estimate = order_of(listed)[0].detach().numpy()
    assert np.corrcoef(np.argsort(np.argsort(estimate)), np.argsort(np.argsort(drawn.slowness)))[0, 1] > 0.8


def test_the_judge_in_numpy_is_that_in_pytorch() -> None:
    vocabulary, task, _ = landscape_of(8)
    model = small_translator(vocabulary, seed=1, layers=2, judge=24).eval()
    checkpoint = Checkpoint.of_translator(model, vocabulary)
    assert checkpoint.judge is not None
    numbers = np.random.default_rng(0).permutation(len(task))[:50]
    source = Source.of(SourceBatch.of([vocabulary.source(task.problem, task.device)]))
    rows = [vocabulary.target(task[number]) for number in numbers.tolist()]
    words = np.full((1, 50, vocabulary.longest), PAD, np.int64)
    for index, row in enumerate(rows):
        words[0, index, :len(row)] = row
    indices, values = ResolvedByRow(task.spaces[0], vocabulary).complete(numbers)
    resolved = np.full((len(numbers), len(vocabulary.derived)), np.nan, np.float32)
    resolved[:, indices] = values
    with torch.inference_mode():
        states = model.read(source)
        wanted = model.slowness(states, source.mask, model.target(source.quantities),
                                Listed(torch.from_numpy(words), torch.from_numpy(resolved)[None]))[0]
    np.testing.assert_allclose(checkpoint.judge.slowness(task, numbers), wanted.numpy(), atol=2e-5)
