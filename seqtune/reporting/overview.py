"""Overview: what was measured on each machine, and how much faster the best is than the safe default."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from seqtune.data.machines import device_labels
from seqtune.data.record import Status

from .cases import Cases
from .defaults import CaseDefaults
from .measurements import Measurements

NO_FAILURES = (Status.CORRECT.value, Status.CONSTRAINTS.value, Status.CHOSEN.value)  # the second: refused, not tried


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
