"""TaskVerdict: which of a task's candidates is the fastest, as the journal remembers it or as it is measured now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels import registry
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Task

from .measuring.runner import Runner
from .measuring.tensor_limit import check_measurable
from .measuring.verdicts import find_verdict, store_verdict
from .measuring.verification import OverBudget, Verdict, verify
from .stand_ins import default_and_stand_ins, failed_default


class UnverifiedError(Exception):
    """A verification did not fit into its budget; the message says what it would have taken."""


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """A verdict that names a winner."""

    verdict: Verdict
    winner: Configuration
    elapsed: float | None  # seconds of the verification; None where the journal answered
    failed_default: str  # why the safe default did not run, and what was compared with instead; empty if it ran


def check_runnable(task: Task) -> None:
    """Check that the task's tensors can be made, and that its kernels have code that may run. Raises MisuseError."""
    check_measurable(task.problem)
    for family in task.kernels:
        if family.implementation is None:
            raise MisuseError(f"{family.name} cannot be run here: it has no implementation, so there is nothing to "
                              "measure; leave out --verify")
        registry.check_allowed(family)


def verdict_on(task: Task, candidates: Sequence[Configuration], seconds: float, journal: str | Path | None,
               cache: bool = True, progress: Say = silent) -> TaskVerdict:
    """Compare a task's candidates with its safe default in `seconds`; the journal keeps the measurements.

    With `cache`, an earlier verification in the journal answers. Raises UnverifiedError if the budget cannot suffice,
    SeqtuneError if nothing runs.
    """
    problem, device, default = task.problem, task.device, task.default
    versions = {kernel.name: kernel.version for kernel in task.kernels}
    stand_ins = partial(default_and_stand_ins, task)
    elapsed: float | None = None
    with Journal(journal) as records:
        verdict = find_verdict(records, problem, device, versions, candidates, default, seconds,
                               stand_ins) if cache else None
        if verdict is None:
            began = time.monotonic()
            try:
                with Runner(device) as runner:
                    verdict = verify(runner, problem, candidates, default, seconds, progress, stand_ins=stand_ins)
            except OverBudget as over:
                raise UnverifiedError(f"{over}, the budget is {seconds:g} s (--seconds)") from None
            store_verdict(records, problem, device, versions, verdict, seconds)
            elapsed = time.monotonic() - began
    failed = verdict.measurements[default]
    if verdict.winner is None:
        raise SeqtuneError(f"nothing ran on {device.name}: " + failed_default(
            default, failed.message or failed.status.value, others=len(verdict.measurements) - 1))
    substituted = "" if failed.status is Status.CORRECT else failed_default(
        default, failed.message or failed.status.value,
        verdict.default if verdict.default != default else None)
    return TaskVerdict(verdict, verdict.winner, elapsed, substituted)
