"""The parts of a prediction: how long each takes in a new process and in a running one, memory, and many at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.common.report import Row, markdown
from seqtune.errors import KernelError, SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.predictor.checkpoint import Checkpoint

# The steps of `seqtune predict` in a new process; each line prints nothing, the last one prints all seconds as JSON.
STEPS = """
import json, os, resource, sys, time
def most_memory():  # in kB; the number that getrusage gives on Linux counts the process that started this one, too
    if os.path.exists("/proc/self/status"):
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
seconds = {}
def done(name):
    seconds[name] = time.perf_counter() - begin - sum(seconds.values())
import seqtune.api
done("imports")
from seqtune.api.inputs import as_device, as_problem
from seqtune.predictor.predictors import cached_checkpoint
device = as_device(sys.argv[1])
done("device and its facts")
model = cached_checkpoint(sys.argv[2])
done("checkpoint")
task = model.task(as_problem(sys.argv[3]), device)
done("space")
model.propose([task], 5)
done("beam and order")
seconds["memory_mb"] = most_memory() / 1024
print(json.dumps(seconds))
"""

# The first prediction of a process that has loaded its checkpoint; it prints the seconds.
FIRST = """
import sys, time
from seqtune.api.inputs import as_device, as_problem
from seqtune.predictor.answering import answering, predictor_for, predictor_name
device, problem, checkpoint = as_device(sys.argv[1]), as_problem(sys.argv[2]), sys.argv[3] or None
predictor_for(device, checkpoint or predictor_name(problem, device))
begin = time.perf_counter()
answering(problem, device, checkpoint).propose(5)
print(time.perf_counter() - begin)
"""


def first_problem(checkpoint: str | None, device: str, problem: str, times: int) -> float:
    """The least milliseconds of a process's first prediction, once its checkpoint is loaded. Raises SeqtuneError.

    Without a checkpoint, that of the device's backend answers.
    """
    return 1e3 * min(float(_printed(FIRST, device, problem, checkpoint or "")) for _ in range(times))


def _printed(program: str, *arguments: str) -> str:
    """The output of a program in a new process. Raises SeqtuneError if it fails."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SeqtuneError(f"a prediction in a new process failed: {done.stderr.strip()[-200:]}")
    return done.stdout


def cold_parts(checkpoint: str, device: str, problem: str, times: int) -> dict[str, float]:
    """The least seconds of each step in new processes, and the most memory of one in MB. Raises SeqtuneError."""
    runs = [json.loads(_printed(STEPS, device, checkpoint, problem)) for _ in range(times)]
    return {name: (max if name == "memory_mb" else min)(run[name] for run in runs) for name in runs[0]}


def warm_parts(model: Checkpoint, device: Device, problems: Sequence[Problem], count: int) -> Row:
    """The median milliseconds of each part of `count` proposals for new problems, on one device."""
    import numpy as np

    from seqtune.predictor.proposing import Candidates
    from seqtune.predictor.sequence.beam import WIDTH, search_numbers_many
    from seqtune.predictor.trees.ranker import PROPOSALS

    width = max(WIDTH if model.ranker is None else PROPOSALS, count)
    parts: list[list[float]] = []
    for problem in problems:
        times = [time.perf_counter()]
        try:
            task = model.task(problem, device)
        except KernelError:
            continue
        times.append(time.perf_counter())
        model.vocabulary.source(problem, device)
        times.append(time.perf_counter())
        numbers, log_probabilities = search_numbers_many(model.next_word(), [task], width, width)[0]
        times.append(time.perf_counter())
        slowness = np.full(len(numbers), np.nan) if model.ranker is None else model.ranker.slowness(task, numbers)
        times.append(time.perf_counter())
        if model.judge is not None:
            model.judge.slowness(task, numbers)
        times.append(time.perf_counter())
        proposals = Candidates(task, numbers, log_probabilities, slowness).ordered()
        if model.estimator is not None:
            model.estimator.confidences(proposals)
        times.append(time.perf_counter())
        parts.append(np.diff(times).tolist())
    medians = np.median(np.array(parts), axis=0) * 1e3
    names = ("space", "source codes", "beam, with the source", "trees", "judge", "order and confidence")
    return {"device": device.name, **dict(zip(names, medians.tolist(), strict=True))}


def bulk(checkpoint: str, device: Device, problems: Sequence[Problem]) -> list[Row]:
    """Distinct problems per second in one process and in one process for each processor, their start included."""
    from seqtune.api.bulk import predict_many
    from seqtune.tuner.processes import processors

    rows = []
    for jobs in dict.fromkeys((1, processors())):
        begin = time.perf_counter()
        answers = sum(1 for _ in predict_many(problems, device, jobs=jobs, checkpoint=checkpoint))
        seconds = time.perf_counter() - begin
        rows.append({"processes": jobs, "problems": answers, "seconds": seconds, "per_second": answers / seconds})
    return rows


def parts_tables(results: Mapping[str, Any]) -> str:
    """The tables of the parts."""
    names = list(results["warm_parts"][0])
    return "\n\n".join([
        markdown([names[0], *(f"{name}, ms" for name in names[1:])], [
            [row["device"], *(f"{row[name]:.2f}" for name in names[1:])] for row in results["warm_parts"]]),
        markdown(["a new process", ""], [
            [name.replace("memory_mb", "memory"), f"{value:.0f} MB" if name == "memory_mb" else f"{value:.3f} s"]
            for name, value in results["cold_parts"].items()]),
        markdown(["many problems, processes", "problems", "per second"], [
            [str(row["processes"]), str(row["problems"]), f"{row['per_second']:.0f}"] for row in results["bulk"]])])
