"""Answering: who answers a problem on a device, with which task, evidence and note.

Predictions of one problem and of many, explanations, the seeds of a search, reports and the hooks of other software
all ask here: the predictor is looked up once, and the task is built once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seqtune.errors import CheckpointError, KernelError
from seqtune.kernels.libraries.table import ALWAYS, libraries_in_use
from seqtune.kernels.task import Task
from seqtune.tuner.backends.measured_rates import warn_of_doubt

from .candidate import Candidate
from .checkpoint import Checkpoint
from .correction.device_evidence import DeviceEvidence, device_evidence
from .predictors import SAFE_DEFAULT, SHIPPED, UNTRAINED, answers_for, named_predictor, untrained_predictor

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem

    from .confidence.explanation import Explanation
    from .predictors import TaskPredictor

SEEDS = 8  # proposals of the predictor with which a search begins
MOST_PREDICTED = 24_000  # configurations whose time is predicted for a search: half a second


@dataclass(frozen=True, slots=True)
class Answering:
    """The predictor that answers a problem on a device, and the problem's task."""

    name: str | Path  # of the checkpoint (its folder, or its name) or of the untrained predictor
    predictor: TaskPredictor  # of a retrained checkpoint: the layer that answers for the device
    task: Task

    @classmethod
    def of(cls, task: Task, name: str | Path | None = None) -> Answering:
        """The predictor of a name, with a task that was made before. Raises CheckpointError as `predictor_for` does.

        Without a name it is that of the device's backend, or an untrained one if this knows none of the kernels. If it
        knows some, it answers with these.
        """
        chosen = answers_for(task.device.backend) if name is None else name
        return _answering(task, predictor_for(task.device, chosen), chosen, named=name is not None)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The predictor, if it is a checkpoint: others have neither experts nor confidences."""
        return self.predictor if isinstance(self.predictor, Checkpoint) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings that no measurement of the GPU, of the kernels or of such sizes was used; empty without any."""
        return self.predictor.notes(self.task)

    @property
    def note(self) -> str:
        """The notes in one line; empty without any."""
        return "; ".join(self.notes)

    def check_kernels(self) -> None:
        """Check that the predictor knows the task's kernels. Raises CheckpointError."""
        self.predictor.check_kernels(self.task.kernels)

    def evidence(self, journal: str | Path | None, verified: bool = True) -> DeviceEvidence | None:
        """The measurements of the task's device in a journal, as corrections of proposals; see `device_evidence`."""
        return _evidence(self.predictor, self.task.device, journal, verified)

    def propose(self, count: int, evidence: DeviceEvidence | None = None) -> dict[Configuration, Candidate]:
        """Propose up to `count` configurations as candidates, the most probable first.

        Raises CheckpointError if the predictor does not know the task's kernels.
        """
        self.check_kernels()
        (candidates,) = self.predictor.propose([self.task], count, None if evidence is None else evidence.correction)
        return {candidate.configuration: candidate for candidate in candidates}

    def safe_default(self, evidence: DeviceEvidence | None = None) -> Candidate:
        """The safe default as a candidate, which `propose` need not return; a checkpoint knows its confidence."""
        if self.checkpoint is None:
            return Candidate(self.task.default)
        return self.checkpoint.safe_default(self.task, None if evidence is None else evidence.correction)

    def explanation(self, proposals: Sequence[Configuration]) -> Explanation:
        """Explain the first proposal; the known problems are those of the shipped data set."""
        from .confidence.explanation import explain, shipped_winners

        numbers = np.array([self.task.number(configuration) for configuration in proposals])
        if self.checkpoint is None:
            return explain(self.task, proposals, None, shipped_winners())
        said = self.checkpoint.opinions(self.task, numbers)
        return explain(self.task, proposals, self.checkpoint.ranker, shipped_winners(), said)


def _evidence(predictor: TaskPredictor, device: Device, journal: str | Path | None,
              verified: bool = True) -> DeviceEvidence | None:
    """The evidence for a checkpoint; other predictors expect no times that measurements could correct."""
    return device_evidence(predictor, device, journal, verified) if isinstance(predictor, Checkpoint) else None


def answering(problem: Problem, device: Device, name: str | Path | None = None) -> Answering:
    """The predictor of a name, and the task of a problem on a device.

    Without a name it is that of `predictor_name`, or an untrained one where a shipped checkpoint knows no kernel that
    solves the problem. Raises CheckpointError, and KernelError if no kernel solves the problem.
    """
    chosen = predictor_name(problem, device) if name is None else name
    predictor = predictor_for(device, chosen)
    return _answering(predictor.task(problem, device), predictor, chosen, named=name is not None)


def _answering(task: Task, predictor: TaskPredictor, name: str | Path, named: bool) -> Answering:
    """The answer of the predictor of a name, which a user has `named` or not.

    If nobody has, and it is a shipped one, it answers with the kernels that it knows. Where it knows none, an untrained
    predictor answers: the analytic model on GPUs and the safe default on CPUs. A SeqtuneWarning is issued if the device
    was measured while the machine was busy.
    """
    warn_of_doubt()
    if not named and name in SHIPPED:
        known = tuple(space for space in task.spaces if predictor.knows([space.kernel]))
        if not known:
            for other in UNTRAINED:
                untrained = untrained_predictor(other)
                if task.device.backend in untrained.backends:
                    return Answering(other, untrained, task)
        elif len(known) < len(task.spaces):
            task = Task(task.problem, task.device, known)
    if isinstance(predictor, Checkpoint):
        predictor = predictor.on(task.device, task.kernels)
    return Answering(name, predictor, task)


