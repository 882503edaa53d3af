"""Measure on this machine what the shipped data lacks: `python -m benchmarks collect --out FOLDER --minutes 30`.

Problems are the shipped training problems and further ones of rare kinds (`seqtune.kernels.problem_sets`); nothing of
the locked test set is measured. Devices are the CPU's widest vectors on all threads first, then narrower ones, one
thread, and every OpenCL device. Each device passes through the stages of `benchmarks.data.stages`: random trials,
suspicious ones again, active labels (what a model proposes, and the neighbours of the best), and a contest.

FOLDER holds the journal and, after every call, all its records as a data set (`measured.parquet`), which
`python -m benchmarks reduce` makes small enough to ship. Run the program again to go on; it says what remains. Nothing
else should run at the same time.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import today
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.errors import InterruptedTuning, SeqtuneError, UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.discovery import devices, find
from seqtune.tuner.measuring.runner import Runner

from .collected_problems import ProblemSplit, problems, smaller_problems
from .collection import Collection, Proposals
from .further_problems import further_training
from .network_problems import ELEMENTS, network_problems
from .problem_kinds import kind_of
from .stages import STAGES, Active, Stage

SOURCES = {"conv2d": ("layout", "r", "s", "stride_w"), "gemm": ("trans_a", "trans_b", "k"),
           "attention": ("layout", "mask", "causal", "head_dim")}  # features that a kernel's source depends on
FROM_BEAM, FROM_TREES = 24, 8  # proposals of a checkpoint and of its trees alone
MOST_REFUSED = 20  # problems that cannot be measured at all; then something is wrong with the device


def default_devices() -> list[Device]:
    """The CPU devices in the order of their value: widest vectors on all threads, narrower ones, one thread, OpenCL."""
    present = devices()
    cpu = [device for device in present if device.backend == "llvm"]
    threads = max((device.threads for device in cpu), default=0)
    wide = sorted((device for device in cpu if device.threads == threads), key=lambda device: -device.vector_bits)
    alone = sorted((device for device in cpu if device.threads == 1 < threads), key=lambda device: -device.vector_bits)
    return [*wide[:2], *alone[:1], *wide[2:], *(device for device in present if device.backend == "opencl")]


def chosen_problems(complete: bool, limit: int | None) -> ProblemSplit:
    """The problems of a device, in the order of measuring: all if `complete`, else the smaller ones.

    `limit` is the maximum number of training problems.
    Shipped and further training problems are mixed by the checksums of their keys, so that any beginning of the work
    has all kinds.
    """
    split = problems()
    mixed = sorted({*split.training, *further_training()}, key=lambda problem: zlib.crc32(problem.key.encode()))
    ordered = ProblemSplit(tuple(mixed), split.held_out)
    allowed = ordered if complete else smaller_problems(ordered)
    return ProblemSplit(allowed.training[:limit], allowed.held_out)


def chosen_network_problems(dtype: str, limit: int | None, judged: int) -> ProblemSplit:
    """The problems of `network_problems` in an element type, in the order of measuring; none is measured completely.

    `limit` is the maximum number of training problems, `judged` that of held-out problems of each kind.
    """
    split = network_problems(dtype)
    training, held_out = (sorted(part, key=lambda problem: zlib.crc32(problem.key.encode()))
                          for part in (split.training, split.held_out))
    counts: Counter[str] = Counter()
    chosen = []
    for problem in held_out:
        kind = kind_of(problem)
        counts[kind] += 1
        if counts[kind] <= judged:
            chosen.append(problem)
    return ProblemSplit((*training[:limit], *chosen), ())


def like_sources_together(chosen: Sequence[Problem]) -> list[Problem]:
    """Sort problems so that those with the same kernel source follow each other; a build is then used many times."""
    def kind(problem: Problem) -> tuple[str, ...]:
        return (problem.type, *(str(problem[name]) for name in SOURCES[problem.type]))
    return sorted(chosen, key=kind)


def proposals_of(name: str) -> Proposals | None:
    """The proposals of a checkpoint: its own first ones, and its trees'; None for the name `none`."""
    if name == "none":
        return None
    from seqtune.predictor.times.checkpoint_parts import parts_of
    from seqtune.predictor.times.model import TimesModel

    checkpoint = TimesModel.load(name)
    trees = parts_of(checkpoint).get("trees")

    def propose(task: Task) -> list[Configuration]:
        candidates = [*checkpoint.propose([task], FROM_BEAM)[0],
                      *(trees.propose([task], FROM_TREES)[0] if trees is not None else ())]
        return [candidate.configuration for candidate in candidates]

    return propose


