"""Finals: the fastest configurations of every held-out problem again, interleaved, in two batches.

The least of many short trials is lucky. The finals decide what the best known speed is, and how far a second
measurement agrees with the first, which is the ceiling of every judgement.
"""

from __future__ import annotations

from benchmarks.gpu.collecting import MEASURING, record
from benchmarks.gpu.day import Day
from benchmarks.gpu.home import DATA_SLICES, held_out_keys
from benchmarks.gpu.slices import SliceOutcome
from seqtune.data.record import Status
from seqtune.errors import UnavailableError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for
from seqtune.tuner.measuring.batches import compare_batch


def finalists(day: Day) -> dict[Problem, list[Configuration]]:
    """The fastest configurations of the held-out problems in the journals of the data slices on the day's device."""
    chosen: dict[Problem, dict[Configuration, float]] = {}
    held_out = held_out_keys(day.sizes)
    for name in DATA_SLICES:
        if not (day.folder / "journals" / f"{name}.sqlite").exists():
            continue
        with day.journal(name) as journal:
            for entry in journal.records(device=day.device.key):
                if entry.problem.key in held_out and entry.measurement.status is Status.CORRECT:
                    chosen.setdefault(entry.problem, {})[entry.configuration] = entry.measurement.seconds
    return {problem: sorted(seconds, key=lambda configuration: seconds[configuration])[:day.sizes.finalists]
            for problem, seconds in chosen.items()}


def run(day: Day, name: str) -> SliceOutcome:
    """Measure the finals that are missing. Raises UnavailableError if no held-out problem was measured."""
    chosen = finalists(day)
    if not chosen:
        raise UnavailableError("no held-out problem has been measured yet; run the data slices first")
    finished = 0
    with day.journal(name) as journal, day.measurer(day.device) as measurer:
        journal.add_device(day.device)
        for problem, configurations in chosen.items():
            if any(journal.records(problem, day.device.key, run="final")):
                finished += 1
                continue
            if not day.left:
                break
            versions = {family.name: family.version for family in kernels_for(problem, day.device)}
            for batch in range(2):
                compared = compare_batch(measurer, problem, configurations, day.sizes.rounds, MEASURING, batch)
                for configuration, measurement in zip(configurations, compared, strict=True):
                    journal.add(record(problem, day.device, versions[configuration.kernel], configuration, measurement,
                                       "final"))
            finished += 1
    return SliceOutcome(finished == len(chosen), f"finals of {finished} of {len(chosen)} held-out problems",
                        {"problems": len(chosen), "finished": finished})
