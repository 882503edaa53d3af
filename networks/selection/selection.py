"""LayerSelection: the kernel of each layer of a network, remembered, or predicted by a LayerPredictor.

A layer counts as its product or convolution with bias and ReLU; other epilogues count as a ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seqtune.errors import CheckpointError, KernelError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say
from seqtune.predictor.answering import Answering, answering, propose_many
from seqtune.tuner.backends.measured_rates import doubt

from ..nodes import Tuned
from .choices import Choice
from .memory import ChoiceMemory

TOP = 5  # number of proposals, ordered by their expected times; the first one is used


@dataclass(frozen=True, slots=True)
class LayerPredictor:
    """Proposes configurations for layers. For `checkpoint` and `journal`, None names the defaults."""

    checkpoint: str | Path | None
    journal: str | Path | None
    progress: Say
    answering: Callable[[Problem, Device, str | Path | None], Answering] = answering

    def predict(self, problems: Sequence[Problem], device: Device) -> list[Choice]:
        """The first proposal for each layer, unmeasured. Layers of one kind and predictor are searched together.

        Where no kernel solves a layer, its configuration is None.
        """
        choices: dict[Problem, Choice] = {}
        groups: dict[tuple[str, str | Path], list[Answering]] = {}
        for problem in problems:
            try:
                asked = self._answering(problem, device)
            except KernelError as reason:
                self.progress(f"PyTorch's operation stays: {reason}")
                choices[problem] = Choice(problem, None)
            else:
                groups.setdefault((problem.type, asked.name), []).append(asked)
        for (kind, _), group in groups.items():
            self.progress(f"predicting {len(group)} layers: {kind}")
            for asked, (first, *_) in zip(group, propose_many(group, TOP, self.journal), strict=True):
                choices[asked.task.problem] = Choice(asked.task.problem, first.configuration)
        return [choices[problem] for problem in problems]

    def _answering(self, problem: Problem, device: Device) -> Answering:
        """The answering for a layer; for attention that the checkpoint does not know, that of a shipped predictor."""
        try:
            asked = self.answering(problem, device, self.checkpoint)
            asked.check_kernels()
        except CheckpointError as error:
            if problem.type != "attention" or self.checkpoint is None:  # a checkpoint need not know attention
                raise
            self.progress(f"the shipped predictors answer for attention: {one_line(error, 200)}")
            return self.answering(problem, device, None)
        return asked


@dataclass(frozen=True, slots=True)
class LayerSelection:
    """Makes choices, and reuses them for equal layers."""

    predictor: LayerPredictor
    known: dict[tuple[str, Problem], Choice] = field(default_factory=dict)  # in this process, by device key

    def memory(self, device: Device, **options: object) -> ChoiceMemory:
        """The choices of earlier processes; verdicts on whole networks depend on `options`, too."""
        return ChoiceMemory(device, self.predictor.journal, self.predictor.checkpoint, options)

    def choose(self, layers: Sequence[Tuned], device: Device) -> list[Choice]:
        """The known choice of each layer, of this or an earlier process; otherwise the first proposal.

        Equal layers are chosen once. Where no kernel solves a layer, its configuration is None.
        """
        key = device.key
        new = [problem for problem in dict.fromkeys(layer.problem for layer in layers)
               if (key, problem) not in self.known]
        if new:
            memory = self.memory(device)
            remembered = {problem: choice for problem in new if (choice := memory.find(problem)) is not None}
            predicted = self.predictor.predict([problem for problem in new if problem not in remembered], device)
            self.known.update(((key, choice.problem), choice) for choice in (*remembered.values(), *predicted))
            if predicted and not doubt():
                memory.keep(predicted)
        return [self.known[key, layer.problem] for layer in layers]