def collect(collection: Collection, until: float, stages: Sequence[Stage] = STAGES) -> dict[str, int]:
    """Do the stages until all are done or the time (of `time.monotonic`) is over; return what remains, by stage."""
    refused: set[Problem] = set()
    for stage in stages:
        missing = like_sources_together(stage.missing(collection))
        for number, problem in enumerate(missing, start=1):
            if time.monotonic() >= until:
                return remaining(collection, stages)
            task = collection.task(problem)
            if task is None or problem in refused:
                continue
            try:
                summary = stage.measure(collection, task)
            except (UnavailableError, InterruptedTuning):
                raise
            except SeqtuneError as error:
                refused.add(problem)
                if len(refused) > MOST_REFUSED:
                    raise
                summary = f"left out: {error}"
            left = "" if math.isinf(until) else f" ({(until - time.monotonic()) / 60:.1f} minutes left)"
            _say(f"{collection.device.name} {stage.name} {number}/{len(missing)} {problem.brief()}: {summary}{left}")
    return remaining(collection, stages)


def remaining(collection: Collection, stages: Sequence[Stage] = STAGES) -> dict[str, int]:
    """The number of problems that each stage has still to do; a stage that waits for another one counts all of them."""
    waiting = [problem for problem in collection.problems if not collection.times[problem]
               and collection.task(problem) is not None]
    possible = [stage for stage in stages if stage.name != Active.name or collection.propose is not None]
    counts = {stage.name: len({*stage.missing(collection), *waiting}) for stage in possible}
    return {name: count for name, count in counts.items() if count}


def work(given: argparse.Namespace, journal: Journal) -> Iterator[str]:
    """Measure on every device in turn; yield a line on what remains of each."""
    until = time.monotonic() + 60 * given.minutes if given.minutes else math.inf
    propose = proposals_of(given.proposals)
    stages = [stage for stage in STAGES if stage.name in (given.stages or (stage.name,))]
    wanted = [find(name) for name in given.devices] if given.devices else default_devices()
    for index, device in enumerate(wanted):
        split = (chosen_problems(index == 0 or device.backend == "opencl", given.problems) if given.set == "collected"
                 else chosen_network_problems(given.dtype, given.problems, given.judged))
        with Runner(device) as runner:
            training, held_out = ([problem for problem in part if problem.type in (given.operations or (problem.type,))]
                                  for part in (split.training, split.held_out if given.held_out else ()))
            collection = Collection(device, journal, runner, training, held_out, given.trials, propose, runner.close)
            left = remaining(collection, stages) if given.status else collect(collection, until, stages)
        yield f"{device.name}: " + (", ".join(f"{name} of {count} problems" for name, count in left.items())
                                    + " remain" if left else "complete")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("collected"), metavar="FOLDER",
                        help="folder of the journal and the data set [default: collected]")
    parser.add_argument("--journal", type=Path, help="a journal to use instead of the folder's")
    parser.add_argument("--devices", nargs="+", help="names of devices [default: those of this CPU]")
    parser.add_argument("--minutes", type=positive, help="minutes after which this call ends")
    parser.add_argument("--trials", type=positive, default=96,
                        help="number of random configurations of each training problem")
    parser.add_argument("--problems", type=positive, help="maximum number of training problems")
    parser.add_argument("--set", choices=("collected", "networks"), default="collected",
                        help="the shipped problems and further ones, or those of networks [default: collected]")
    parser.add_argument("--operations", nargs="+", help="operations of the problems [default: all]")
    parser.add_argument("--dtype", default="fp32", choices=ELEMENTS, help="element type of the networks' problems")
    parser.add_argument("--judged", type=int, default=8, metavar="COUNT",
                        help="number of held-out network problems of each kind that are measured like training ones")
    parser.add_argument("--stages", nargs="+", choices=[stage.name for stage in STAGES], help="[default: all]")
    parser.add_argument("--held-out", action="store_true", help="also measure the held-out problems completely")
    parser.add_argument("--proposals", default="default", metavar="CHECKPOINT",
                        help="the checkpoint whose proposals are measured; `none`: no active labels")
    parser.add_argument("--status", action="store_true", help="measure nothing; say what remains")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Collect, say what remains, and write the data set."""
    given.out.mkdir(parents=True, exist_ok=True)
    with Journal(given.journal or given.out / "journal.sqlite") as journal:
        for line in work(given, journal):
            print(line, flush=True)
        if given.status:
            return
        facts = list(journal.devices().values())
        models = ", ".join(dict.fromkeys(f"{device.model} ({device.architecture})" for device in facts))
        provenance = {"made_by": "python -m benchmarks collect", "operating_system": platform.system(),
                      "machine": f"{models}, {os.cpu_count()} cores", "date": today()}
        held_out = [*problems().held_out,
                    *(problem for dtype in ELEMENTS for problem in network_problems(dtype).held_out)]
        data = Dataset.from_journal(journal, provenance, [problem.key for problem in held_out])
    if len(data):
        data.write(given.out / "measured.parquet")
        print(f"{given.out / 'measured.parquet'}: {len(data)} records of {len(data.problems())} problems")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
