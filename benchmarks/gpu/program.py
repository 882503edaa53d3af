"""Measure on one GPU: `python -m benchmarks gpu --tasks check,measure,compare --minutes 9 --out gpu`.

Run the same command again, and it goes on where it stopped, also after Ctrl-C or a kill: every measurement is in the
folder's journal at once. The minutes are divided among the tasks that are left. A task that fails is reported, and the
next one goes on; the exit status is then 1. Clocks, power limits and modes of the card are never changed.

`--dry-run` goes through the tasks without a GPU: shipped records of an H100 answer, and whatever is written is marked.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.common.program import OneLineParser, minutes, positive, several
from benchmarks.common.progress import say
from seqtune.errors import InterruptedTuning, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.lookup import resolve
from seqtune.kernels.registry import kernel
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.stop_request import interrupted_by_sigterm

from .problems import problems_of
from .run import Gpu, Options, Run, read_run

Task = Callable[[Run], str]  # it returns its summary
TASKS: Mapping[str, tuple[str, str]] = {  # name -> "module:function" of a Task, and what it does
    "check": ("benchmarks.gpu.measuring:check", "random configurations of every kernel against float64"),
    "measure": ("benchmarks.gpu.measuring:measure", "training data: configurations x problems"),
    "compare": ("benchmarks.gpu.comparison:compare", "proposals beside cuBLAS, cuDNN and torch.compile, in turns"),
    "report": ("benchmarks.gpu.page:report", "the data set and the page of results; measures nothing"),
}
PROBLEMS = ("gemm:bf16", "gemm:fp16", "conv2d:fp16", "conv2d:fp32")
COUNT = 250  # the most problems of each set
REPORT = "report"  # the task that measures nothing
PACKAGES = ("torch", "triton", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12")  # the page names their versions


def run_tasks(run: Run, tasks: Mapping[str, Task], required: bool = False) -> list[str]:
    """Run the tasks, each within its part of the run's time; return the names of those that failed.

    A task whose device or package is missing is left out; if tasks are `required`, it has failed. Raises
    InterruptedTuning on Ctrl-C.
    """
    failed, whole = [], run.deadline
    for index, (name, task) in enumerate(tasks.items()):
        run.deadline = whole.part(1 / (len(tasks) - index))
        say(f"{name}: {TASKS[name][1]}" + ("" if math.isinf(run.left) else f" (at most {run.left:.0f} s)"))
        try:
            end = task(run)
        except KeyboardInterrupt:
            raise InterruptedTuning(f"stopped in {name}; everything measured is kept; run again to go on") from None
        except UnavailableError as error:
            end = f"left out: {one_line(error)}"
            failed += [name] if required else []
        except Exception as error:  # drivers, compilers and peers raise errors of their own; the next task goes on
            kind = "" if isinstance(error, SeqtuneError) else f"{type(error).__name__}: "
            end = f"FAILED: {kind}{one_line(error)}"
            failed.append(name)
        say(f"{name}: {end} ({run.deadline.elapsed:.1f} s)")
    return failed


def parser() -> argparse.ArgumentParser:
    """The options of the program."""
    tasks = "\n".join(f"  {name:8} {meaning}" for name, (_, meaning) in TASKS.items())
    options = OneLineParser(f"{__doc__}\ntasks:\n{tasks}")
    add, defaults = options.add_argument, Options.__dataclass_fields__
    add("--out", type=Path, default=Path("gpu"), metavar="FOLDER", help="the folder of the results (default: gpu)")
    add("--tasks", type=several(tuple(TASKS)), metavar="NAME,...", help="default: all, in this order")
    add("--minutes", type=minutes, default=math.inf, help="end this call after so many minutes")
    add("--device", default="cuda:0", help="the device to measure on, such as triton:0 (default: cuda:0)")
    add("--problems", nargs="+", default=PROBLEMS, metavar="SET",
        help="gemm:DTYPE and conv2d:DTYPE are problems of well-known models; others are named sets, such as "
             f"resnet18:8, or files (default: {' '.join(PROBLEMS)})")
    add("--kernels", type=lambda text: tuple(text.split(",")), default=(), metavar="NAME,...",
        help="families to check and to measure (default: all of the device)")
    add("--configurations", type=positive, default=defaults["configurations"].default,
        help="maximum number of configurations of each problem (default: %(default)s)")
    add("--checked", type=positive, default=defaults["checked"].default,
        help="random configurations of each family in the check (default: %(default)s)")
    add("--compared", type=positive, default=defaults["compared"].default,
        help="problems in the comparison, those of earlier calls included (default: %(default)s)")
    add("--libraries-only", action="store_true",
        help="compare without torch.compile, whose autotuning takes half a minute a problem")
    add("--checkpoint", metavar="NAME_OR_FOLDER", help="measure and compare the proposals of this checkpoint")
    add("--seed", type=int, default=0, help="of the random configurations in the check")
    add("--dry-run", action="store_true", help="go through the tasks without a GPU")
    return options


def run_of(given: argparse.Namespace) -> Run:
    """The run that the options ask for. Raises SeqtuneError if its device, kernels or problems do not exist."""
    for name in given.kernels:
        kernel(name)
    if given.dry_run:
        gpu = Gpu.replayed()
    elif given.tasks == [REPORT]:
        gpu = Gpu.stored(given.out)
    else:
        gpu = Gpu.present(given.device)
    options = Options(problems_of(given.problems, COUNT), given.kernels, given.checkpoint, given.checked,
                      given.configurations, given.compared, not given.libraries_only, seed=given.seed)
    return Run(given.out, gpu, options, Deadline(60 * given.minutes))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    given = parser().parse_args(arguments)
    run = run_of(given)
    with interrupted_by_sigterm(), run.alone():
        if given.tasks != [REPORT]:
            held_out = {*read_run(run.folder).get("held_out", ()), *run.options.problems.held_out}
            run.store({"packages": {name: version for name in PACKAGES if (version := version_of(name))},
                       "held_out": sorted(held_out)})
        tasks: dict[str, Task] = {name: resolve(TASKS[name][0]) for name in given.tasks or TASKS}  # type: ignore[misc]
        failed = run_tasks(run, tasks, required=given.tasks is not None)
    if failed:
        raise SeqtuneError(f"failed: {', '.join(failed)}; the reasons stand above; run again to try them")


def version_of(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
