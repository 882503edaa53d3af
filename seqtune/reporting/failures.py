"""Failures: records that are not correct, by status and reason, with an example of each."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .measurements import Measurements

MOST_KINDS = 60  # rows of the table; the most frequent ones
LONGEST = 300  # characters of a message
_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)  # differs between equal failures


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
