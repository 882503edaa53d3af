"""Shapes: the problems of one operation that a few kernels shall serve, each with its share of the run time.

They come from tables of problems with a column `weight`, `share` or `count`, from named sets, ONNX models, whose layers
count as often as they occur, logs, in which each line is a problem and repeats are counted, or they are drawn from
ranges.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import weighed_set
from seqtune.predictor.dispatch.domain import Domain

from ...errors import FormatError, MisuseError

DRAWN = 60  # shapes from ranges: their measurement takes minutes, and a rule of some leaves can be learned from them
REPEATS = 17  # draws for each of these, because narrow ranges draw the same shapes again
_RANGES = re.compile(r"\s*[A-Za-z_]\w*=[^\s=]+(\s+[A-Za-z_]\w*=[^\s=]+)*\s*")


@dataclass(frozen=True, eq=False)
class Shapes:
    """Different problems of one operation with their weights, and what the user should know of their sources."""

    weights: Mapping[Problem, float]  # positive; they sum to 1
    notes: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()  # the ranges from which all of them were drawn; empty: they were not

    @classmethod
    def of(cls, weights: Mapping[Problem, float], notes: Iterable[str] = (), domain: Iterable[str] = ()) -> Shapes:
        """The shapes with these weights, of any sum. Raises MisuseError if there are fewer than two."""
        if len(weights) < 2:
            what = f"{next(iter(weights)).brief()} is the only shape" if weights else "there are no shapes"
            raise MisuseError(f"{what}; a rule needs several (for one, `seqtune tune` finds the best kernel)")
        total = math.fsum(weights.values())
        return cls({problem: weight / total for problem, weight in weights.items()}, tuple(notes), tuple(domain))


def read_shapes(kind: str, sources: Sequence[str], seed: int = 0) -> Shapes:
    """The shapes of the operation `kind` in named sets, files and ranges; each source counts as much as each other.

    Ranges such as `m=1..4096` are together one source, of which DRAWN shapes are drawn by the `seed`; several in one
    text (`m=1..64 n=4096 k=4096`) are a source of their own. Problems of other operations are left out, and a note says
    how many. Raises FormatError, which names the line, for what is no problem or no weight, MisuseError for too few
    shapes or an impossible range, and what `weighed_set` raises.
    """
    work = operation(kind)
    ranges = [source.split() for source in sources if _RANGES.fullmatch(source)]
    together = [words[0] for words in ranges if len(words) == 1]
    boxes = [*([together] if together else []), *(words for words in ranges if len(words) > 1)]
    files = [source for source in sources if not _RANGES.fullmatch(source)]
    shapes: defaultdict[Problem, float] = defaultdict(float)
    notes: list[str] = []
    parts: list[Mapping[Problem, float]] = [_drawn(work, words, seed) for words in boxes]
    for source in files:
        weights, note = _weights(kind, source)
        notes += [note] if note else []
        parts.append(weights)
    for part in parts:
        total = math.fsum(part.values())
        for problem, weight in part.items():
            shapes[problem] += weight / total
    return Shapes.of(shapes, notes, boxes[0] if len(boxes) == 1 and not files else ())


def _drawn(work: Operation, words: Sequence[str], seed: int) -> dict[Problem, float]:
    """Equal weights of DRAWN different shapes from ranges, fewer in a small domain. Raises MisuseError."""
    columns = Domain.parse(work, words).sample(REPEATS * DRAWN, np.random.default_rng(seed))
    different = dict.fromkeys(problem for _, problem in columns.problems())
    return dict.fromkeys(islice(different, DRAWN), 1.0)


def _weights(kind: str, source: str) -> tuple[dict[Problem, float], str]:
    """The weights of the problems of a source, and a note on what was left out. Raises FormatError, MisuseError."""
    weights: defaultdict[Problem, float] = defaultdict(float)
    others: Counter[str] = Counter()
    unused = 0
    for line in weighed_set(source, kind):
        if line.problem.type != kind:
            others[line.problem.type] += 1
        elif math.isnan(line.weight):
            raise FormatError(f"{source}:{line.number}: the weight {line.weight_text!r:.40} is not a number "
                              "of at least 0")
        elif line.weight == 0:
            unused += 1
        else:
            weights[line.problem] += line.weight
    left_out = [f"{count} of {name}" for name, count in others.most_common()] + [f"{unused} of weight 0"] * (unused > 0)
    if not weights:
        raise MisuseError(f"{source} has no shape of {kind}{f' ({left_out[0]})' if left_out else ''}")
    return weights, f"{source}: left out {', '.join(left_out)}" if left_out else ""
