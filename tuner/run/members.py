"""Members: what measures a plan. This machine and a replay are here; `fleet` has members on other machines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from seqtune.data.journal.journal import Journal
from seqtune.kernels.devices.device import Device

from ..measuring.recorded_measurer import RecordedMeasurer
from ..measuring.runner import Runner
from .local_run import LocalRun
from .plan import Plan, Skipped
from .result import TuningResult


class Run(Protocol):
    """A plan with the members that measure it. The package says what each kind of run promises."""

    @property
    def skipped(self) -> Sequence[Skipped]:
        """The problems that were left out so far, with the reasons."""
        ...

    def results(self) -> Iterator[TuningResult]:
        """Run, and yield each result when it is known. Raises InterruptedTuning on Ctrl-C, with the results so far."""
        ...


@contextmanager
def this_machine(plan: Plan, device: Device, journal: str | Path | None) -> Iterator[LocalRun]:
    """Open a device of this machine and the journal (None: the user's), and make a run of the plan."""
    with Journal(journal) as records, Runner(device) as runner:
        runner.start()
        yield LocalRun(plan, records, runner)


@contextmanager
def replay(plan: Plan, recorded: RecordedMeasurer) -> Iterator[LocalRun]:
    """Make a run of the plan that measures nothing. Its journal is temporary.

    A configuration that is not recorded did not fail, so it is not counted, and nothing stands in for the default.
    """
    options = replace(plan.options, defaults=lambda task: (task.default,), counts_as_failure=recorded.has)
    with tempfile.TemporaryDirectory(prefix="seqtune-") as folder, \
            Journal(Path(folder) / "replay.sqlite") as records:
        yield LocalRun(replace(plan, options=options), records, recorded)
