"""Batches: configurations that are newly built, each with new buffers, and then run in rounds.

Luck of addresses lasts as long as a build, so what is compared in several batches is not decided by one lucky build.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .runner import Measurer
from .timing import Options


def compare_batch(measurer: Measurer, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                  options: Options, batch: int) -> list[Measurement]:
    """Build all configurations and run them in rounds; return the measurements in the given order.

    The number `batch` is the seed of the order in which they are built and of the orders of the rounds. A configuration
    may be given twice.
    """
    order = np.random.default_rng(batch).permutation(len(configurations)).tolist()
    compared = measurer.compare(problem, [configurations[index] for index in order], rounds,
                                replace(options, order_seed=batch))
    measured = dict(zip(order, compared, strict=True))
    return [measured[index] for index in range(len(configurations))]
