"""The verb `collect`: measures training data on this machine; the same call resumes one that was stopped."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.say import Say, silent
from seqtune.tuner.backends import discovery

from ...errors import InterruptedTuning, MisuseError, shown, warned
from ..checking import check_measuring
from ..inputs import as_device, as_problems, check_folder, deadline_in, several
from . import TRIALS
from .results import Collected, CollectedDevice, Progress

if TYPE_CHECKING:
    from seqtune.data.journal.journal import Journal
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem_sets.collected import ProblemSplit
    from seqtune.kernels.task import Task

JOURNAL, MEASURED = "journal.sqlite", "measured.parquet"  # names of files in the folder of a collection
FROM_BEAM, FROM_TREES = 24, 8  # proposals of a checkpoint, and of its trees alone


def collect(out: str | Path = "collected", problems: object = None, devices: object = (), *,
            minutes: float | None = None, trials: int = TRIALS, held_out: bool = False,
            checkpoint: str | Path | None = None, seed: int = 0, status: bool = False,
            progress: Progress = silent, note: Say = warned) -> Collected:
    """Measure training data on devices of this machine; return what the folder `out` then holds.

    The folder gets the journal of all measurements and, at the end of every call, its records as a data set
    (`measured.parquet`), which `train` and `retrain` read here or elsewhere. `problems` are one, several or a named set
    (None: some 440 of all kinds, most of which the shipped model learned from), `devices` one or several (none: every
    CPU and OpenCL device, the most valuable first). Without `problems`, the first device and those of OpenCL measure
    all, the others the smaller ones. Of each problem, `trials` random configurations are measured, suspicious ones
    again, then what the `checkpoint` proposes (None: the predictor that answers) with the neighbours of the best, and a
    contest of the fastest. Problems are spread over kinds, and pass through all of this in groups: the first is one
    problem, each later one at most twice as large, and the last ones what the time left can complete.
    `minutes` limits the call; the same call again goes on. `held_out` also measures, nearly completely, the problems
    that the shipped data hold out; these are held out of the data set in any case. `seed` decides the order of problems
    and the random configurations. With `status`, nothing is measured. `progress` receives a line for each device
    before it is measured, on what the time will buy, and a CollectionProgress after each stage of a problem; `note` a
    line where `train` needs more problems. Raises MisuseError for wrong arguments, and InterruptedTuning on Ctrl-C or
    SIGTERM; its `report` has what was collected so far.
    """
    from seqtune.data.journal.journal import Journal
    from seqtune.tuner.measuring.runner import Runner
    from seqtune.tuner.stop_request import interrupted_by_sigterm

    from .collection import Collection
    from .stages import incomplete, measure_stages, remaining

    folder = Path(out)
    deadline = deadline_in(minutes)
    if trials < 1:
        raise MisuseError(f"trials={shown(trials)}; at least one is needed")
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")
    splits = _splits(problems, devices, held_out)
    for device, split in splits.items():
        _check_measurable(device, split, checkpoint)
    _check_collection(folder, status)
    folder.mkdir(exist_ok=True)
    collected: list[CollectedDevice] = []
    interrupted = False
    with Journal(folder / JOURNAL) as journal, interrupted_by_sigterm():
        if not status:
            _check_enough(splits.values(), journal, note)
        try:
            for device, split in splits.items():
                with Runner(device) as runner:
                    collection = Collection(device, journal, runner, split, trials,
                                            partial(_proposed, checkpoint=checkpoint), seed, runner.close)
                    left_out = {}
                    if not status:
                        progress(collection.forecast.text(device.name, len(incomplete(collection)), deadline.left))
                        left_out = measure_stages(collection, deadline, progress)
                    collected.append(CollectedDevice(device, remaining(collection), left_out))
        except (KeyboardInterrupt, InterruptedTuning):
            interrupted = True
        result = _written(folder, journal, collected, interrupted, write=not status)
    if interrupted:
        stop = InterruptedTuning(f"stopped; all measurements are in {folder / JOURNAL}; run again to go on")
        stop.report = result
        raise stop
    return result


def _splits(problems: object, devices: object, held_out: bool) -> dict[Device, ProblemSplit]:
    """The problems to measure on each device, in the order of measuring; the same values as those of `collect`."""
    wanted = None if problems is None else as_problems(problems)
    return {device: split_for(device, wanted, held_out, complete=index == 0 or device.backend == "opencl")
            for index, device in enumerate(_named(devices) or default_devices())}


def _check_collection(folder: Path, status: bool) -> None:
    """Check before anything is measured that the folder is a collection, or can become one. Raises MisuseError."""
    measured, begun = folder / MEASURED, (folder / JOURNAL).exists()
    if status:
        if not begun:
            raise MisuseError(f"nothing is collected in {folder} yet; leave out --status")
        return
    check_folder(folder)
    if measured.exists() and not measured.is_file():
        raise MisuseError(f"{measured} is not a regular file and cannot be replaced; --out names another folder")
    if measured.exists() and not begun:
        raise MisuseError(f"{measured} exists, but no journal of a collection beside it; --out names another folder")


def _check_enough(splits: Iterable[ProblemSplit], journal: Journal, note: Say) -> None:
    """Note where the folder will hold fewer problems than `train` learns from."""
    from seqtune.kernels.problem_sets.collected import problems
    from seqtune.predictor.learning.tasks.shortage import shortage_note

    wanted = {problem for split in splits for problem in split.training}
    lacking = shortage_note(len({*wanted, *journal.problems()}.difference(problems().held_out)))
    if lacking is not None:
        note(lacking)


def _named(devices: object) -> list[Device]:
    """The devices of one or several names. Raises DeviceError."""
    listed = [devices] if isinstance(devices, Device) else several(devices)
    return [as_device(device) for device in listed]  # type: ignore[arg-type]  # it refuses other types


def default_devices() -> list[Device]:
    """The CPU devices in the order of their value: widest vectors on all threads, narrower ones, one thread, OpenCL."""
    present = discovery.devices()
    cpu = [device for device in present if device.backend == "llvm"]
    threads = max((device.threads for device in cpu), default=0)
    wide = sorted((device for device in cpu if device.threads == threads), key=lambda device: -device.vector_bits)
    alone = sorted((device for device in cpu if device.threads == 1 < threads), key=lambda device: -device.vector_bits)
    return [*wide[:2], *alone[:1], *wide[2:], *(device for device in present if device.backend == "opencl")]


def split_for(device: Device, wanted: Sequence[Problem] | None, held_out: bool, complete: bool) -> ProblemSplit:
    """The problems to measure that kernels solve on a device; with `held_out`, also the held-out ones.

    `wanted` are the training problems (None: all that are known, or the smaller ones if the device is not `complete`).
    """
    from seqtune.kernels.problem_sets.collected import ProblemSplit, further_training, problems, smaller_problems

    split = problems()
    split = ProblemSplit((*split.training, *further_training()), split.held_out)
    if not complete:
        split = smaller_problems(split)
    evaluated = split.held_out if held_out else ()
    training = [problem for problem in (split.training if wanted is None else wanted) if problem not in evaluated]
    return ProblemSplit(tuple(problem for problem in training if kernels_for(problem, device)),
                        tuple(problem for problem in evaluated if kernels_for(problem, device)))


def _check_measurable(device: Device, split: ProblemSplit, checkpoint: str | Path | None) -> None:
    """Check that the device can measure some problems, and a checkpoint propose for it.

    Raises CheckpointError, DeviceError, MisuseError.
    """
    from seqtune.predictor.answering import predictor_for

    measured = (*split.training, *split.held_out)
    check_measuring(device, measured)
    if not measured:
        raise MisuseError(f"no kernel of {device.name} solves any of these problems")
    if checkpoint is not None:
        predictor_for(device, checkpoint)


def _proposed(task: Task, checkpoint: str | Path | None) -> list[Configuration]:
    """The first proposals of a checkpoint and those of its trees; without one, of the predictor that answers.

    Raises CheckpointError if it does not know the task's kernels.
    """
    from seqtune.predictor.answering import Answering, predictor_name

    answering = Answering.of(task, predictor_name(task.problem, task.device) if checkpoint is None else checkpoint)
    proposed = list(answering.propose(FROM_BEAM))
    checkpoint_asked = answering.checkpoint
    if checkpoint_asked is not None and checkpoint_asked.ranker is not None:
        proposed += [task[number] for number in checkpoint_asked.ranker.first(task, FROM_TREES).tolist()]
    return proposed


def _written(folder: Path, journal: Journal, devices: Sequence[CollectedDevice], interrupted: bool,
             write: bool) -> Collected:
    """The result of a call; with `write`, all records of the journal are written as a data set first."""
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.problem_sets.collected import problems

    models = dict.fromkeys(f"{device.model} ({device.architecture})" for device in journal.devices().values())
    provenance = {"made_by": "seqtune collect", "operating_system": platform.system(),
                  "machine": f"{', '.join(models)}, {os.cpu_count()} cores",
                  "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    data = Dataset.from_journal(journal, provenance, [problem.key for problem in problems().held_out])
    measured = folder / MEASURED
    if write:
        complete = len(data) > 0
        if complete:
            data.write(measured)
    else:  # a call that was killed has not written the last records
        complete = measured.is_file() and len(Dataset.read(measured)) == len(data)
    return Collected(folder, measured if complete else None, len(data), len(data.problems()), tuple(devices),
                     interrupted)
