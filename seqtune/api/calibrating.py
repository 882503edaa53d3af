"""The verb `calibrate`: a few minutes of probes on a new device, chosen where the checkpoint's model is unsure.

Problems of all kinds take turns; `seqtune.predictor.correction.probing` chooses the probes. Every measurement is in the
journal at once, so a calibration that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from seqtune.data.device_times import own_times
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Record
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import probes as default_probes
from seqtune.kernels.say import silent
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.correction.correction import Correction, CorrectionFit
from seqtune.predictor.correction.observations import Expected
from seqtune.predictor.correction.probing import Probing
from seqtune.predictor.predictors import answers_for, named_predictor
from seqtune.predictor.trees.ranker import Ranker
from seqtune.tuner.measuring.deadline import CALIBRATION, Deadline
from seqtune.tuner.measuring.runner import Measurer, Runner
from seqtune.tuner.measuring.timing import DEFAULTS, Options
from seqtune.tuner.run.plan import Plan

from ..errors import InterruptedTuning, MisuseError, SeqtuneError, shown
from .checking import check_measuring
from .inputs import as_device, as_problems, check_positive

RUN = "calibrate"  # Record.run
FITS = 2.0  # times the latest fit's duration is kept free for the last fit, which has more measurements


@dataclass(frozen=True, slots=True)
class CalibrationProgress:
    """The state of a calibration after a turn."""

    problem: Problem
    probes: int  # measured by this run
    seconds: float  # since it began
    budget: float

    @property
    def text(self) -> str:
        """The state as one line of text."""
        return (f"calibrating: {self.probes} probes, {self.seconds:.0f} of {self.budget:.0f} s, now "
                f"{self.problem.brief()}")


Progress = Callable[[CalibrationProgress], None]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The result of a calibration, with the error of expected times: 0.1 is a tenth of the time.

    After the calibration, each problem is corrected by the measurements of the other ones only. The errors are equal
    where the measurements say nothing sure about other problems.
    """

    device: Device
    journal: Path
    probes: int  # measured by this run
    measurements: int  # measurements of the device that the correction rests on
    problems: int
    error_before: float | None  # None if no probe ran
    error_after: float | None

    def conclusion(self) -> str:
        """Some lines about the gain."""
        if self.error_before is None or self.error_after is None:
            return (f"{self.probes} probes on {self.device.name}, of which none ran; nothing corrects its predictions "
                    f"(`seqtune report {shlex.quote(str(self.journal))} --out report.html` lists the failures)")
        if self.problems == 1:
            return (f"{self.probes} probes on {self.device.name}; {self.measurements} measurements of one problem now "
                    f"correct its predictions; to reach others and see the gain, probe more problems: give more "
                    f"(--seconds; {CALIBRATION:g} by default), run the same command again, or name "
                    f"more problems (--problems)\njournal: {self.journal}")
        rests = (f"{self.probes} probes on {self.device.name}; {self.measurements} measurements of {self.problems} "
                 "problems now correct")
        error = f"expected times are off by {100 * self.error_before:.1f} %"
        if self.error_after == self.error_before:
            return (f"{rests} the predictions for these; what they say about others is not sure enough\n"
                    f"{error}\njournal: {self.journal}")
        return (f"{rests} its predictions\n{error} without them and by {100 * self.error_after:.1f} % with them (each "
                f"problem corrected by the others)\njournal: {self.journal}")

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"device": self.device.name, "journal": str(self.journal), "probes": self.probes,
                "measurements": self.measurements, "problems": self.problems,
                "error_before": self.error_before, "error_after": self.error_after}