def answering_many(problems: Sequence[Problem], device: Device, name: str | Path | None = None,
                   ) -> tuple[dict[Problem, Answering], dict[Problem, KernelError]]:
    """The answer to each problem, as `answering` gives it; and why no kernel solves the others.

    Each predictor is looked up once. Raises CheckpointError.
    """
    predictors: dict[str | Path, TaskPredictor] = {}
    answered: dict[Problem, Answering] = {}
    unsolved: dict[Problem, KernelError] = {}
    for problem in problems:
        chosen = predictor_name(problem, device) if name is None else name
        if chosen not in predictors:
            predictors[chosen] = predictor_for(device, chosen)
        try:
            task = predictors[chosen].task(problem, device)
        except KernelError as error:
            unsolved[problem] = error
        else:
            answered[problem] = _answering(task, predictors[chosen], chosen, named=name is not None)
    return answered, unsolved


def propose_many(answerings: Sequence[Answering], count: int, journal: str | Path | None = None,
                  evidence: bool = True) -> list[list[Candidate]]:
    """Propose configurations of several tasks of one device, each as it would be proposed alone.

    With `evidence`, the measurements of the device in the journal correct the proposals. Raises CheckpointError.
    """
    indices: dict[TaskPredictor, list[int]] = {}  # of those that each predictor answers
    for index, each in enumerate(answerings):
        indices.setdefault(each.predictor, []).append(index)
    candidates: dict[int, list[Candidate]] = {}
    for predictor, own in indices.items():
        tasks = [answerings[index].task for index in own]
        predictor.check_kernels({kernel.name: kernel for task in tasks for kernel in task.kernels}.values())
        known = _evidence(predictor, tasks[0].device, journal) if evidence else None
        proposed = predictor.propose(tasks, count, None if known is None else known.correction)
        candidates.update(zip(own, proposed, strict=True))
    return [candidates[index] for index in range(len(answerings))]


def predictor_name(problem: Problem, device: Device) -> str:
    """The name or folder of the predictor that answers for a problem on a device where none is named.

    It is the checkpoint of the library in use that was named last, if it has one and a kernel that solves the problem;
    otherwise the predictor of the device's backend. Raises CheckpointError if there is none.
    """
    for library in reversed([library for library in libraries_in_use() if library.name not in ALWAYS]):
        if not library.may_run_on(device.backend):
            continue
        solving = [name for name in library.table if library.kernel(name).why_not(problem, device) is None]
        if solving and library.checkpoint is not None:
            return library.checkpoint
        if solving and problem.type in library.operations:
            raise CheckpointError(f"no checkpoint knows {solving[0]}; train one (seqtune train) and name it "
                                  "(--checkpoint), or tune the problem (seqtune tune), and `seqtune build` builds the "
                                  "winner")
    return answers_for(device.backend)


def predictor_for(device: Device, name: str | Path) -> TaskPredictor:
    """The predictor of a name. Raises CheckpointError if it does not answer for the device's backend."""
    predictor = named_predictor(name)
    if device.backend not in predictor.backends:
        if not isinstance(predictor, Checkpoint):
            who, backends = f"the {name} predictor" if name in UNTRAINED else name, " and ".join(predictor.backends)
            raise CheckpointError(f"{who} answers for {backends} devices, not for {device.backend}")
        raise CheckpointError(f"the checkpoint {name} was not trained for {device.backend} devices; name "
                              "another, or retrain it with records of one")
    return predictor


def _for_search(task: Task, name: str | Path | None) -> Answering:
    """The predictor with which a search begins. Raises CheckpointError if only a safe default answers."""
    chosen = name or predictor_name(task.problem, task.device)
    predictor = predictor_for(task.device, chosen)
    asked = _answering(task, predictor, chosen, named=bool(name))
    if asked.name == SAFE_DEFAULT != chosen:
        predictor.check_kernels(task.kernels)
    return asked


def slowness_for(task: Task, name: str | Path | None = None, most: int = MOST_PREDICTED) -> Sequence[float]:
    """The log(time / best time) that a predictor expects of every configuration of a task, by number.

    Without a name it is the predictor of `predictor_name`. The result is empty if the predictor has no trees for these
    kernels, or if the task has more than `most` configurations.
    """
    if len(task) > most or any(kernel.implementation is None for kernel in task.kernels):
        return ()
    try:
        checkpoint = _for_search(task, name).checkpoint
        if checkpoint is None or checkpoint.ranker is None:
            return ()
        slowness = checkpoint.ranker.slowness(task, np.arange(len(task)))
    except CheckpointError:
        return ()
    return () if np.isnan(slowness).any() else slowness.tolist()


def seeds_for(task: Task, required: bool = False, name: str | Path | None = None) -> tuple[Configuration, ...]:
    """The proposals of a predictor for a task, likeliest first, as seeds of a search.

    Without a name it is the predictor of `predictor_name`. If it does not know the kernels or the device, the result is
    empty, or with `required` CheckpointError is raised.
    """
    if not required and any(kernel.implementation is None for kernel in task.kernels):
        return ()  # kernels of a file or another tool, which no predictor knows
    try:
        return tuple(_for_search(task, name).propose(SEEDS))
    except CheckpointError:
        if required:
            raise
        return ()
