"""LayerSelection: the kernel of each layer, predicted and, with `verify`, compared with PyTorch's own operation.

A layer counts as its product or convolution with bias and ReLU; other epilogues are compared as a ReLU.

Equal terms mean channels_last memory and weights packed before. PyTorch's operation runs in the faster of its two ways,
with packed weights or as users call it. It is called faster on clear evidence only: in two looks, some time apart and
with newly packed weights. What the network gains by keeping it is measured later (`compilation.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.predictor.say import Say
from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder
from seqtune.tuner.backends.measured_rates import doubt
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.comparison import Rule, faster_than, typical
from seqtune.tuner.measuring.timed_calls import time_calls

from ..api import predict, predict_many
from ..errors import CheckpointError, KernelError, one_line
from ..proposals import answering_predictor
from ..results import Prediction
from .choice_memory import ChoiceMemory
from .contestants import contestants
from .network.nodes import Tuned
from .precisions import TOLERANCES
from .saved_choices import Choice

SPLIT = Rule(margin=0.1)  # PyTorch's operation cuts the program in two, which costs more than a smaller lead gains
TOP = 5  # proposals that are ordered by their expected times; the first one is used


@dataclass(frozen=True, slots=True)
class LayerSelection:
    """How choices are made: `seconds` is the time budget of one verification, None names the defaults."""

    verify: bool
    seconds: float
    checkpoint: str | Path | None
    journal: str | Path | None
    progress: Say
    known: dict[tuple[str, Problem], Choice] = field(default_factory=dict)  # of this process, by the device's key

    def memory(self, device: Device) -> ChoiceMemory:
        """The answers that earlier processes found with the same options."""
        return ChoiceMemory(device, self.journal, self.checkpoint, self.verify,
                            {"seconds": self.seconds} if self.verify else {})

    def choose(self, layers: Sequence[Tuned], binder: KernelBinder) -> list[Choice]:
        """Choose a kernel for each layer; equal layers are chosen once, and those of earlier processes remembered.

        What was measured under heavy load is not remembered. Where no kernel solves a layer, its configuration is None.
        Attention that the checkpoint does not know gets what the shipped predictors answer.
        """
        key = binder.device.key
        new = {layer.problem: layer for layer in reversed(layers) if (key, layer.problem) not in self.known}
        if new:
            memory = self.memory(binder.device)
            remembered = {problem: choice for problem in reversed(new)
                          if (choice := memory.find(problem)) is not None}
            asked = [new[problem] for problem in reversed(new) if problem not in remembered]
            meter = LoadMeter()
            choices = self._verified(asked, binder) if self.verify else self._predicted(asked, binder.device)
            if choices and not (meter.load().heavy if self.verify else doubt()):
                memory.keep(choices)
            self.known.update(((key, choice.problem), choice) for choice in (*remembered.values(), *choices))
        return [self.known[key, layer.problem] for layer in layers]

    def _predicted(self, layers: Sequence[Tuned], device: Device) -> list[Choice]:
        """The first proposals, unmeasured. Problems of one predictor are searched together."""
        answered: dict[Problem, Configuration | None] = {}
        groups: dict[tuple[str, str | Path], list[Problem]] = {}
        for problem in [layer.problem for layer in layers]:
            try:
                name = answering_predictor(problem, device) if self.checkpoint is None else self.checkpoint
            except KernelError as reason:
                self._say_unsolved(reason)
                answered[problem] = None
                continue
            groups.setdefault((problem.type, name), []).append(problem)
        for (kind, name), problems in groups.items():
            self.progress(f"predicting {len(problems)} layers: {kind}")
            try:
                answers = list(predict_many(problems, device, TOP, checkpoint=name, journal=self.journal))
            except CheckpointError as error:
                self._check_attention(kind, error)
                answers = [answer for problem in problems for answer in predict_many(
                    [problem], device, TOP, checkpoint=answering_predictor(problem, device), journal=self.journal)]
            for answer in answers:
                if not answer.candidates:
                    self._say_unsolved(answer.reason)
                answered[answer.problem] = answer.candidates[0].configuration if answer.candidates else None
        return [Choice(layer.problem, answered[layer.problem]) for layer in layers]

    def _verified(self, layers: Sequence[Tuned], binder: KernelBinder) -> list[Choice]:
        """The winners of verifications, with their times beside PyTorch's operation."""
        choices = []
        for number, layer in enumerate(layers, 1):
            self.progress(f"layer {number}/{len(layers)}: {layer.problem.brief()}")
            configuration = self._winner(layer.problem, binder.device)
            choice = Choice(layer.problem, configuration)
            choices.append(choice if configuration is None else compared(layer, choice, binder))
        for index, layer in enumerate(layers):
            if choices[index].slower:
                self.progress(f"a second look at {layer.problem.brief()}")
                choices[index] = compared(layer, choices[index], binder)
        return choices

    def _winner(self, problem: Problem, device: Device) -> Configuration | None:
        def verified(checkpoint: str | Path | None) -> Configuration:
            return likely_best(predict(problem, device, TOP, verify=True, seconds=self.seconds, checkpoint=checkpoint,
                                       journal=self.journal))

        try:
            return verified(self.checkpoint)
        except CheckpointError as error:
            self._check_attention(problem.type, error)
            return verified(None)
        except KernelError as reason:
            self._say_unsolved(reason)
            return None

    def _say_unsolved(self, reason: object) -> None:
        self.progress(f"PyTorch's operation stays: {reason}")

    def _check_attention(self, kind: str, error: CheckpointError) -> None:
        if kind != "attention" or self.checkpoint is None:  # a checkpoint need not know attention
            raise error
        self.progress(f"the shipped predictors answer for attention: {one_line(error, 200)}")


def likely_best(prediction: Prediction) -> Configuration:
    """The configuration of a verification that is probably the fastest, also where the evidence is no proof.

    On a busy machine few leads over the safe default are significant, and the default is seldom the best.
    """
    if not prediction.verified or prediction.significant:
        return prediction.configuration
    seconds = {proposal.configuration: proposal.measurement.seconds
               for proposal in (*prediction.candidates, prediction.default)
               if proposal.measurement is not None and math.isfinite(proposal.measurement.seconds)}
    return min(seconds, key=lambda configuration: seconds[configuration], default=prediction.configuration)


def compared(node: Tuned, choice: Choice, binder: KernelBinder) -> Choice:
    """The choice with the typical times of our kernel and of PyTorch's operation, and whether theirs is faster."""
    assert choice.configuration is not None
    with torch.no_grad():
        pair = contestants(node, choice.configuration, binder)
        plain, *packed = pair.theirs
        allowed = TOLERANCES[node.problem.dtype]
        forms = [plain, *(form for form in packed if difference([plain()], [form()]) < allowed)]
        taken = time_calls({"ours": pair.ours, **{str(index): form for index, form in enumerate(forms)}})
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
