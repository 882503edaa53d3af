"""Forecasts: the share of the best speed that a checkpoint expects of its first proposal, and the measured share."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from seqtune.predictor.answering import Answering, answering_many, propose_many
from seqtune.predictor.predictors import named_predictor

from ..errors import CheckpointError
from .cases import Cases

MOST_CASES = 300  # cases that are drawn: ten seconds
BINS = 8  # bins of the reliability curve, with equal numbers of points
FEWEST_IN_BIN = 5


def forecasts(cases: Cases, checkpoint: str | Path, seed: int = 0) -> dict[str, Any]:
    """The first proposals for drawn cases, held-out problems first.

    A point has the machine, the problem, the expected share with its interval of 80 %, the measured share (None if that
    configuration was not measured) and whether the problem is held out. Raises CheckpointError.
    """
    named_predictor(checkpoint)  # raises before anything is drawn
    held_out = np.isin(np.array(cases.problems), sorted(cases.measurements.held_out))[cases.problem]
    order = np.random.default_rng(seed).permutation(len(cases))
    drawn = order[np.argsort(~held_out[order], kind="stable")][:MOST_CASES]
    points: list[dict[str, Any]] = []
    refused: dict[str, int] = defaultdict(int)
    for machine in np.unique(cases.machine[drawn]).tolist():
        own = [case for case in drawn.tolist() if cases.machine[case] == machine]
        points += _points(cases, machine, own, held_out, checkpoint, refused)
    measured = [point for point in points if point["share"] is not None and point["expected"] is not None]
    evaluated = [point for point in measured if point["held_out"]] or measured
    inside = sum(point["low"] <= point["share"] <= point["high"] for point in evaluated)
    return {"checkpoint": str(checkpoint), "drawn": len(drawn), "points": points, "curve": reliability(evaluated),
            "evaluated": len(evaluated), "inside": inside,
            "only_held_out": any(point["held_out"] for point in evaluated),
            "refused": [{"reason": reason, "count": count} for reason, count in refused.items()]}


def _points(cases: Cases, machine: int, own: list[int], held_out: Any, checkpoint: str | Path,
            refused: dict[str, int]) -> list[dict[str, Any]]:
    device = cases.measurements.machines[machine].device
    if device is None:
        refused["the facts of the machine are not stored"] += len(own)
        return []
    problems = {case: cases.measurements.problems[cases.problems[cases.problem[case]]] for case in own}
    try:
        answered, unsolved = answering_many(list(problems.values()), device, checkpoint)
    except CheckpointError as error:
        refused[str(error)[:200]] += len(own)
        return []
    asked: dict[int, Answering] = {}
    for case, problem in problems.items():
        if problem in unsolved:
            refused[str(unsolved[problem])[:200]] += 1
            continue
        try:
            answered[problem].check_kernels()
            asked[case] = answered[problem]
        except CheckpointError as error:
            refused[str(error)[:200]] += 1
    if not asked:
        return []
    proposed = propose_many(list(asked.values()), 1, evidence=False)
    shares = _shares(cases, {*asked})
    points = []
    for case, candidates in zip(asked, proposed, strict=True):
        first = candidates[0]
        confidence = first.confidence
        points.append({
            "machine": machine, "problem": int(cases.problem[case]), "held_out": bool(held_out[case]),
            "expected": None if confidence is None else round(confidence.share, 4),
            "low": None if confidence is None else round(confidence.low, 4),
            "high": None if confidence is None else round(confidence.high, 4),
            "share": shares.get((case, first.configuration.kernel, first.configuration.pairs))})
    return points


def _shares(cases: Cases, wanted: set[int]) -> dict[tuple[int, str, Any], float]:
    """The best measured seconds of a case divided by those of each of its configurations, 0 for one that failed."""
    names: list[dict[int, Any]] = [{number: settings for settings, number in table.numbers.items()}
                                   for table in cases.tables]
    best = cases.best()["seconds"].to_dict()
    chosen = cases.rows[cases.rows["case"].isin(wanted)]
    failed = chosen[chosen["seconds"].isna() & chosen["case"].isin(list(best))]
    shares = {(case, cases.tables[kernel].name, names[kernel][number]): 0.0
              for case, kernel, number in failed[["case", "kernel", "configuration"]].itertuples(index=False)}
    times = cases.times[cases.times["case"].isin(wanted)]
    for case, kernel, number, seconds in times.itertuples(index=False, name=None):
        shares[case, cases.tables[kernel].name, names[kernel][number]] = round(best[case] / seconds, 4)
    return shares


def reliability(points: list[dict[str, Any]]) -> list[dict[str, float]]:
    """The mean expected and the mean measured share of points in bins of equal size, by expected share."""
    ordered = sorted(points, key=lambda point: point["expected"])
    bins = max(1, min(BINS, len(ordered) // FEWEST_IN_BIN))
    edges = [math.floor(len(ordered) * number / bins) for number in range(bins + 1)]
    return [{"expected": float(np.mean([point["expected"] for point in part])),
             "share": float(np.mean([point["share"] for point in part])), "count": len(part)}
            for begin, end in pairwise(edges) if (part := ordered[begin:end])]
