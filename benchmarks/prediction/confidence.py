"""Does the expected share of the best speed come true, and does it rank: `python -m benchmarks confidence`.

The first proposals of a checkpoint for held-out problems, among their measured configurations, are compared with what
the checkpoint expected of them: the regret (1 - share) of the most certain 80 % against that of all, the error of the
expected shares on average and in bins of equal size, and how many measured shares the intervals of 80 % hold. A perfect
ranking is shown beside it, since losses are partly chance. With --leave, a machine or runtime that the checkpoint was
trained without is evaluated alone (`python -m benchmarks machines` trains such checkpoints).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.program import OneLineParser
from benchmarks.common.report import markdown
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError

if TYPE_CHECKING:
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.candidate import Confidence
    from seqtune.predictor.predictors import Predictor

CERTAIN = 0.8  # share of the cases that are kept, the most certain ones
BINS = 8  # of equal size, by expected share
DRAWS = 1000  # of the bootstrap


@dataclass(frozen=True, slots=True)
class Reliability:
    """How confidences compare with the measured shares of the same first proposals."""

    cases: int
    regret: float  # mean of 1 - share
    certain: float  # the same of the most certain cases
    ratio: float  # certain / regret; 1 where the confidence says nothing
    low: float  # of the ratio: 95 % interval, by a bootstrap of the cases
    high: float
    perfect: float  # the ratio of a perfect ranking
    error: float  # mean expected share - mean measured share
    bin_error: float  # mean of its absolute value over the bins
    inside: float  # share of the cases within the interval of 80 %

    @classmethod
    def of(cls, confidences: Sequence[Confidence], shares: Sequence[float]) -> Reliability:
        """Compare confidences with the measured shares."""
        expected, regrets = np.array([confidence.share for confidence in confidences]), 1 - np.array(shares)
        order = np.argsort(expected, kind="stable")
        generator, count = np.random.default_rng(0), len(regrets)
        draws = [_ratio(expected[drawn], regrets[drawn]) for drawn in generator.integers(0, count, (DRAWS, count))]
        low, high = np.percentile(draws, [2.5, 97.5]).tolist()
        errors = [float((expected + regrets - 1)[part].mean()) for part in np.array_split(order, min(BINS, count))]
        ratio, regret = _ratio(expected, regrets), float(regrets.mean())
        inside = [confidence.low <= share <= confidence.high
                  for confidence, share in zip(confidences, shares, strict=True)]
        return cls(count, regret, ratio * regret, ratio, low, high, _ratio(-regrets, regrets),
                   float((expected + regrets - 1).mean()), float(np.abs(errors).mean()), float(np.mean(inside)))


def _ratio(expected: NDArray[np.float64], regrets: NDArray[np.float64]) -> float:
    kept = np.argsort(-expected, kind="stable")[:math.ceil(CERTAIN * len(expected))]
    return float(regrets[kept].mean() / regrets.mean()) if regrets.any() else 1.0


def reliability(predictor: Predictor, tasks: Sequence[MeasuredTask]) -> Reliability:
    """The reliability of a predictor on tasks. Raises MisuseError if it estimates no confidence."""
    from seqtune.predictor.learning.tasks.validation import log_share

    confidences, shares = [], []
    for measured in tasks:
        narrowed = measured.measured_only()
        first = predictor.propose([narrowed.task], 1)[0][0]
        if first.confidence is not None:
            confidences.append(first.confidence)
            shares.append(math.exp(log_share(narrowed, narrowed.task.number(first.configuration))))
    if not shares:
        raise MisuseError("the checkpoint estimates no confidence on any of the problems")
    return Reliability.of(confidences, shares)


def table(found: Reliability) -> str:
    """The figures as a table."""
    return markdown(["what", "value"], [[name.replace("_", " "), f"{value:.4g}"] for name, value
                                        in asdict(found).items()], left=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.translator.threads import one_thread

    from .left_out import left_out

    parser = OneLineParser(__doc__)
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--checkpoint", default="default", help="name or folder of a checkpoint")
    parser.add_argument("--leave", help="a machine or runtime that the checkpoint was trained without")
    parser.add_argument("--seed", type=int, default=0, help="of the problems that are held out with --leave")
    given = parser.parse_args(arguments)
    data = read_dataset(given.data)
    if given.leave is not None:
        data = left_out(data, given.leave, given.seed).own
    with one_thread():
        print(table(reliability(Checkpoint.load(given.checkpoint), measured_tasks(data, held_out=True))))
