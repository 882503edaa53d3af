"""LayerSelection: the kernel of each layer of a network, remembered or predicted.

A layer counts as its product or convolution with bias and ReLU; other epilogues count as a ReLU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.measured_rates import doubt

from ..nodes import Tuned
from .choices import Choice
from .layer_predictor import LayerPredictor
from .memory import ChoiceMemory


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
