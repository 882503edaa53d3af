"""One short training as a process of its own, which prints seconds and peak memory of its phases as JSON.

`python -m benchmarks.robustness.short_fit FILE`: the data set is read as `seqtune train` reads it, all kept problems
become training examples, and all kept measurements are fitted by the teacher's trees. Only what repeats itself with the
same memory is cut short: 10 rounds of trees, one epoch, no confidence model.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from seqtune.data.formats.dataset_file import read_training_data
from seqtune.data.measured_tasks import measured_tasks
from seqtune.predictor.times.training import train_tasks
from seqtune.predictor.times.training_options import TREES, TrainingOptions

SHORT = TrainingOptions(epochs=1, extra=0, lessons=640, validation=0.0, confidence=False,
                        trees=replace(TREES, rounds=10))


def main() -> None:
    """Run the phases and print their figures."""
    phases: dict[str, dict[str, float]] = {}
    with _phase("reading", phases):
        data, sampling = read_training_data(sys.argv[1], 0, lambda step: print(step, file=sys.stderr))
    with _phase("tasks", phases):
        tasks = measured_tasks(data, held_out=False)
    with _phase("fit", phases):
        _, report = train_tasks(tasks, [], SHORT)
    facts: dict[str, Any] = {name: report[name] for name in ("problems", "cases", "measurements", "lessons")}
    print(json.dumps({"phases": phases, "sampling": None if sampling is None else sampling.to_json(), **facts}))


@contextmanager
def _phase(name: str, phases: dict[str, dict[str, float]]) -> Iterator[None]:
    """Record seconds and peak memory (MiB) of a phase."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    began = time.monotonic()
    yield
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]
    phases[name] = {"seconds": time.monotonic() - began, "peak": int(peak) / 1024}


if __name__ == "__main__":
    main()