def calibrate(device: Device | str = "llvm:0", *, seconds: float = CALIBRATION, problems: object = None,
              checkpoint: str | Path | None = None, journal: str | Path | None = None, seed: int = 0,
              progress: Progress = silent) -> Calibrated:
    """Measure probes on a device, chosen where the model is unsure; later predictions are corrected by them at once.

    `seconds` limits the whole call. `problems` are several problems or the name of a set (None: some of every kind).
    `checkpoint` is the model whose uncertainty chooses the probes (None: the shipped one for the device). Every probe
    is in the journal as soon as it is measured; the same call again continues. `progress` receives a
    CalibrationProgress after the probes of a problem. Raises MisuseError for wrong arguments, InterruptedTuning on
    Ctrl-C, SeqtuneError if the time ends before a probe is measured.
    """
    check_positive("seconds", seconds)
    deadline = Deadline(seconds)
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")
    target = as_device(device)
    name = answers_for(target.backend) if checkpoint is None else checkpoint
    named = named_predictor(name)
    predictor = named.on(target) if isinstance(named, Checkpoint) else None
    if predictor is None or predictor.ranker is None or target.backend not in predictor.backends:
        raise MisuseError(f"the predictor {name} has no trees for {target.backend} devices that measurements could "
                          "correct; `seqtune tune` measures there")
    wanted = default_probes(target.backend) if problems is None else as_problems(problems)
    check_measuring(target, wanted)
    with Journal(journal) as records, Runner(target) as runner:
        runner.start()
        count, fit = measure_probes(wanted, target, predictor.ranker, records, runner, deadline, seed,
                                    progress, predictor.expected)
        return Calibrated(target, records.path, count, fit.measurements, fit.problems,
                          fit.error_before, fit.error_after)


def measure_probes(problems: Sequence[Problem], device: Device, ranker: Ranker, journal: Journal, measurer: Measurer,
                   deadline: Deadline, seed: int, progress: Progress, expected: Expected | None = None
                   ) -> tuple[int, CorrectionFit]:
    """Measure probes until the deadline; return their number and the fit to all measurements of these problems.

    The time that the last fit will take is kept free. `ranker` holds the model's trees; `expected` says what the whole
    model expects (None: what its trees expect). Raises InterruptedTuning on Ctrl-C, SeqtuneError if the time ends
    before anything is measured.
    """
    tasks = list(Plan(problems).tasks(device))
    probing = Probing(tasks, ranker, [own_times(journal, task) for task in tasks], seed)
    journal.add_device(device)
    probes, fitting = 0, 0.0
    try:
        while deadline.left > FITS * fitting:
            began = deadline.elapsed
            order = probing.order()
            fitting = deadline.elapsed - began
            if not order:
                break
            for index in order:
                with closing(_turn(probing, index, measurer, replace(DEFAULTS, budget=deadline.hard.left))) as turn:
                    for record in turn:
                        journal.add(record)
                        probes += 1
                        if deadline.left <= FITS * fitting:
                            break
                progress(CalibrationProgress(tasks[index].problem, probes, deadline.elapsed, deadline.seconds))
                if deadline.left <= FITS * fitting:
                    break
    except KeyboardInterrupt:
        raise InterruptedTuning(f"stopped after {probes} probes; all are in {journal.path} and correct "
                                "predictions from now on; run again to go on") from None
    measured = probing.measured()
    if not probes and not measured and deadline.left <= FITS * fitting:
        raise SeqtuneError(f"no probe could be measured on {device.name}: the time ended while measuring was prepared; "
                           f"give more (--seconds; {CALIBRATION:g} by default)")
    return probes, Correction.fit(ranker, measured, expected=expected)[1]


def _turn(probing: Probing, index: int, measurer: Measurer, options: Options) -> Generator[Record, None, None]:
    """Measure the next probes of a problem; yield the record of each."""
    task = probing.tasks[index]
    versions = {kernel.name: kernel.version for kernel in task.kernels}
    probes = probing.choose(index).tolist()
    configurations = [task[number] for number in probes]
    with closing(measurer.measure(task.problem, configurations, options, probing.best(index))) as measuring:
        for number, (configuration, measurement) in zip(probes, measuring, strict=False):
            probing.record(index, number, measurement.seconds)
            yield Record(task.problem, task.device.key, versions[configuration.kernel], configuration,
                         task.device.toolchain, measurement, time.time(), RUN, platform.node(), task.device.fingerprint)
