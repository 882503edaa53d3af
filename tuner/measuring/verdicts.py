"""Verdicts in a journal: a verification is kept as one session of records, and answers again where it still may."""

from __future__ import annotations

import platform
import time
import uuid
from collections.abc import Collection, Mapping, Sequence

from seqtune.data.journal import Journal
from seqtune.data.record import Record
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .verification import Verdict, decide

RUN = "verify"  # Record.run
ALONE, TOGETHER = "alone", "together"  # Record.stage: timed by itself, or in the rounds with the default


def keep_verdict(journal: Journal, problem: Problem, device: Device, versions: Mapping[str, int], verdict: Verdict,
                 seconds: float) -> None:
    """Add a verification's measurements as one session. `seconds` was its budget, `versions` are its kernels'."""
    journal.add_device(device)
    session, when, host = uuid.uuid4().hex, time.time(), platform.node()
    for configuration, measurement in verdict.measurements.items():
        journal.add(Record(
            problem, device.key, versions[configuration.kernel], configuration, device.toolchain, measurement, when,
            RUN, host, device.fingerprint, session, TOGETHER if configuration in verdict.together else ALONE, seconds))


def kept_verdict(journal: Journal, problem: Problem, device: Device, versions: Mapping[str, int],
                 candidates: Collection[Configuration], default: Configuration, seconds: float) -> Verdict | None:
    """The verdict of the newest session that measured all of these, or None.

    It must have been drawn on this host and machine, with today's toolchain and kernels, and with a budget of at least
    `seconds`: a short look answers no careful question. Sessions that hold more candidates answer for fewer.
    """
    wanted = list(dict.fromkeys([*candidates, default]))
    sessions: dict[str, list[Record]] = {}
    for record in journal.records(problem, device.key, run=RUN):
        if _answers_here(record, device) and record.budget >= seconds and record.is_todays(device.toolchain, versions):
            sessions.setdefault(record.session, []).append(record)
    for records in sorted(sessions.values(), key=lambda records: records[-1].when, reverse=True):
        verdict = _verdict(records, wanted, default)
        if verdict is not None:
            return verdict
    return None


def _answers_here(record: Record, device: Device) -> bool:
    return bool(record.session) and record.host == platform.node() and record.machine == device.fingerprint


def _verdict(records: Sequence[Record], wanted: Sequence[Configuration], default: Configuration) -> Verdict | None:
    measurements = {record.configuration: record.measurement for record in records}
    if not all(configuration in measurements for configuration in wanted):
        return None
    together = {record.configuration for record in records if record.stage == TOGETHER}
    return decide({configuration: measurements[configuration] for configuration in wanted}, default, together)
