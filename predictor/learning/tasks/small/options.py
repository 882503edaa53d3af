"""SmallOptions: the training's options for few problems, such as those of one kernel family on one device.

Thirty problems with some dozen configurations each are 1,000 to 3,000 rows. The further problems that a teacher labels
take most of a training's time with the usual options: 300 of these problems made a training six times as long and
changed the share of its first proposals by 0.003 (docs/results/index.md), since the teacher knows only what the rows
say. A small network learns the same in seconds, and more than a few dozen steps do not improve what it proposes
together with the trees. There is no validation part, since every problem counts: cross-validation
evaluates instead, and takes five times as long as the training, so both have to be short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from seqtune.errors import FormatError
from seqtune.kernels.task import KnownTask

from ....checkpoint import Checkpoint
from ....training.options import TrainingOptions
from ....trees.cost_trees import TreesOptions
from ...recipe import options_from
from ..examples import describe_tasks

SMALL = 150  # problems; from here on, a validation part of 12 % has enough problems to say something
EPOCHS = 20
LEAST_EXAMPLES = 600  # seen in a training, in more epochs if there are fewer than 30 tasks
TREES = TreesOptions(rounds=200, rate=0.12, models=2)  # a third of the usual time


def problem_count(tasks: Sequence[KnownTask]) -> int:
    """The number of distinct problems."""
    return len({measured.problem.key for measured in tasks})


def is_small(tasks: Sequence[KnownTask]) -> bool:
    """Return whether there are so few problems that these options suit them."""
    return problem_count(tasks) < SMALL


def small_options(tasks: Sequence[KnownTask], options: TrainingOptions) -> TrainingOptions:
    """The options for these tasks; seed, threads and state are those of `options`."""
    return replace(
        options, epochs=max(EPOCHS, math.ceil(LEAST_EXAMPLES / len(tasks))), batch=8, rate=2e-3, average=0.98, extra=0,
        validation=0.0, trees=TREES, width=64, hidden=128, judge=96)


def options_of(checkpoint: Checkpoint, tasks: Sequence[KnownTask]) -> TrainingOptions | None:
    """The options with which a checkpoint was trained on these tasks; None if it was trained on others."""
    if checkpoint.former is not None or checkpoint.provenance.get("trained_on") != describe_tasks(tasks):
        return None
    try:
        return options_from(checkpoint.provenance["options"])
    except FormatError:  # such as options of another version
        return None
