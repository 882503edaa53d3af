"""LayerPredictor: what the predictors propose for the layers of a network, and the verification of a proposal."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seqtune.errors import CheckpointError, KernelError, UnpreparedMisuseError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say
from seqtune.predictor.answering import Answering, answering, propose_many
from seqtune.tuner.backends.discovery import check_present
from seqtune.tuner.measuring.comparison import faster_than, typical
from seqtune.tuner.measuring.verification import HOPELESS, RULE, Verdict
from seqtune.tuner.task_verdict import UnverifiedError, check_runnable, verdict_on

from .choices import Choice

TOP = 5  # number of proposals, ordered by their expected times; the first one is used


@dataclass(frozen=True, slots=True)
class LayerPredictor:
    """Proposes configurations for layers and verifies them. For `checkpoint` and `journal`, None names the defaults."""

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
                self._say_unsolved(reason)
                choices[problem] = Choice(problem, None)
            else:
                groups.setdefault((problem.type, asked.name), []).append(asked)
        for (kind, _), group in groups.items():
            self.progress(f"predicting {len(group)} layers: {kind}")
            for asked, (first, *_) in zip(group, propose_many(group, TOP, self.journal), strict=True):
                choices[asked.task.problem] = Choice(asked.task.problem, first.configuration,
                                                     confidence=first.confidence)
        return [choices[problem] for problem in problems]

    def verify(self, proposal: Choice, device: Device, seconds: float) -> Choice | None:
        """The proposal, or a configuration that is clearly faster; None where it cannot be verified in the seconds."""
        assert proposal.configuration is not None
        try:
            asked = self._answering(proposal.problem, device)
            check_present(device)
            check_runnable(asked.task)
            candidates = list(asked.propose(TOP, asked.evidence(self.journal, verified=False)))
            verdict = verdict_on(asked.task, candidates, seconds, self.journal).verdict
        except KernelError as reason:
            self._say_unsolved(reason)
            return replace(proposal, configuration=None, verified=True)
        except (UnverifiedError, UnpreparedMisuseError) as reason:  # for example, its tensors are too large
            self.progress(f"not verified: {reason}")
            return None
        return replace(proposal, configuration=fastest(verdict, candidates, proposal.configuration), verified=True)

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

    def _say_unsolved(self, reason: object) -> None:
        self.progress(f"PyTorch's operation stays: {reason}")


def fastest(verdict: Verdict, candidates: Collection[Configuration], proposed: Configuration) -> Configuration:
    """The proposed configuration, or the fastest of those that a verification shows to be clearly faster.

    A lead that noise explains does not count: the proposal is better than chance, and a choice by noise is not. Where
    the proposal does not run, the least typical time decides. Where the verification had other candidates, their first
    one is the reference instead; where that was not measured for lack of time, the proposal stays.
    """
    measured = {configuration: verdict.measurements[configuration] for configuration in (*candidates, verdict.default)
                if configuration in verdict.measurements}
    correct = {configuration: measurement for configuration, measurement in measured.items()
               if math.isfinite(measurement.seconds)}
    reference = proposed if proposed in measured else next(iter(candidates))
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
