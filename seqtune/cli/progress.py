"""Progress on standard error: one changing line on a terminal, else a line every few seconds."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from ..api.results import duration

if TYPE_CHECKING:
    from rich.progress import Progress

    from seqtune.kernels.problem import Problem
    from seqtune.kernels.say import Say
    from seqtune.predictor.training.progress import Epoch
    from seqtune.tuner.run.plan import TuningProgress

QUIET_SECONDS = 10.0  # seconds between two lines where there is no terminal


@contextlib.contextmanager
def spinner() -> Iterator[Say]:
    """Show the current step: in one changing line on a terminal, else in a line every QUIET_SECONDS."""
    errors = Console(stderr=True, highlight=False)
    if not errors.is_terminal:
        printed = time.monotonic()

        def progress(step: str) -> None:
            nonlocal printed
            if time.monotonic() - printed > QUIET_SECONDS:
                printed = time.monotonic()
                errors.print(step, markup=False, soft_wrap=True)

        yield progress
        return
    with errors.status("working") as status:
        yield lambda step: status.update(step)


def line(step: str | Epoch) -> None:
    """Print a step as a line of its own."""
    print(step if isinstance(step, str) else step.text, file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Print a line that the user should notice."""
    print(f"note: {text}", file=sys.stderr, flush=True)


class TuningProgressBar:
    """Progress of a search: trials, rate, best time, time left. A bar on a terminal, else a line every few seconds."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds  # the budget of each problem
        self.console = Console(stderr=True, highlight=False)
        self.bar: Progress | None = None
        self.problem: Problem | None = None  # that the trials belong to
        self.began = self.printed = 0.0
        self.last = ""

    def __enter__(self) -> TuningProgressBar:
        if self.console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self.bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                                TextColumn("{task.fields[rest]}"), console=self.console, transient=True)
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        self._end()

    def __call__(self, step: TuningProgress) -> None:
        name = step.problem.brief()
        if step.problem != self.problem:
            self._end()
            self.problem, self.began, self.printed = step.problem, time.monotonic(), time.monotonic()
            if self.bar is not None:
                for identifier in self.bar.task_ids:
                    self.bar.remove_task(identifier)
                self.bar.add_task(name, total=step.total, rest="")
        elapsed = time.monotonic() - self.began
        rate = (step.done - step.resumed) / elapsed if elapsed > 0 else 0.0
        seconds = (step.total - step.done) / rate if rate else math.inf
        seconds = min(seconds, math.inf if self.seconds is None else max(0.0, self.seconds - elapsed))
        left = f", {seconds:.0f} s left" if math.isfinite(seconds) else ""
        rest = f"{rate:.1f}/s, best {duration(step.best)}{left}"
        self.last = f"{name}: {step.done}/{step.total}, {rest}"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=step.done, total=step.total, rest=rest)
        elif time.monotonic() - self.printed > QUIET_SECONDS:
            self.printed = time.monotonic()
            self._end()

    def _end(self) -> None:
        """Print the last state of the search, once."""
        if self.last:
            self.console.print(self.last, markup=False, soft_wrap=True)
            self.last = ""
