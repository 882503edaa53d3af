"""Overview: what was measured on each machine, how much faster the best is than the safe default, and what failed."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import numpy as np

from seqtune.data.machines import device_labels
from seqtune.data.record import Status

from .cases import Cases
from .defaults import CaseDefaults
from .measurements import Measurements

NO_FAILURES = (Status.CORRECT.value, Status.CONSTRAINTS.value, Status.CHOSEN.value)  # the second: refused, not tried
MOST_KINDS = 60  # rows of the table; the most frequent ones
LONGEST = 300  # characters of a message
_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)  # differs between equal failures


def machine_labels(measurements: Measurements) -> list[str]:
    """A short text for each machine, with its fingerprint where two machines would have the same text."""
    known = device_labels(machine.device for machine in measurements.machines if machine.device is not None)
    labels = [known.get(machine.key, machine.key) for machine in measurements.machines]
    return [f"{label} ({machine.fingerprint or 'machine not recorded'})" if labels.count(label) > 1 else label
            for label, machine in zip(labels, measurements.machines, strict=True)]


def overview(cases: Cases, defaults: CaseDefaults) -> list[dict[str, Any]]:
    """A row for each machine: records, failures, dates, and the median over its cases of default / best seconds."""
    measurements = cases.measurements
    best = cases.best()["seconds"].reindex(range(len(cases))).to_numpy()
    gains = defaults.seconds / best
    overviews = []
    for index, (machine, label) in enumerate(zip(measurements.machines, machine_labels(measurements), strict=True)):
        rows = measurements.rows[measurements.rows["machine"] == index]
        when = rows.loc[rows["when"] > 0, "when"]
        own = gains[(cases.machine == index) & np.isfinite(gains)]
        overviews.append({
            "label": label, "model": "" if machine.device is None else machine.device.model,
            "sizes": machine.fingerprint, "hosts": list(machine.hosts[:3]),
            "problems": int(rows["problem"].nunique()), "records": len(rows),
            "failures": int((~rows["status"].isin(NO_FAILURES)).sum()),
            "first": _date(when.min()) if len(when) else "", "last": _date(when.max()) if len(when) else "",
            "speedup": float(np.median(own)) if len(own) else None, "compared": len(own)})
    return overviews


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def failures(measurements: Measurements) -> dict[str, Any]:
    """The `kinds`, most frequent first, each with an example; and how many kinds and records were left out."""
    rows = measurements.rows[~measurements.rows["status"].isin(("correct", "chosen"))]
    counted = Counter[tuple[str, str, int, str]]()
    examples: dict[tuple[str, str, int, str], dict[str, Any]] = {}
    columns = [rows[name].tolist() for name in ("status", "kernel", "machine", "message", "problem", "configuration")]
    for status, kernel, machine, message, problem, configuration in zip(*columns, strict=True):
        kind = status, kernel, machine, _VARYING.sub("#", message[:LONGEST])
        counted[kind] += 1
        if kind not in examples:
            examples[kind] = {"status": status, "kernel": kernel, "machine": machine, "reason": message[:LONGEST],
                              "problem": problem, "configuration": configuration[:LONGEST]}
    listed = counted.most_common(MOST_KINDS)
    kinds = [{**examples[kind], "count": count} for kind, count in listed]
    return {"kinds": kinds, "more_kinds": len(counted) - len(listed),
            "more_records": counted.total() - sum(count for _, count in listed), "records": len(rows),
            "reasons_kept": measurements.ordered}
