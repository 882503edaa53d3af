"""Example libraries: problems of three libraries in examples/, which are Kernel Tuner's first examples, measured here.

Some configurations of each problem are drawn at random and measured. Problems take turns with a few seeds, so that
most configurations are built once and measured for many problems. Every trial is in a journal; what it has is not
measured again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.progress import say
from benchmarks.prediction.live_evaluation import searched

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.task import MeasuredTask

EXAMPLES = ("vector_add", "convolution", "matrix_product")  # folders of examples/
SEEDS = 3  # of the configurations; a build takes a second, a trial of a built kernel a hundredth
FOLDER = Path(__file__).resolve().parents[2] / "examples"


def measured_examples(device: Device, journal: Path, configurations: int,
                      problems: int | None = None) -> Mapping[str, Sequence[MeasuredTask]]:
    """The measured problems of each library, by the name of its folder: the first `problems`, or all."""
    import seqtune
    from seqtune.data.journal.journal import Journal
    from seqtune.kernels.problem_sets.parse import read_problems
    from seqtune.tuner.measuring.runner import Runner
    from seqtune.tuner.run.plan import Finals, TuningOptions

    measured: dict[str, Sequence[MeasuredTask]] = {}
    with Journal(journal) as trials:
        for name in EXAMPLES:
            seqtune.use_library(FOLDER / name, allow_commands=True)  # the references are Python functions
            say(f"{name} on {device.name}")
            with Runner(device) as runner:
                measured[name] = [
                    searched(problem, device, trials, runner, configurations,
                             TuningOptions("random", seed=number % SEEDS, finals=Finals(count=0)))
                    for number, problem in enumerate(islice(read_problems(FOLDER / name / "problems.csv"), problems))]
    return measured
