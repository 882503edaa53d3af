"""JournalBatch: some rows of a journal by column, which are read faster than the same number of records."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..record import ALONE, HOPELESS, VERIFIED, Measurement, Record, Status

CORRECT = Status.CORRECT.value
STATUSES = {status.value: status for status in Status}
LeftOut = Counter[tuple[str, str]]  # by name of the device and fingerprint of the other machine


@dataclass(frozen=True, slots=True)
class JournalBatch:
    """Columns of records; each has a value for every row, as in `Record` and `Measurement`."""

    problems: Sequence[Problem]
    problem_keys: Sequence[str]  # Problem.key
    devices: Sequence[str]
    kernel_versions: Sequence[int]
    configurations: Sequence[Configuration]
    kernels: Sequence[str]  # Configuration.kernel
    keys: Sequence[str]  # Configuration.key
    toolchains: Sequence[str]
    statuses: Sequence[str]  # values of Status
    samples: Sequence[Sequence[float]]
    errors: Sequence[float | None]
    build_seconds: Sequence[float]
    messages: Sequence[str]
    whens: Sequence[float]
    runs: Sequence[str]
    hosts: Sequence[str]
    machines: Sequence[str]
    sessions: Sequence[str]
    stages: Sequence[str]
    budgets: Sequence[float]
    loaded: Sequence[bool]
    resources: Sequence[ResourceUsage | None]
    disturbed: Sequence[int]

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> JournalBatch:
        """The columns of records."""
        measured = [record.measurement for record in records]
        return cls(*map(list, (
            (record.problem for record in records), (record.problem.key for record in records),
            (record.device for record in records),
            (record.kernel_version for record in records), (record.configuration for record in records),
            (record.configuration.kernel for record in records), (record.configuration.key for record in records),
            (record.toolchain for record in records),
            (measurement.status.value for measurement in measured), (measurement.samples for measurement in measured),
            (measurement.error for measurement in measured), (measurement.build_seconds for measurement in measured),
            (measurement.message for measurement in measured), (record.when for record in records),
            (record.run for record in records), (record.host for record in records),
            (record.machine for record in records), (record.session for record in records),
            (record.stage for record in records), (record.budget for record in records),
            (record.loaded for record in records), (measurement.resources for measurement in measured),
            (measurement.disturbed for measurement in measured))))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.problems)

    @property
    def seconds(self) -> list[float]:
        """`Measurement.seconds` of every row."""
        return [min(samples) if status == CORRECT and samples else math.inf
                for status, samples in zip(self.statuses, self.samples, strict=True)]

    @property
    def spreads(self) -> list[float]:
        """`Measurement.spread` of every row, computed together for those with equally many samples."""
        counts = list(map(len, self.samples))
        spreads = [0.0] * len(counts)
        for count in set(counts) - {0, 1}:
            rows = [row for row, samples in enumerate(counts) if samples == count]
            for row, spread in zip(rows, _spreads(np.array([self.samples[row] for row in rows])), strict=True):
                spreads[row] = spread
        return spreads

    @property
    def rest_on_one_build(self) -> list[bool]:
        """`Record.rests_on_one_build` of every row."""
        return [run == VERIFIED and stage in (ALONE, HOPELESS) and status == CORRECT
                for run, stage, status in zip(self.runs, self.stages, self.statuses, strict=True)]

    def where(self, keep: Sequence[bool]) -> JournalBatch:
        """The rows where `keep` is True."""
        return JournalBatch(*(list(compress(getattr(self, column.name), keep)) for column in fields(self)))

    def records(self) -> Iterator[Record]:
        """The records."""
        for (problem, device, version, configuration, toolchain, status, samples, error, build, message, when, run,
             host, machine, session, stage, budget, loaded, resources, disturbed) in zip(
                self.problems, self.devices, self.kernel_versions, self.configurations, self.toolchains,
                map(STATUSES.__getitem__, self.statuses), map(tuple, self.samples), self.errors, self.build_seconds,
                self.messages, self.whens, self.runs, self.hosts, self.machines, self.sessions, self.stages,
                self.budgets, self.loaded, self.resources, self.disturbed, strict=True):
            yield Record(problem, device, version, configuration, toolchain,
                         Measurement(status, samples, error, build, message, False, resources, disturbed), when, run,
                         host, machine, session, stage, budget, loaded)


def _spreads(samples: NDArray[np.float64]) -> list[float]:
    """`Measurement.spread` of samples, (row, sample), by the same operations."""
    ordered = np.sort(samples, axis=1)

    def quantile(share: float) -> NDArray[np.float64]:
        position = share * (ordered.shape[1] - 1)
        low = int(position)
        high = min(low + 1, ordered.shape[1] - 1)
        return np.asarray(ordered[:, low] + (ordered[:, high] - ordered[:, low]) * (position - low))

    spreads: list[float] = ((quantile(0.75) - quantile(0.25)) / quantile(0.5)).tolist()  # samples are above 0
    return spreads


def columns_of_machines(batches: Iterable[JournalBatch],
                        devices: Mapping[str, Device]) -> tuple[dict[str, list[Any]], LeftOut]:
    """The columns of a data set, for each device key of one machine only, and the numbers of other machines' rows.

    The machine is that of the device's stored facts (`devices`, by key). Times that rest on one build of a
    verification are left out.
    """
    columns = {name: list[Any]() for name in _columns(JournalBatch.of_records([]))}
    left_out: LeftOut = Counter()
    for batch in batches:
        pairs = list(zip(batch.devices, batch.machines, strict=True))
        others = {(key, machine) for key, machine in set(pairs)
                  if key in devices and machine not in ("", devices[key].fingerprint)}
        if others:
            left_out.update((devices[key].name, machine) for key, machine in pairs if (key, machine) in others)
        unsure = batch.rest_on_one_build
        chosen = batch.where([pair not in others and not one_build for pair, one_build in zip(
            pairs, unsure, strict=True)]) if others or any(unsure) else batch
        for name, values in _columns(chosen).items():
            columns[name].extend(values)
    return columns, left_out


def _columns(batch: JournalBatch) -> dict[str, Sequence[Any]]:
    return {
        "device": batch.devices, "problem": batch.problem_keys, "kernel": batch.kernels,
        "kernel_version": batch.kernel_versions, "configuration": batch.keys, "status": batch.statuses,
        "seconds": batch.seconds, "spread": batch.spreads, "samples": list(map(len, batch.samples)),
        "error": [math.nan if error is None else error for error in batch.errors],
        "build_seconds": batch.build_seconds, "run": batch.runs, "toolchain": batch.toolchains,
        "workspace": [0] * len(batch),
        **{name: [0 if usage is None else getattr(usage, name) for usage in batch.resources]
           for name in ("registers", "shared_bytes", "spill_bytes", "occupancy")}}
