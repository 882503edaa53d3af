"""Remembered: the configuration that won the comparisons of a problem on this device, as a journal has them.

Verifications and the finals of searches are comparisons: they run configurations and the safe default in rounds. Each
configuration's newest comparison counts, so that a later one can take a victory back. The winner leads its default by
most. Each comparison is won as its command says: a verification by `measuring.verification.decide`, finals by
`run.finals.fastest_finalist`. A trial alone, whose time may be lucky, makes no winner. `predict`, `build` and `tune`
all name this winner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.data.journal.journal import Journal, default_path
from seqtune.data.record import TOGETHER, VERIFIED, Measurement, Record, Status
from seqtune.errors import KernelError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from .stand_ins import default_and_stand_ins

if TYPE_CHECKING:
    from .measuring.verification import Verdict

FINAL = "final"  # Record.run of a search's finals, whose records have the session of their comparison
RUNS = {VERIFIED: "verified", FINAL: "of the finals"}  # runs that compare, as an attribute of the winner


@dataclass(frozen=True, slots=True)
class Remembered:
    """The winner of a problem on a device in a journal, with the comparison that it won."""

    configuration: Configuration
    verdict: Verdict
    when: float  # seconds since 1970
    run: str  # VERIFIED or FINAL

    @property
    def date(self) -> str:
        """The day of the comparison, as in 2026-11-20 (UTC)."""
        return datetime.fromtimestamp(self.when, UTC).date().isoformat()

    @property
    def origin(self) -> str:
        """The comparison as an attribute of the winner: verified on 2026-11-20."""
        return f"{RUNS[self.run]} on {self.date}"

    @property
    def described(self) -> str:
        """The winner and its comparison in words: the winner verified on 2026-11-20."""
        is_default = self.configuration == self.verdict.default
        return f"{'the default, which nothing beat surely,' if is_default else 'the winner'} {self.origin}"

    @property
    def measurement(self) -> Measurement:
        """The measurement of the winner."""
        return self.verdict.measurements[self.configuration]

    def to_json(self) -> dict[str, object]:
        """A JSON object: the comparison, and the winner's lead over the default."""
        verdict = self.verdict
        return {"run": self.run, "when": self.when, "date": self.date, "speedup": verdict.speedup,
                "significant": verdict.significant, "loaded": verdict.loaded}


def remembered_winners(problems: Iterable[Problem], device: Device,
                       journal: str | Path | None = None) -> dict[Problem, Remembered]:
    """The winners of those problems that have one in a journal (None: the user's own, if there is one).

    Records of this host and machine count, with the present version of their kernels and this toolchain. A journal that
    cannot be read raises FormatError or SeqtuneError if it was named; the user's own then has no winner.
    """
    path = default_path() if journal is None else Path(journal)
    if not (path.is_file() and path.stat().st_size):
        return {}
    try:
        with Journal(path) as records:
            measured = records.measured(device.key)
            winners = {problem: _winner(records, problem, device) for problem in problems if problem.key in measured}
    except SeqtuneError:
        if journal is not None:
            raise
        return {}
    return {problem: winner for problem, winner in winners.items() if winner is not None}


def _winner(journal: Journal, problem: Problem, device: Device) -> Remembered | None:
    """The winner of a problem's comparisons, or None."""
    compared = [record for run in RUNS for record in journal.records(problem, device.key, run)]
    if not compared:
        return None
    from .measuring.verdicts import is_of_machine  # with all that measures, which other predictions need not load

    sessions: dict[str, list[Record]] = {}
    for record in compared:
        if is_of_machine(record, device):
            sessions.setdefault(record.session, []).append(record)
    if not sessions:
        return None
    try:
        task = Task.of(problem, device)
    except KernelError:
        return None
    versions = {kernel.name: kernel.version for kernel in task.kernels}
    newest: dict[Configuration, Remembered | None] = {}  # a comparison of each configuration if it won, else None
    for session in sorted(sessions.values(), key=lambda records: records[-1].when):
        if all(record.is_todays(device.toolchain, versions) for record in session):
            winner = _of_session(session, task)
            for record in session:
                newest[record.configuration] = winner if winner and winner.configuration == record.configuration else (
                    None)
    winners = [winner for winner in newest.values() if winner is not None and task.find(winner.configuration)
               is not None]
    return max(winners, key=lambda winner: (winner.verdict.speedup or 0.0, winner.when), default=None)


def _of_session(records: Sequence[Record], task: Task) -> Remembered | None:
    """The winner of the records of one comparison; None if nothing was compared."""
    from .measuring.verification import decide

    measurements = {record.configuration: record.measurement for record in records}
    run = records[-1].run
    paired = [record.configuration for record in records if run == FINAL or record.stage == TOGETHER]
    verdict = decide(measurements, _default(measurements, task), paired, any(record.loaded for record in records))
    if run == FINAL:
        verdict = _of_finals(verdict)
    return None if verdict.winner is None else Remembered(verdict.winner, verdict, records[-1].when, run)


def _of_finals(verdict: Verdict) -> Verdict:
    """The verdict with the fastest finalist as its winner, whether or not its lead over the default is significant."""
    from .measuring.comparison import faster_than
    from .measuring.verification import RULE
    from .run.finals import fastest_finalist

    fastest, default, seconds = fastest_finalist(verdict.measurements), verdict.default, verdict.typical
    if fastest is None or default not in seconds:
        return verdict
    pair = {each: verdict.measurements[each].samples for each in (default, fastest)}
    return replace(verdict, winner=fastest, speedup=seconds[default] / seconds[fastest],
                   significant=bool(faster_than(default, pair, RULE)))


def _default(measurements: Mapping[Configuration, Measurement], task: Task) -> Configuration:
    """The safe default if it was measured and ran, else the first of its stand-ins that ran, else the default."""
    for configuration in default_and_stand_ins(task):
        if configuration in measurements and measurements[configuration].status is Status.CORRECT:
            return configuration
    return task.default
