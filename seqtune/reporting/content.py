"""Content: everything that a page shows of measurements, with their records as far as the page's size allows."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.machines import device_labels
from seqtune.data.record import Status
from seqtune.kernels.kernel import Setting
from seqtune.kernels.say import Say, silent

from .cases import Cases, cases_of, settings_text
from .defaults import CaseDefaults, case_defaults
from .forecasts import forecasts
from .importance import importance
from .measurements import Measurements
from .pruning import pruning

MOST_TEXTS = 5_000  # configurations written out, because the table of the page does not hold them
ROOM = 0.95  # share of the bytes that an estimate may fill, so that the next attempt fits


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The largest page."""

    bytes: int = 4_800_000
    cases: int = 50_000  # that a page lists; their names alone take 1 MB


def content(measurements: Measurements, checkpoint: str | Path | None, seed: int, limits: PageLimits,
            progress: Say = silent) -> tuple[str, dict[str, Any]]:
    """The payload of a page, within `limits` if possible, and a summary. Raises CheckpointError, FormatError.

    If it would be larger, the records of the problems with the fewest records are left out.
    """
    progress("sorting the records")
    cases = cases_of(measurements)
    listed = cases.largest(limits.cases)
    unlisted, cases = len(cases) - len(listed), listed
    progress("finding the safe defaults")
    defaults = case_defaults(cases)
    predicted = None
    if checkpoint is not None:
        progress("predicting")
        predicted = forecasts(cases, checkpoint, seed)
    progress("counting")
    facts: dict[str, Any] = {
        "records": len(measurements.rows), "problem_count": int(measurements.rows["problem"].nunique()),
        "unlisted": unlisted, "former": cases.former, "ordered": measurements.ordered,
        "notes": list(measurements.notes), "overview": overview(cases, defaults), "importance": importance(cases),
        "failures": failures(measurements), "forecasts": predicted, "pruning": pruning(cases, seed)}
    progress("packing")
    text, left_out = _fitted(cases, defaults, facts, limits.bytes)
    summary = {"records": len(measurements.rows), "problems": facts["problem_count"],
               "machines": [machine["label"] for machine in facts["overview"]],
               "failures": facts["failures"]["records"], "left_out": left_out + unlisted}
    if predicted is not None:
        summary["predicted"] = predicted["drawn"]
    return text, summary


def _fitted(cases: Cases, defaults: CaseDefaults, facts: dict[str, Any], most: int) -> tuple[str, int]:
    """The payload with the records of as many cases as fit, those with most records first, and how many do not."""
    counts = cases.counts()
    order = np.argsort(-counts, kind="stable")
    kept = np.ones(len(cases), bool)
    text = _text(cases, defaults, facts, kept)
    if len(text) <= most:
        return text, 0
    bare = len(_text(cases, defaults, facts, np.zeros(len(cases), bool)))
    while len(text) > most and kept.any():
        share = max(0.0, ROOM * (most - bare) / max(1, len(text) - bare))
        number = int(np.searchsorted(np.cumsum(counts[order]), share * counts[kept].sum(), side="right"))
        kept[order[min(number, int(kept.sum()) - 1):]] = False
        text = _text(cases, defaults, facts, kept)
    return text, int((~kept).sum())


