"""Who answers for GPUs: a shipped checkpoint where it knows the kernels, elsewhere the analytic model, at each door."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.api.bulk import predict_many
from seqtune.data.dataset import Dataset
from seqtune.data.shipped_machines import GPUS
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import silent
from seqtune.kernels.task import Task
from seqtune.predictor.answering import Answering, answering, seeds_for
from seqtune.predictor.checkpoint import CHOICES_OF_KERNELS, CHOICES_ON_CHIP, NEW_GPU
from seqtune.predictor.largest import MEASURE
from seqtune.predictor.learning.tasks.learning import LearnedProblems
from seqtune.predictor.predictors import answers_for
from seqtune.predictor.untrained import AnalyticPredictor
from tests.support.devices import described_gpu
from tests.support.installation.optional import TRAINING, skip_without
from tests.support.learning.chosen import OPTIONS, chosen_dataset
from tests.support.learning.progress import parted
from tests.support.learning.shipped_gpu import NAME, ship, ship_random

HALF = Problem.make("gemm", m=512, n=1024, k=256, dtype="fp16")
FULL = Problem.make("gemm", m=512, n=1024, k=256)


@pytest.fixture
def random_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint for GPUs with random weights is shipped."""
    ship_random(tmp_path, monkeypatch)


@pytest.mark.usefixtures("random_gpu")
class TestShippedForGpus:
    def test_the_shipped_checkpoint_answers_on_described_gpus_and_says_what_it_has_not_seen(self) -> None:
        assert {answers_for(backend) for backend in ("cuda", "triton")} == {NAME}
        for name in ("cuda:h100", "triton:h100", "triton:h200"):
            answer = seqtune.predict(HALF, name, top=2)
            assert (answer.predictor, answer.note, len(answer.candidates)) == (NAME, "", 2), name
        for name in ("cuda:a100", "triton:mi300x"):
            answer = seqtune.predict(HALF, name, top=1)
            assert (answer.predictor, answer.to_json()["note"]) == (NAME, NEW_GPU), name

    def test_the_analytic_model_answers_where_the_checkpoint_knows_no_kernel(self) -> None:
        for problem, name in ((FULL, "cuda:h100"),
                              (Problem.make("conv2d", c=64, h=28, w=28, k=64, r=3, s=3), "cuda:h100")):
            answer = seqtune.predict(problem, name, top=1)
            assert (answer.predictor, answer.note) == ("analytic", AnalyticPredictor.note)
        named = seqtune.predict(HALF, "cuda:h100", checkpoint="analytic")
        assert named.predictor == "analytic"

    def test_of_a_task_with_more_kernels_it_answers_with_those_that_it_knows(self) -> None:
        gpu = described_gpu("cuda", "h100")
        task = Task.of(HALF, gpu)
        assert len(task.spaces) == 2
        stranger = Task.of(FULL, gpu).spaces[0]
        asked = Answering.of(Task(HALF, gpu, (stranger, *task.spaces)))
        assert (asked.name, asked.task.kernels) == (NAME, task.kernels)
        assert {configuration.kernel for configuration in seeds_for(task)} <= {each.name for each in task.kernels}
        assert seeds_for(task)

    def test_many_problems_each_get_the_predictor_that_knows_their_kernels(self) -> None:
        answers = list(predict_many([FULL, HALF, FULL], "cuda:h100"))
        assert [answer.predictor for answer in answers] == ["analytic", NAME, "analytic"]
        assert [answer.to_json()["predictor"] for answer in answers] == ["analytic", NAME, "analytic"]
        for answer in answers:
            alone = seqtune.predict(answer.problem, "cuda:h100", top=1)
            assert answer.candidates[0].configuration == alone.candidates[0].configuration
            assert answer.note == alone.note
            one, many = alone.to_json(), answer.to_json()
            assert {name: one.get(name) for name in ("note", "confidence")} == \
                {name: many.get(name) for name in ("note", "confidence")}

    def test_the_command_names_who_answered(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["predict", "gemm", "m=512", "n=512", "k=512", "dtype=bf16", "--device", "triton:mi300x", "--top", "1"]
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["predictor"] == NAME
        assert main(words) == 0
        assert f"predictor {NAME}: {NEW_GPU}" in capsys.readouterr().out


@pytest.mark.parametrize(("kernels", "name", "note", "has_share"), [
    ("gemm", "triton:h100", "", True), ("gemm", "triton:a100", CHOICES_ON_CHIP, True),
    ("gemm", "triton:mi250x", NEW_GPU, True), ("experts", "triton:h100", CHOICES_OF_KERNELS, False),
    ("experts", "triton:mi250x", f"{NEW_GPU}; {CHOICES_OF_KERNELS}", False)])
def test_an_answer_says_if_only_choices_of_its_chip_or_its_kernels_were_learned(
        kernels: str, name: str, note: str, has_share: bool) -> None:
    problem = HALF if kernels == "gemm" else Problem.make(
        "fused_moe", tokens=16, experts=8, top_k=2, hidden=4096, intermediate=3584, half="up", dtype="bf16")
    answer = seqtune.predict(problem, name, top=1)
    (many,) = predict_many([problem], name)
    assert (answer.predictor, answer.note, many.note) == (NAME, note, note)
    assert (answer.confidence is not None) == has_share
    assert answer.to_json().get("note", "") == note
    with pytest.warns(DeprecationWarning, match="called notes"):
        assert answer.remarks() == answer.notes()
    assert answer.notes() == [f"predictor {NAME}: {note}" if note else f"predictor {NAME}"]


def test_a_problem_larger_than_all_training_problems_has_a_note() -> None:
    larger = Problem.make("gemm", m=16384, n=16384, k=16384, dtype="fp16")
    smaller = Problem.make("gemm", m=2, n=64, k=64, dtype="fp16")
    note = ("m=16384 is more than 4793, n=16384 is more than 12992, k=16384 is more than 7168 and flop=8.79609e+12 is "
            "more than 6.87195e+10, the most of the gemm problems that it has learned from on cuda, so the answer "
            "extrapolates")
    described = described_gpu("cuda", "h100")
    assert [answering(problem, described).notes for problem in (larger, smaller)] == [(note,), ()]
    assert seqtune.predict(larger, "cuda:h100", top=1).notes() == [f"predictor {NAME}: {note}"]
    assert answering(larger, replace(described, name="cuda:0")).notes == (f"{note}: {MEASURE}",)


@pytest.mark.slow
def test_a_training_on_times_and_choices_together_says_what_it_does_and_answers(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(*TRAINING)
    from seqtune.predictor.learning.tasks.training import train_model

    data = Dataset.read(GPUS / "nvidia_h100.parquet")
    times = replace(data, rows=data.rows[data.rows["kernel"] == "triton.gemm"])
    learned = LearnedProblems.of(times.merge(chosen_dataset(["a100", "h200"], [1024])), protect_held_out=False)
    steps: list[str] = []
    checkpoint, _ = train_model(learned.training, learned.held_out, replace(OPTIONS, epochs=1),
                                parted(silent, steps.append))
    assert [step.partition(",")[0] for step in steps[:2]] == ["growing trees: triton.gemm",
                                                              "growing trees: triton.scaled_gemm"]
    assert "making the examples" in steps[2]
    ship(checkpoint.save(tmp_path / "trained"), monkeypatch)
    asked = answering(HALF, described_gpu("triton", "h100"))
    assert (asked.name, asked.note) == (NAME, "")
    assert len(asked.propose(3)) == 3
