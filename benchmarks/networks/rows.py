"""Rows of the table: what the outcomes of the contests say. A ratio above 1 means that we are faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.common.contest import geometric_mean
from benchmarks.common.report import Row
from seqtune.tuner.measuring.comparison import level_rounds

from .contest import OURS, UNVERIFIED, ContestOutcome
from .peers import PEERS

PEER_NAMES = tuple(peer.name for peer in PEERS)
MEAN = "geometric mean"  # the name of a row over networks
FLOORS = {"fp32": 0.97, "bf16": 0.9}  # precision -> the least ratio to the best peer that is asked for


def levels(samples: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """The median seconds of each contestant over levelled rounds, and their spread: the middle half over the median.

    A round in which the whole machine was slower, for all contestants alike, is brought to the level of the others.
    """
    quartiles = {name: np.percentile(rounds, [25, 50, 75]) for name, rounds in level_rounds(samples).items()}
    return {name: (float(middle), float((high - low) / middle)) for name, (low, middle, high) in quartiles.items()}


def row_of(outcome: ContestOutcome) -> Row:
    """The row of a contest; what a contestant that was left out would show is None."""
    times = levels(outcome.samples)
    seconds = {name: middle for name, (middle, _) in times.items()}
    own = seconds.get(OURS)
    ratios = {f"vs_{name}": seconds[name] / own if own and name in seconds else None for name in PEER_NAMES}
    peers = [name for name in PEER_NAMES if name in seconds]
    best = min(peers, key=seconds.__getitem__) if peers else None
    return {
        "model": outcome.model, "dtype": outcome.dtype, "threads": outcome.threads,
        "ms": own * 1e3 if own else None, **ratios,
        "best_peer": best, "vs_best": seconds[best] / own if best and own else None,
        "vs_unverified": seconds[UNVERIFIED] / own if own and UNVERIFIED in seconds else None,
        "pytorch_operations_left": sum(outcome.operations.values()) if own else None,
        "error": outcome.errors.get(OURS), "seconds_to_ready": outcome.ready.get(OURS),
        "unverified_seconds_to_ready": outcome.ready.get(UNVERIFIED),
        "milliseconds": {name: middle * 1e3 for name, middle in seconds.items()},
        "spread": {name: spread for name, (_, spread) in times.items()}, "errors": outcome.errors,
        "ready": outcome.ready, "onnx_export_seconds": outcome.export, "operations": outcome.operations,
        "left_out": outcome.left_out}


def summaries(rows: Sequence[Row]) -> list[Row]:
    """A row for each precision and number of threads: the geometric means of the ratios, and the slowest networks."""
    means = []
    for dtype, threads in dict.fromkeys((row["dtype"], row["threads"]) for row in rows):
        group = [row for row in rows if (row["dtype"], row["threads"]) == (dtype, threads)]
        known = {row["model"]: row["vs_best"] for row in group if row["vs_best"] is not None}
        columns = [*(f"vs_{name}" for name in PEER_NAMES), "vs_best", "vs_unverified"]
        means.append({
            "model": MEAN, "dtype": dtype, "threads": threads, "networks": len(known),
            **{column: _mean([row[column] for row in group if row[column] is not None]) for column in columns},
            "least": min(known.values(), default=None),
            "below": sorted((name for name, ratio in known.items() if ratio < FLOORS[dtype]), key=known.__getitem__),
            "without_ours": [row["model"] for row in group if row["ms"] is None]})
    return means


def _mean(ratios: Sequence[float]) -> float | None:
    return geometric_mean(ratios) if ratios else None
