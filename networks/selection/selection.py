"""LayerSelection: the kernel of each layer, remembered or predicted; its verification beside PyTorch's own operation.

A layer counts as its product or convolution with bias and ReLU; other epilogues are compared as a ReLU.

Both run on equal terms: in channels_last memory, with weights packed before. PyTorch's operation runs in the faster of
its two ways, with packed weights or as users call it. It counts as faster on clear evidence only: in two measurements,
some time apart and with newly packed weights. A network in which PyTorch computes these layers is measured later
(`compilation.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from seqtune.api import predict, predict_many
from seqtune.errors import CheckpointError, KernelError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.predictor.answering import answering
from seqtune.predictor.say import Say
from seqtune.results import Prediction
from seqtune.tuner.backends.measured_rates import doubt
from seqtune.tuner.measuring.comparison import Rule, faster_than, typical
from seqtune.tuner.measuring.timed_calls import time_calls
from seqtune.tuner.measuring.verification import HOPELESS, RULE

from ..nodes import Tuned
from ..plan.precisions import TOLERANCES
from ..program.bound_kernels import KernelBinder
from .choices import Choice
from .contestants import contestants
from .memory import ChoiceMemory
from .reports import NetworkVerification

SPLIT = Rule(margin=0.1)  # PyTorch's operation cuts the program in two, which costs more than a smaller lead gains
Call = Callable[[], object]
TOP = 5  # proposals that are ordered by their expected times; the first one is used


@dataclass(frozen=True, slots=True)
class LayerSelection:
    """Makes choices. `seconds` is the maximum for verifying one layer, `budget` that for the network's verification.

    For `checkpoint` and `journal`, None names the defaults. What was chosen before is used for equal layers.
    """

    verify: bool
    seconds: float
    budget: float
    checkpoint: str | Path | None
    journal: str | Path | None
    progress: Say
    known: dict[tuple[str, Problem], Choice] = field(default_factory=dict)  # of this process, by the device's key
    proposals: dict[tuple[str, Problem], Choice] = field(default_factory=dict)  # first ones, unmeasured
    reports: dict[str, NetworkVerification] = field(default_factory=dict)  # of this process, by the graph's digest

    def memory(self, device: Device) -> ChoiceMemory:
        """The choices of earlier processes with the same options, among them the budget, on which choices depend."""
        return ChoiceMemory(device, self.journal, self.checkpoint, self.verify,
                            {"seconds": self.seconds, "budget": self.budget} if self.verify else {})

    def choose(self, layers: Sequence[Tuned], device: Device) -> list[Choice]:
        """The known choice of each layer, of this or an earlier process; otherwise the first proposal.

        Equal layers are chosen once. Where no kernel solves a layer, its configuration is None. Attention that the
        checkpoint does not know gets what the shipped predictors answer.
        """
        key = device.key
        new = [problem for problem in dict.fromkeys(layer.problem for layer in layers)
               if (key, problem) not in self.known and (key, problem) not in self.proposals]
        if new:
            memory = self.memory(device)
            remembered = {problem: choice for problem in new if (choice := memory.find(problem)) is not None}
            self.known.update(((key, problem), choice) for problem, choice in remembered.items())
            self.propose([layer for layer in layers if layer.problem not in remembered], device)
            if not self.verify:
                choices = [self.proposals[key, problem] for problem in new if problem not in remembered]
                self.known.update(((key, choice.problem), choice) for choice in choices)
                if choices and not doubt():
                    memory.keep(choices)
        return [self.known.get((key, layer.problem)) or self.proposals[key, layer.problem] for layer in layers]

    def propose(self, layers: Sequence[Tuned], device: Device) -> list[Choice]:
        """The first proposal for each layer, whatever is known."""
        asked = [problem for problem in dict.fromkeys(layer.problem for layer in layers)
                 if (device.key, problem) not in self.proposals]
        self.proposals.update(((device.key, choice.problem), choice) for choice in self._predicted(asked, device))
        return [self.proposals[device.key, layer.problem] for layer in layers]

    def _predicted(self, problems: Sequence[Problem], device: Device) -> list[Choice]:
        """The first proposals, unmeasured. Problems of one predictor are searched together."""
        answered: dict[Problem, Choice] = {}
        groups: dict[tuple[str, str | Path], list[Problem]] = {}
        for problem in problems:
            try:
                name = answering(problem, device).name if self.checkpoint is None else self.checkpoint
            except KernelError as reason:
                self._say_unsolved(reason)
                answered[problem] = Choice(problem, None)
                continue
            groups.setdefault((problem.type, name), []).append(problem)
        for (kind, name), asked in groups.items():
            self.progress(f"predicting {len(asked)} layers: {kind}")
            try:
                answers = list(predict_many(asked, device, TOP, checkpoint=name, journal=self.journal))
            except CheckpointError as error:
                self._check_attention(kind, error)
                answers = [answer for problem in asked for answer in predict_many(
                    [problem], device, TOP, checkpoint=answering(problem, device).name, journal=self.journal)]
            for answer in answers:
                if not answer.candidates:
                    self._say_unsolved(answer.reason)
                    answered[answer.problem] = Choice(answer.problem, None)
                    continue
                first = answer.candidates[0]
                answered[answer.problem] = Choice(answer.problem, first.configuration, confidence=first.confidence)
        return [answered[problem] for problem in problems]

    def verify_layer(self, proposal: Choice, device: Device, seconds: float) -> Choice | None:
        """The proposal, or a configuration that is clearly faster; None where it cannot be verified in the seconds."""
        assert proposal.configuration is not None

        def verified(checkpoint: str | Path | None) -> Prediction:
            return predict(proposal.problem, device, TOP, verify=True, seconds=seconds, checkpoint=checkpoint,
                           journal=self.journal)

        try:
            try:
                prediction = verified(self.checkpoint)
            except CheckpointError as error:
                self._check_attention(proposal.problem.type, error)
                prediction = verified(None)
        except KernelError as reason:
            self._say_unsolved(reason)
            return replace(proposal, configuration=None, verified=True)
        if not prediction.verified:
            self.progress(f"not verified: {prediction.unverified}")
            return None
        return replace(proposal, configuration=fastest(prediction, proposal.configuration), verified=True)

    def _say_unsolved(self, reason: object) -> None:
        self.progress(f"PyTorch's operation stays: {reason}")

    def _check_attention(self, kind: str, error: CheckpointError) -> None:
        if kind != "attention" or self.checkpoint is None:  # a checkpoint need not know attention
            raise error
        self.progress(f"the shipped predictors answer for attention: {one_line(error, 200)}")


def fastest(prediction: Prediction, proposed: Configuration) -> Configuration:
    """The proposed configuration, or the fastest of those that a verification shows to be clearly faster.

    A lead that noise explains does not count: the proposal is better than chance, and a choice by noise is not. Where
    the proposal does not run, the least typical time decides. Where the verification had other candidates, the first of
    these takes its place; where there was no time to measure that one, the proposal stays.
    """
    measured = {proposal.configuration: proposal.measurement
                for proposal in (*prediction.candidates, prediction.default) if proposal.measurement is not None}
    correct = {configuration: measurement for configuration, measurement in measured.items()
               if math.isfinite(measurement.seconds)}
    reference = proposed if proposed in measured else prediction.candidates[0].configuration
    if reference not in measured:
        return proposed
    if reference not in correct:
        faster = list(correct)
    else:
        samples = {configuration: measurement.samples for configuration, measurement in correct.items()}
        faster = [*faster_than(reference, samples, RULE), *(
            configuration for configuration, measurement in correct.items()  # the reference was too slow to be compared
            if HOPELESS * measurement.seconds < correct[reference].seconds)]
    return min(faster, key=typical({name: correct[name].samples for name in faster}).__getitem__, default=proposed)


def compared(node: Tuned, choice: Choice, binder: KernelBinder, guarded: Callable[[Call], Call]) -> Choice:
    """The choice with the typical times of our kernel and of PyTorch's operation, and whether theirs is faster.

    `guarded` is applied to every call that is timed: it may raise an exception, such as OutOfTime, instead of calling.
    """
    assert choice.configuration is not None
    with torch.no_grad():
        pair = contestants(node, choice.configuration, binder)
        plain, *packed = pair.theirs
        allowed = TOLERANCES[node.problem.dtype]
        forms = [plain, *(form for form in packed if difference([plain()], [form()]) < allowed)]
        runs = {"ours": pair.ours, **{str(index): form for index, form in enumerate(forms)}}
        taken = time_calls({name: guarded(run) for name, run in runs.items()})
    seconds, slower = typical(taken), bool(faster_than("ours", taken, SPLIT))
    ours = seconds.pop("ours")
    return replace(choice, seconds=ours, pytorch_seconds=min(seconds.values()), slower=slower)


def difference(expected: Sequence[Tensor], actual: Sequence[Tensor]) -> float:
    """The largest max|difference| / max|reference| of finite numbers; infinite where shapes or other numbers differ."""
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in actual]:
        return math.inf
    worst = 0.0
    for reference, result in zip(expected, actual, strict=True):
        finite = reference.isfinite()
        if not torch.equal(finite, result.isfinite()) \
                or not torch.allclose(reference[~finite], result[~finite], equal_nan=True):
            return math.inf
        if finite.any():
            numbers, expected_numbers = result[finite].double(), reference[finite].double()
            error = (numbers - expected_numbers).abs().max() / expected_numbers.abs().max().clamp(min=1e-30)
            worst = max(worst, float(error))
    return worst
