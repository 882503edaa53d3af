"""LayerSelection: the kernel of each layer of a network, remembered or predicted.

A layer counts as its product or convolution with bias and ReLU; other epilogues are compared as a ReLU.
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
from .reports import NetworkVerification


@dataclass(frozen=True, slots=True)
class LayerSelection:
    """Makes choices, and reuses them for equal layers.

    `seconds` is the maximum for verifying one layer, `budget` the maximum for verifying the network.
    """

    verify: bool
    seconds: float
    budget: float
    predictor: LayerPredictor
    known: dict[tuple[str, Problem], Choice] = field(default_factory=dict)  # in this process, by device key
    proposals: dict[tuple[str, Problem], Choice] = field(default_factory=dict)  # first predictions, unmeasured
    reports: dict[str, NetworkVerification] = field(default_factory=dict)  # in this process, by graph digest

    def memory(self, device: Device) -> ChoiceMemory:
        """The choices of earlier processes with the same options, among them the budget, on which choices depend."""
        return ChoiceMemory(device, self.predictor.journal, self.predictor.checkpoint, self.verify,
                            {"seconds": self.seconds, "budget": self.budget} if self.verify else {})

    def choose(self, layers: Sequence[Tuned], device: Device) -> list[Choice]:
        """The known choice of each layer, of this or an earlier process; otherwise the first proposal.

        Equal layers are chosen once. Where no kernel solves a layer, its configuration is None.
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
        """The first proposal for each layer, also where a choice is known."""
        asked = [problem for problem in dict.fromkeys(layer.problem for layer in layers)
                 if (device.key, problem) not in self.proposals]
        predicted = self.predictor.predict(asked, device)
        self.proposals.update(((device.key, choice.problem), choice) for choice in predicted)
        return [self.proposals[device.key, layer.problem] for layer in layers]
