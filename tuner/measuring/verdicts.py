"""Verdicts in a journal: a verification is stored as one session of records, and reused while it is valid."""

from __future__ import annotations

import platform
import time
import uuid
from collections.abc import Collection, Mapping, Sequence

from seqtune.data.journal.journal import Journal
from seqtune.data.record import ALONE, HOPELESS, REBUILT, TOGETHER, VERIFIED, Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .verification import StandIns, Verdict, decide, hopeless_among


def store_verdict(journal: Journal, problem: Problem, device: Device, versions: Mapping[str, int], verdict: Verdict,
                  seconds: float) -> None:
    """Add the measurements of a verification to the journal, as one session.

    `versions` maps the names of its kernels to their versions, and `seconds` is its budget.
    """
    journal.add_device(device)
    session, when, host = uuid.uuid4().hex, time.time(), platform.node()
    stages = {configuration: REBUILT if configuration in verdict.rebuilt else HOPELESS
              for configuration in verdict.hopeless} | dict.fromkeys(verdict.paired, TOGETHER)
    for configuration, measurement in verdict.measurements.items():
        journal.add(Record(
            problem, device.key, versions[configuration.kernel], configuration, device.toolchain, measurement, when,
            VERIFIED, host, device.fingerprint, session, stages.get(configuration, ALONE), seconds, verdict.loaded))


def find_verdict(journal: Journal, problem: Problem, device: Device, versions: Mapping[str, int],
                 candidates: Collection[Configuration], default: Configuration, seconds: float,
                 stand_ins: StandIns = tuple) -> Verdict | None:
    """The verdict of the newest session that measured the default and all these candidates, or None.

    The session must be of this host and machine, of the current toolchain and kernel versions, and of a budget of at
    least `seconds`. A session with more candidates also answers for fewer, if it compared them: a candidate that was
    timed alone must have failed or be hopeless among these candidates, not only among those of the session. For the
    session's own candidates its stage one has decided that, though the best time may differ in the rounds. A session
    under heavy load answers nothing: on a quiet machine another measurement says more. Where the default failed, the
    session must have measured the first of `stand_ins()` that runs.
    """
    wanted = list(dict.fromkeys([*candidates, default]))
    sessions: dict[str, list[Record]] = {}
    for record in journal.records(problem, device.key, run=VERIFIED):
        if is_of_machine(record, device) and not record.loaded and record.budget >= seconds and record.is_todays(
                device.toolchain, versions):
            sessions.setdefault(record.session, []).append(record)
    for records in sorted(sessions.values(), key=lambda records: records[-1].when, reverse=True):
        verdict = _verdict(records, wanted, default, stand_ins)
        if verdict is not None:
            return verdict
    return None


def is_of_machine(record: Record, device: Device) -> bool:
    """Whether a record belongs to a comparison that was made on this host and machine."""
    return bool(record.session) and record.host == platform.node() and record.machine == device.fingerprint


def _verdict(records: Sequence[Record], wanted: Sequence[Configuration], default: Configuration,
             stand_ins: StandIns) -> Verdict | None:
    stored = {record.configuration: record.measurement for record in records}
    if not all(configuration in stored for configuration in wanted):
        return None
    measurements = {configuration: stored[configuration] for configuration in wanted}
    if stored[default].status is not Status.CORRECT:
        for stand_in in stand_ins():
            if stand_in not in stored:
                return None
            measurements[stand_in] = stored[stand_in]
            if stored[stand_in].status is Status.CORRECT:
                default = stand_in
                break
    paired = {record.configuration for record in records if record.stage == TOGETHER}
    settled = {record.configuration for record in records if record.stage in (HOPELESS, REBUILT)
               } if stored.keys() == measurements.keys() else set()
    if not _needs_rounds(measurements, default) <= paired | settled:
        return None
    return decide(measurements, default, paired)


def _needs_rounds(measurements: Mapping[Configuration, Measurement], default: Configuration) -> set[Configuration]:
    """The configurations that a verification of these compares in rounds: the default and the promising candidates.

    The set is empty if there is nothing to compare: the default failed, or every candidate failed or is hopeless.
    """
    promising = {configuration for configuration, measurement in measurements.items()
                 if measurement.status is Status.CORRECT} - {default, *hopeless_among(measurements, default)}
    if not promising or measurements[default].status is not Status.CORRECT:
        return set()
    return {default, *promising}