def _text(cases: Cases, defaults: CaseDefaults, facts: dict[str, Any], kept: NDArray[np.bool_]) -> str:
    """The payload with the records of the `kept` cases."""
    rows = cases.rows[kept[cases.rows["case"].to_numpy()]]
    best = cases.best().reindex(range(len(cases)))
    columns: dict[str, NDArray[Any]] = {"machine": cases.machine, "problem": cases.problem, "total": cases.counts(),
                                        "count": np.where(kept, cases.counts(), 0)}
    kernels, compact = [], np.zeros(len(rows), np.int64)
    defaults_compact = np.zeros(len(cases), np.int64)
    best_texts, default_texts = dict[int, str](), dict[int, str]()
    of_row, number_of_row = rows["kernel"].to_numpy(), rows["configuration"].to_numpy()
    for index, table in enumerate(cases.tables):
        own = of_row == index
        used, position = np.unique(number_of_row[own], return_inverse=True)
        compact[own] = position
        where = defaults.kernel == index
        at = np.minimum(np.searchsorted(used, defaults.configuration[where]), max(0, len(used) - 1))
        hit = used[at] == defaults.configuration[where] if len(used) else np.zeros(int(where.sum()), bool)
        defaults_compact[where] = np.where(hit, at + 1, 0)  # 0: not in the table
        kernels.append({"name": table.name, "parameters": [
            {"name": name, "values": list(map(_exact, values))} for name, values in table.parameters]})
        for column, (_, values) in enumerate(table.parameters):
            columns[f"value:{index}:{column}"] = table.indices[used, column] if len(values) > 1 else np.zeros(0, int)
    for case in np.flatnonzero(~kept)[:MOST_TEXTS].tolist():
        if not np.isnan(best["seconds"][case]):
            table = cases.tables[int(best["kernel"][case])]
            best_texts[case] = f"{table.name} {settings_text(table, int(best['configuration'][case]))}"
    for case, default in enumerate(defaults.configurations):
        if default is not None and not defaults_compact[case] and len(default_texts) < MOST_TEXTS:
            default_texts[case] = f"{default.kernel} {default.brief()}"
    times, base, step = levels(np.concatenate([rows["seconds"], best["seconds"], defaults.seconds]))
    split = len(rows), len(rows) + len(cases)
    columns |= {"seconds": times[:split[0]], "best": times[split[0]:split[1]], "default": times[split[1]:],
                "default_kernel": defaults.kernel + 1, "default_configuration": defaults_compact,
                "kernel": of_row, "configuration": compact, "repeated": rows["repeated"].to_numpy(np.int64)}
    more = {"problems": list(cases.problems), "kernels": kernels, "log_base": base, "log_step": step,
            "best_texts": best_texts, "default_texts": default_texts, "left_out": int((~kept).sum())}
    return packed({**facts, **more}, columns)


def _exact(value: Setting | None) -> Setting | None:
    """A value that JavaScript shows exactly: whole numbers from 2^53 on are text."""
    return str(value) if isinstance(value, int) and abs(value) >= 2**53 else value


STEP = 0.001  # the least difference of log(seconds) that a page keeps: a tenth of a per cent
MOST_LEVELS = 65_534  # levels that 16 bits can hold beside 0, which stands for a failure


def packed(facts: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> str:
    """Facts in JSON and columns of whole numbers from 0 to 2^32 - 1 as one text, deflated and in base64.

    Layout before deflating: 4 bytes with the length of the facts (little-endian), the facts in UTF-8, then the columns
    that `facts["columns"]` lists, each as [name, bytes of a number, count]. A column is written byte plane by byte
    plane (all lowest bytes first), which deflates better than number by number.
    """
    listed, parts = [], []
    for name, column in columns.items():
        most = int(column.max()) if len(column) else 0
        size = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4
        listed.append([name, size, len(column)])
        planes = column.astype("<u4").view(np.uint8).reshape(len(column), 4)[:, :size]
        parts.append(np.ascontiguousarray(planes.T).tobytes())
    text = json.dumps({**facts, "columns": listed}, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(zlib.compress(b"".join([struct.pack("<I", len(text)), text, *parts]), 9)).decode("ascii")


def levels(seconds: NDArray[np.float64]) -> tuple[NDArray[np.int64], float, float]:
    """Seconds as levels 1, 2, ... (0 where NaN), with the logarithm of level 1 and the step between levels."""
    ran = ~np.isnan(seconds)
    if not ran.any():
        return np.zeros(len(seconds), np.int64), 0.0, STEP
    logs = np.log(seconds, where=ran, out=np.zeros(len(seconds)))
    least = float(logs[ran].min())
    step = max(STEP, (float(logs[ran].max()) - least) / (MOST_LEVELS - 1))
    return np.where(ran, 1 + np.rint((logs - least) / step), 0).astype(np.int64), least, step


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
