"""The stages of a prediction: order, evidence, confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor import proposing
from seqtune.predictor.candidate import Confidence
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.proposing import Candidates
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import PROPOSALS, Ranker
from tests.support.learning.translators import small_translator
from tests.support.synthetic import WIDE, data, registered

KERNEL = Kernel("toy.plain", "gemm", ("fake",), (Parameter("tile", (1, 2, 4, 8)), Parameter("unroll", (1, 2, 3))),
                (), ())
TASK = Task.of(Problem.make("gemm", m=8, n=8, k=8), WIDE, (KERNEL,))
VOCABULARY = Vocabulary.build([KERNEL], [WIDE])
CHECKPOINT = Checkpoint.of_translator(small_translator(VOCABULARY), VOCABULARY)


class Backwards:
    """Evidence that a configuration with a higher number is faster."""

    def correct(self, candidates: Candidates) -> Candidates:
        return replace(candidates, slowness=1.0 - candidates.numbers / len(TASK))


class ByOrder:
    """An estimator that is less sure of each next candidate."""

    def confidences(self, candidates: Candidates, count: int | None = None) -> Sequence[Confidence]:
        return [Confidence(1 - index / 100, 0.0, 1.0) for index in range(len(candidates))][:count]


def test_slowness_orders_proposals_and_keeps_the_sum_of_their_probabilities() -> None:
    candidates = Candidates(TASK, np.arange(3), np.log([0.5, 0.3, 0.1]), np.array([0.2, 0.1, 0.0]))
    ordered = candidates.ordered()
    assert ordered.numbers.tolist() == [2, 1, 0]
    assert ordered.slowness.tolist() == [0.0, 0.1, 0.2]
    assert np.exp(ordered.posterior()).sum() == pytest.approx(0.9)
    assert np.exp(ordered.log_probabilities) == pytest.approx([0.1, 0.3, 0.5])
    unknown = replace(candidates, slowness=np.array([np.nan, 0.1, 0.0])).ordered()
    assert unknown.numbers.tolist() == [0, 1, 2], "without a slowness of each, the beam's order stands"


def test_evidence_changes_the_order_and_nothing_else() -> None:
    (plain,), (corrected,) = CHECKPOINT.propose([TASK], 12), CHECKPOINT.propose([TASK], 12, evidence=Backwards())
    assert [candidate.configuration for candidate in corrected] == [TASK[number] for number in range(11, -1, -1)]
    assert {candidate.configuration for candidate in plain} == {candidate.configuration for candidate in corrected}


def test_an_estimator_gives_every_candidate_its_confidence() -> None:
    (candidates,) = replace(CHECKPOINT, estimator=ByOrder()).propose([TASK], 2)
    assert [candidate.confidence for candidate in candidates] == [Confidence(1.0, 0.0, 1.0), Confidence(0.99, 0.0, 1.0)]
    assert CHECKPOINT.propose([TASK], 1)[0][0].confidence is None


def test_the_safe_default_has_the_confidence_of_its_rank_even_if_it_is_not_proposed() -> None:
    sure = replace(CHECKPOINT, estimator=ByOrder())
    (every,) = sure.propose([TASK], len(TASK))
    default = sure.safe_default(TASK)
    assert default.configuration == TASK.default
    assert default.confidence == next(one.confidence for one in every if one.configuration == TASK.default)
    assert CHECKPOINT.safe_default(TASK).confidence is None
    narrowed = TASK.narrowed(np.array([TASK[number] != TASK.default for number in range(len(TASK))]))
    assert narrowed.find(narrowed.default) is not None or sure.safe_default(narrowed).confidence is None


@pytest.mark.usefixtures("fake_kernel")
def test_experts_order_all_configurations_of_a_small_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with registered():
        tasks = measured_tasks(data(6, held_out=2, sampled=60), held_out=False)
    vocabulary = Vocabulary.build([tasks[0].task.kernels[0]], [measured.device for measured in tasks])
    trees = Ranker.of(Trees(tasks, TreesOptions(rounds=10, models=2, threads=1)))
    checkpoint = replace(Checkpoint.of_translator(small_translator(vocabulary), vocabulary), ranker=trees)
    task = tasks[0].task
    beam = checkpoint.proposer().scored(task, 1)
    assert len(beam) == PROPOSALS
    monkeypatch.setattr(proposing, "SMALL", len(task))
    whole = checkpoint.proposer().scored(task, 1)
    assert sorted(whole.numbers.tolist()) == list(range(len(task)))
    assert (np.diff(whole.slowness) >= 0).all()
    assert np.exp(whole.posterior()).sum() == pytest.approx(1.0)
    unknown = replace(checkpoint, ranker=Ranker({}, {})).proposer().scored(task, 1)
    assert sorted(unknown.numbers.tolist()) == sorted(beam.numbers.tolist()), "no expert knows it, so the beam proposes"
