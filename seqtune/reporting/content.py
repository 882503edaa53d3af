"""Content: everything that a page shows of measurements, with their records as far as the page's size allows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Setting
from seqtune.kernels.say import Say, silent

from .cases import Cases, cases_of, settings_text
from .defaults import CaseDefaults, case_defaults
from .forecasts import forecasts
from .importance import importance
from .measurements import Measurements
from .overview import failures, overview
from .payload import levels, packed
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
