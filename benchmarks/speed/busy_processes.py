"""Busy processes: the time of warm predictions while other processes want the processors, too.

The quiet figure and those beside one and two busy processes come from one run, in turns, so that all of them meet the
same machine.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from benchmarks.common.report import Row, markdown

COUNTS = (0, 1, 2)  # busy processes beside the predictions
SETTLING = 0.05  # seconds after which the scheduler has noticed who wants to run


class BusyProcesses:
    """Processes that compute without end while they are wanted, and otherwise stand still."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-I", "-S", "-c", "while True: pass"]
        self._processes = [subprocess.Popen(command) for _ in range(count)]

    def want(self, count: int) -> None:
        """Let `count` processes run, and stop the others."""
        for number, process in enumerate(self._processes):
            process.send_signal(signal.SIGCONT if number < count else signal.SIGSTOP)
        time.sleep(SETTLING)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def beside_busy_processes(milliseconds: Callable[[Any], float | None], problems: Sequence[Any],
                          rounds: int) -> list[Row]:
    """The median and 90th percentile of the answers to `problems`, in as many rounds, for each of COUNTS.

    `milliseconds` answers a problem and returns how long that took, or None if there is no answer.
    """
    times: dict[int, list[float]] = {count: [] for count in COUNTS}
    with BusyProcesses(max(COUNTS)) as processes:
        for _ in range(rounds):
            for count in COUNTS:
                processes.want(count)
                times[count] += [each for problem in problems if (each := milliseconds(problem)) is not None]
    return [{"busy": count, "predictions": len(taken), **percentiles(taken)} for count, taken in times.items()]


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """The median and the 90th percentile."""
    ordered = sorted(milliseconds)
    return {"median_ms": ordered[len(ordered) // 2], "p90_ms": ordered[len(ordered) * 9 // 10]}


def busy_table(rows: Sequence[Row]) -> str:
    """The table of predictions beside busy processes."""
    names = {0: "quiet", 1: "beside a busy process", 2: "beside two busy processes"}
    quiet = rows[0]["median_ms"]
    return markdown(["a warm prediction", "predictions", "median, ms", "p90", "median / quiet"], [
        [names[row["busy"]], str(row["predictions"]), f"{row['median_ms']:.1f}", f"{row['p90_ms']:.1f}",
         f"{row['median_ms'] / quiet:.2f}"] for row in rows])
