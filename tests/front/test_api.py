"""The Python functions of the front."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import seqtune
from seqtune.api.inputs import as_problem
from seqtune.api.results import Answer
from seqtune.api.tuning.results import Tuned
from seqtune.api.tuning.run import DEFAULT_TRIALS, make_plan
from seqtune.data.record import Measurement, Status
from seqtune.errors import CheckpointError, DeviceError, KernelError, MisuseError, ProblemError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import names
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.verification import verify
from seqtune.tuner.run.plan import Budget
from seqtune.tuner.run.result import TuningResult
from tests.support import planted
from tests.support.untrained import save

CONV = Problem.make("conv2d", c=16, h=14, w=14, k=32, r=3, s=3, pad_h=1, pad_w=1)
LLVM = [name for name in names() if name.startswith("llvm.")]
TEXT = "conv2d c=16 h=14 w=14 k=32 r=3 s=3 pad=1"


def test_a_problem_may_be_an_object_a_text_a_mapping_or_a_module(checkpoint: Path) -> None:
    forms = [CONV, TEXT, {"type": "conv2d", "c": 16, "h": 14, "w": 14, "k": 32, "r": 3, "s": 3, "pad": 1}]
    answers = [seqtune.predict(form, "llvm:0", top=3, checkpoint=checkpoint) for form in forms]
    module = nn.Conv2d(16, 32, 3, padding=1, bias=False)
    answers.append(seqtune.predict(module, "llvm:0", top=3, checkpoint=checkpoint, input_shape=(1, 16, 14, 14)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].problem == CONV
    assert answers[0].configuration == answers[0].candidates[0].configuration


@pytest.mark.parametrize(("problem", "says"), [
    (nn.Conv2d(3, 8, 3), "needs input_shape"), (nn.ReLU(), "a ReLU is not a problem"),
    (nn.Sequential(nn.Linear(3, 8)), "Whole networks are for `predict --onnx` and seqtune.pytorch.optimize"),
    (7, "a int is not a problem"),
    ({"type": 3}, "the type of a problem is a word"), ("", "no problem")])
def test_an_object_that_is_not_a_problem_is_refused(problem: object, says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        as_problem(problem)


def test_a_checkpoint_that_is_read_again_predicts_the_same(checkpoint: Path, tmp_path: Path) -> None:
    again = shutil.copytree(checkpoint, tmp_path / "copy")  # under another name, so it is not in memory
    first, second = (seqtune.predict(CONV, checkpoint=folder) for folder in (checkpoint, again))
    assert first.candidates == second.candidates


def test_a_checkpoint_that_changes_on_disk_is_read_again(tmp_path: Path) -> None:
    folder = save(tmp_path / "changing", find("llvm:0"), *(name for name in LLVM if name != "llvm.gemm"))
    seqtune.predict(CONV, checkpoint=folder)
    with pytest.raises(CheckpointError, match=r"llvm\.gemm is not in it"):
        seqtune.predict("gemm m=8 n=8 k=8", checkpoint=folder)
    save(folder, find("llvm:0"), *LLVM)
    assert seqtune.predict("gemm m=8 n=8 k=8", checkpoint=folder).candidates


def test_there_is_no_silent_fall_back_where_the_checkpoint_does_not_know_the_kind_of_device(tmp_path: Path) -> None:
    other = Device("other:0", "other", "x", "y")
    folder = save(tmp_path / "foreign", other, *LLVM)
    with pytest.raises(CheckpointError, match="not trained for llvm devices"):
        seqtune.predict(CONV, checkpoint=folder)


def test_mistakes_have_their_own_exceptions(checkpoint: Path) -> None:
    with pytest.raises(DeviceError, match="llvm:77"):
        seqtune.predict(CONV, "llvm:77", checkpoint=checkpoint)
    with pytest.raises(KernelError, match="fp32 only"):
        seqtune.predict("gemm m=8 n=8 k=8 dtype=fp16", checkpoint=checkpoint)
    with pytest.raises(MisuseError, match="top=0"):
        seqtune.predict(CONV, top=0, checkpoint=checkpoint)
    with pytest.raises(MisuseError, match="trials=0"):
        seqtune.tune(CONV, trials=0)


def test_only_searches_that_do_not_end_need_a_budget() -> None:
    problems = [Problem.make("gemm", m=16, n=16, k=16)]
    assert [make_plan(problems, Budget(), strategy, 0, False).budget.trials
            for strategy in ("random", "exhaustive", "local", "portfolio")] == [
        DEFAULT_TRIALS, None, None, DEFAULT_TRIALS]
    assert make_plan(problems, Budget(seconds=1.0), "random", 0, False).budget == Budget(seconds=1.0)


def test_tuning_in_python_returns_what_was_found(tmp_path: Path) -> None:
    steps: list[int] = []
    report = seqtune.tune("gemm m=16 n=16 k=16", trials=6, journal=tmp_path / "j.sqlite",
                          progress=lambda step: steps.append(step.done))
    result, = report.results
    assert steps == [1, 2, 3, 4, 5, 6]
    assert result.trials == result.measured == 6
    assert result.best_seconds is not None
    assert result.default_seconds is not None
    assert result.best_seconds <= result.default_seconds
    assert result.confidence is not None
    assert 0 <= result.confidence <= 1


def planted_runner() -> Runner:
    return Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH)


def test_a_planted_wrong_candidate_never_wins() -> None:
    """The default sleeps a millisecond; every faster candidate is wrong, each in another way."""
    wrong = [planted.deed(name) for name in ("wrong", "nan", "unwritten", "overrun", "compile", "launch", "segv")]
    with planted_runner() as runner:
        verdict = verify(runner, planted.PROBLEM, wrong, planted.deed("good", wait=1), seconds=60.0)
    assert verdict.winner == planted.deed("good", wait=1)
    assert not verdict.significant
    assert all(verdict.measurements[one].status is not Status.CORRECT for one in wrong)


def test_a_planted_slow_candidate_never_wins_and_a_fast_one_does() -> None:
    slow, fast = planted.deed("good", wait=200), planted.deed("good", number=1)  # both by a factor of 100 or more
    default = planted.deed("good", wait=2)
    with planted_runner() as runner:
        verdict = verify(runner, planted.PROBLEM, [slow], default, seconds=60.0)
        assert (verdict.winner, verdict.significant) == (default, False)
        verdict = verify(runner, planted.PROBLEM, [slow, fast], default, seconds=60.0)
        assert (verdict.winner, verdict.significant) == (fast, True)
        assert verdict.speedup is not None
        assert verdict.speedup > 1


@pytest.mark.parametrize(("device", "options", "says"), [
    (None, {}, "is not a device"), ("llvm:0", {"top": 2.5}, "top=2.5"), ("llvm:0", {"seconds": None}, "seconds")])
def test_values_of_another_type_are_refused_in_one_line(device: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        seqtune.predict(CONV, device, **options)


def test_the_resources_of_a_gpus_kernel_are_told_with_its_measurement_and_a_cpu_has_none() -> None:
    good, needs = planted.deed("good"), planted.RESOURCES.to_json()
    for resources, told in ((planted.RESOURCES, {"resources": needs}), (None, {})):
        measurement = Measurement(Status.CORRECT, (2.0, 1.0), 0.0, resources=resources)
        proposal = Answer(good, 0.5, measurement).to_json()
        assert {name: value for name, value in proposal.items() if name == "resources"} == told
        failed = {planted.deed("segv"): Measurement(Status.CRASH, message="signal 6")}
        result = TuningResult(planted.PROBLEM, planted.DEVICE, good, measurement, good, ((good, measurement),), 3, 1,
                              400, failed)
        tuned = Tuned.of(result).to_json()
        assert tuned["best"] == {"kernel": good.kernel, "configuration": dict(good.settings), "seconds": 1.5, **told}
        assert (tuned["trials"], tuned["measured"], tuned["failed"]) == (3, 2, 1)
        assert tuned["failures"] == [{"status": "crash", "count": 1, "message": "signal 6", "common": {},
                                      "configuration": dict(planted.deed("segv").settings)}]
