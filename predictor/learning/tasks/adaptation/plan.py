"""Plan of a retraining: the tasks that it learns, the layer that goes on, and what is evaluated before and after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seqtune.data.measured_tasks import Data, measured_tasks
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.leakage import split_leaked
from seqtune.kernels.task import MeasuredTask

from ....checkpoint import Checkpoint
from ....sequence.vocabulary import Vocabulary
from ..examples import held_out_problems, problems_of, words_of
from .clock import Clock
from .options import RetrainingOptions
from .report import NEW, OLD

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Rehearsal:
    """The part of old records that a retraining looks at again; it is a `Data` itself."""

    frame: pd.DataFrame
    devices: Mapping[str, Device]
    kernels: Mapping[str, Kernel]

    @classmethod
    def drawn(cls, data: Data, each: int, held_out: bool, seed: int,
              leave_out: Collection[tuple[str, str]] = ()) -> Rehearsal:
        """Draw `each` problems of every device from the training part or the held-out part, or all if there are fewer.

        `leave_out` has pairs of problem and device, by their names in the rows, that are not drawn.
        """
        part = data.frame[data.frame["held_out"].astype(bool) == held_out]
        pairs = sorted(part[["device", "problem"]].drop_duplicates().itertuples(index=False, name=None))
        by_device: dict[str, list[str]] = {}
        for device, problem in pairs:
            if (problem, device) not in leave_out:
                by_device.setdefault(str(device), []).append(str(problem))
        keep = np.zeros(len(part), np.bool_)
        for device, problems in by_device.items():
            order = np.random.default_rng([seed, len(problems)]).permutation(len(problems))
            chosen = {problems[index] for index in order[:each]}
            keep |= (part["device"] == device).to_numpy() & part["problem"].isin(chosen).to_numpy()
        return cls(part[keep], data.devices, data.kernels)

    def tasks(self, before_each: Callable[[], object] = lambda: None) -> list[MeasuredTask]:
        """The measured tasks of these rows, sorted by problem; `before_each` is called before each is made.

        No warning is given of constraints that leave out a fast configuration: old records are mostly the shipped ones.
        """
        return [task for held_out in (False, True)
                for task in measured_tasks(self, held_out, warn=False, before_each=before_each)]


SELECTING = "selecting"  # a step of the clock


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a retraining.

    All training problems of the new records are learned from, whatever the old records hold out: what is held out
    there protects the figures of the old checkpoint. A held-out problem near a learned one is not used for evaluation.
    """

    fresh: list[MeasuredTask]  # new records to learn from
    old: list[MeasuredTask]  # rehearsed
    left_out: list[Problem]  # training problems of the new records without a usable measurement
    held_out: list[Problem]  # of both, to evaluate on: no training problem of the new records is near one
    leaked: dict[str, list[Problem]]  # NEW and OLD: held-out problems near a training problem of the new records
    new_held_out: list[MeasuredTask]  # those of the new records

    @classmethod
    def of(cls, new: Data, rehearsal: Data, options: RetrainingOptions,
           check: Callable[[], object] = lambda: None) -> Selection:
        """Select the tasks; `check` is called before each. Raises MisuseError if no new training problem is left."""
        fresh = measured_tasks(new, held_out=False, before_each=check)
        if not fresh:
            raise MisuseError("the new records have no training problem that a kernel here solves; nothing to adapt to")
        learned = {measured.problem for measured in fresh}
        held_out = {NEW: held_out_problems(new), OLD: held_out_problems(rehearsal)}
        far, near = zip(*(split_leaked(problems, learned) for problems in held_out.values()), strict=True)
        pairs = new.frame[["problem", "device"]].drop_duplicates().itertuples(index=False, name=None)
        unseen = {problem.key for problem in held_out[NEW]}
        relearned = {(str(problem), str(device)) for problem, device in pairs}
        relearned |= {(problem, device) for problem in unseen for device in rehearsal.devices}
        old = Rehearsal.drawn(rehearsal, options.rehearsed, False, options.seed, relearned).tasks(check)
        usable = list(dict.fromkeys(problem for part in far for problem in part))
        return cls(fresh, old, [problem for problem in problems_of(new, held_out=False) if problem not in learned],
                   usable, dict(zip(held_out, near, strict=True)),
                   [measured for measured in measured_tasks(new, held_out=True, before_each=check)
                    if measured.problem in {*usable}])


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a retraining, the checkpoint it begins from, and the held-out tasks that the new one can answer."""

    options: RetrainingOptions
    selection: Selection
    start: Checkpoint  # the layer whose training goes on
    former: Checkpoint  # answers for all other devices
    vocabulary: Vocabulary  # that of `start` with the words of the tasks
    changing: Rehearsal  # the old records of the devices whose answers can change
    held_out: Mapping[str, list[MeasuredTask]]  # NEW and OLD
    unanswered: set[Problem]  # held-out problems with kernels that the new checkpoint lacks

    @classmethod
    def of(cls, checkpoint: Checkpoint, new: Data, rehearsal: Data, options: RetrainingOptions, clock: Clock) -> Plan:
        """Plan the retraining of a checkpoint. Raises MisuseError, and SeqtuneError when the time is over."""
        with clock.step(SELECTING):
            selection = Selection.of(new, rehearsal, options, clock.check)
        clock.check()
        former = checkpoint.former_for(measured.device for measured in selection.fresh)
        start, changing = _start(checkpoint, selection.fresh), _changing(former, selection, rehearsal)
        leaked = {(problem.key, name) for problem in selection.leaked[OLD] for name in rehearsal.devices}
        drawn = Rehearsal.drawn(changing, options.evaluated, True, options.seed, leaked).tasks(clock.check)
        vocabulary = start.vocabulary.extended(*words_of([*selection.fresh, *selection.old]))
        usable = {NEW: selection.new_held_out, OLD: drawn}
        held_out = {records: [measured for measured in tasks if _answers(measured, vocabulary, former)]
                    for records, tasks in usable.items()}
        return cls(options, selection, start, former, vocabulary, changing, held_out,
                   _problems(usable) - _problems(held_out))

    @property
    def keeps_targets(self) -> bool:
        """Whether no target word is new."""
        return len(self.vocabulary.targets) == len(self.start.vocabulary.targets)

    @property
    def new_words(self) -> int:
        """The number of words that the vocabulary got."""
        former = self.start.vocabulary
        return (len(self.vocabulary.targets) - len(former.targets)) + (len(self.vocabulary.words) - len(former.words))


def _problems(tasks: Mapping[str, Sequence[MeasuredTask]]) -> set[Problem]:
    """The problems of tasks by records."""
    return {measured.problem for part in tasks.values() for measured in part}


def _start(checkpoint: Checkpoint, fresh: Sequence[MeasuredTask]) -> Checkpoint:
    """The newest of the layers that answer for these tasks."""
    answering = [checkpoint.on(measured.device, measured.task.kernels) for measured in fresh]
    return next(layer for layer in checkpoint.layers if layer in answering)


def _changing(former: Checkpoint, selection: Selection, rehearsal: Data) -> Rehearsal:
    """The old records of the devices whose answers the retraining can change.

    These are the devices of the new records, and all of a backend with a kernel that the former checkpoint lacks.
    """
    retrained = {measured.device.key for measured in selection.fresh}
    kernels = {kernel for measured in (*selection.fresh, *selection.old) for kernel in measured.task.kernels}
    backends = {backend for kernel in kernels if not former.fits([kernel]) for backend in kernel.backends}
    devices = {name: device for name, device in rehearsal.devices.items()
               if device.key in retrained or device.backend in backends}
    return Rehearsal(rehearsal.frame[rehearsal.frame["device"].isin(list(devices))], devices, rehearsal.kernels)


def _answers(measured: MeasuredTask, vocabulary: Vocabulary, former: Checkpoint) -> bool:
    """Whether the retrained checkpoint can answer a task: its vocabulary or its former checkpoint knows the kernels."""
    return not vocabulary.differences(measured.task.kernels) or former.fits(measured.task.kernels)
