"""Host slice: tunings on the CPU of the GPU's machine, which is a further device for data sets and models."""

from __future__ import annotations

import time

from benchmarks.gpu.day import Day
from benchmarks.gpu.devices import host_devices
from benchmarks.gpu.slices import SliceOutcome
from seqtune.errors import UnavailableError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.tuner.tune import Budget, Finals, TuningOptions, tasks_for, tune

FINALS = Finals(count=3, rounds=8)


def problems(count: int) -> list[Problem]:
    """ResNet-50's convolutions and the transformers' products in turn, in float32, `count` of them."""
    both = zip(network("resnet50"), network("transformers"), strict=False)
    return [problem for pair in both for problem in pair][:count]


def run(day: Day, name: str) -> SliceOutcome:
    """Tune problems on every device of the host in turn. Raises UnavailableError without a device."""
    devices = host_devices(day)
    if not devices:
        raise UnavailableError("no CPU device is here")
    rows, finished = [], True
    with day.journal(name) as journal:
        for index, problem in enumerate(problems(4 * day.sizes.peer_problems)):
            for device in devices:
                if not day.left:
                    finished = False
                    break
                for task in tasks_for([problem], device):
                    with day.measurer(device) as measurer:
                        began = time.monotonic()
                        options = TuningOptions("random", seed=index, finals=FINALS)
                        result = tune(task, journal, measurer, Budget(day.sizes.trials, day.left), options)
                    rows.append({"device": device.name, "problem": problem.key, "trials": result.done,
                                 "best_us": result.measurement and round(result.measurement.seconds * 1e6, 3),
                                 "seconds": round(time.monotonic() - began, 2)})
    return SliceOutcome(finished, f"{len(rows)} tunings on {', '.join(device.name for device in devices)}",
                        {"tunings": rows})
