"""Shapes: the problems of one operation that a few kernels shall serve, each with its share of the run time."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import numpy as np

from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import weighed_set
from seqtune.predictor.dispatch.domain import Domain

from ...errors import FormatError, MisuseError, shown
from ..inputs import as_problems

DRAWN = 60  # shapes from ranges: their measurement takes minutes, and a rule of some leaves can be learned from them
REPEATS = 17  # draws for each of these, because narrow ranges draw the same shapes again
_RANGES = re.compile(r"\s*[A-Za-z_]\w*=[^\s=]+(\s+[A-Za-z_]\w*=[^\s=]+)*\s*")


def as_shapes(kind: str, shapes: object) -> dict[Problem, float]:
    """The shapes of the operation `kind` in a mapping from problems to weights, or several problems of equal weight.

    The weights sum to 1. Raises MisuseError for fewer than two shapes, other operations, and wrong weights.
    """
    given = shapes if isinstance(shapes, Mapping) and "type" not in shapes else dict.fromkeys(as_problems(shapes), 1.0)
    weights: defaultdict[Problem, float] = defaultdict(float)
    for problem, weight in zip(as_problems([*given]), given.values(), strict=True):
        if problem.type != kind:
            raise MisuseError(f"{problem.brief()} is no {kind}; a dispatch is for one operation")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise MisuseError(f"the weight {shown(weight)} of {problem.brief()} is not a number of at least 0")
        weights[problem] += weight
    positive = {problem: weight for problem, weight in weights.items() if weight > 0}
    if len(positive) < 2:
        what = f"{next(iter(positive)).brief()} is the only shape" if positive else "there are no shapes"
        above = " with a weight above 0" if len(positive) < len(weights) else ""
        raise MisuseError(f"{what}{above}; a rule needs several (for one, `seqtune tune` finds the best kernel)")
    total = math.fsum(positive.values())
    return {problem: weight / total for problem, weight in positive.items()}


def read_shapes(kind: str, sources: Sequence[str], seed: int,
                note: Callable[[str], object]) -> tuple[dict[Problem, float], tuple[str, ...]]:
    """The shapes of the operation `kind` in named sets, files and ranges, with weights that sum to 1; and their domain.

    All ranges (`m=1..4096`) are one source, of which DRAWN shapes are drawn by the `seed`; they are the domain if there
    is no other source. Each source counts as much as each other. Problems of other operations are left out, and a note
    counts them. Raises FormatError, which names the line, for what is no problem or no weight, MisuseError for a source
    without shapes or an impossible range, and what `weighed_set` raises.
    """
    work = operation(kind)
    ranges = tuple(word for source in sources if _RANGES.fullmatch(source) for word in source.split())
    parts = [_weights(kind, source, note) for source in sources if not _RANGES.fullmatch(source)]
    domain = ranges if not parts else ()
    if ranges:
        drawn = Domain.parse(work, ranges).sample(REPEATS * DRAWN, np.random.default_rng(seed)).problems()
        parts.append(dict.fromkeys(islice(dict.fromkeys(problem for _, problem in drawn), DRAWN), 1.0))
    shapes: defaultdict[Problem, float] = defaultdict(float)
    for part in parts:
        total = math.fsum(part.values())
        for problem, weight in part.items():
            shapes[problem] += weight / total / len(parts)
    return dict(shapes), domain


def _weights(kind: str, source: str, note: Callable[[str], object]) -> dict[Problem, float]:
    """The weights of the problems of a set or a file. Raises FormatError, MisuseError."""
    weights: defaultdict[Problem, float] = defaultdict(float)
    others: Counter[str] = Counter()
    for line in weighed_set(source, kind):
        if math.isnan(line.weight):
            raise FormatError(f"{source}:{line.number}: the weight {line.weight_text!r:.40} is not a number "
                              "of at least 0")
        if line.problem.type != kind or not line.weight:
            others[line.problem.type if line.weight else "weight 0"] += 1
        else:
            weights[line.problem] += line.weight
    left_out = ", ".join(f"{count} of {name}" for name, count in others.most_common())
    if not weights:
        raise MisuseError(f"{source} has no shape of {kind}{f' ({left_out})' if left_out else ''}")
    if left_out:
        note(f"{source}: left out {left_out}")
    return weights
