"""Payload: what a page shows, as one text: facts in JSON and columns of whole numbers, deflated and in base64.

Layout before deflating: 4 bytes with the length of the facts (little-endian), the facts in UTF-8, then the columns that
`facts["columns"]` lists, each as [name, bytes of a number, count]. A column is written byte plane by byte plane (all
lowest bytes first), which deflates better than number by number.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 0.001  # the least difference of log(seconds) that a page keeps: a tenth of a per cent
MOST_LEVELS = 65_534  # levels that 16 bits can hold beside 0, which stands for a failure


def packed(facts: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> str:
    """The payload's text. Columns hold whole numbers from 0 to 2^32 - 1."""
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
