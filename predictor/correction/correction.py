"""Correction: changes the expected slowness of candidates by what was measured on the device, at once.

A few small trees over the ranker's features learn how the measured log times differ from those that the whole model
expects. If configurations of the problem itself were measured, they join the candidates with their measured times, even
if the beam did not find them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import CheckpointError, FormatError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.tuner.cost_models.features import features

from ..proposing import Candidates
from ..trees.forest import WORST, Forest
from ..trees.ranker import Ranker
from .checked_trees import CheckedTrees
from .observations import Expected, observe

OWN = 48  # measured configurations of the problem itself that join: the fastest ones and some of all others
FASTEST = 16  # of them
TRUST = 0.9  # weight of a measured time against the prediction, for configurations of the problem itself

OwnTimes = Callable[[Task], Floats | None]  # seconds by number, as in MeasuredTask, or None


def nothing_measured(task: Task) -> Floats | None:
    """No configuration of the task itself was measured."""
    return None


@dataclass(frozen=True, slots=True)
class CorrectionFit:
    """The size of a fit and its effect."""

    problems: int
    measurements: int  # that were fitted
    error_before: float | None  # of expected times, as in CheckedTrees; None: no data
    error_after: float | None  # the same where each problem is corrected by the measurements of the other ones only


@dataclass(frozen=True, eq=False)
class Correction:
    """A ranker's corrections for one device; it is the `Evidence` of `proposing`."""

    ranker: Ranker
    forests: Mapping[str, Forest]  # by kernel
    own_times: OwnTimes = nothing_measured
    expected: Expected | None = None  # the slowness by the whole model; None: by the ranker alone

    @classmethod
    def fit(cls, ranker: Ranker, measured: Sequence[MeasuredTask], own_times: OwnTimes = nothing_measured,
            expected: Expected | None = None) -> tuple[Correction, CorrectionFit]:
        """Fit the corrections to the measured tasks of one device, the newest first; there may be none.

        `expected` must be the model whose candidates are corrected, and `ranker` its trees.
        """
        observations = observe(ranker, measured, expected)
        if not len(observations):
            return cls(ranker, {}, own_times, expected), CorrectionFit(0, 0, None, None)
        trees = CheckedTrees.fit(observations)
        return cls(ranker, trees.forests, own_times, expected), CorrectionFit(
            len(observations.problems()), len(observations), trees.error_before, trees.error_after)

    def correct(self, candidates: Candidates) -> Candidates:
        """Add the corrections to the slownesses; measured configurations of the problem itself join the candidates."""
        task = candidates.task
        corrected = replace(candidates, slowness=candidates.slowness + self.changes(task, candidates.numbers))
        seconds = self.own_times(task)
        return corrected if seconds is None else self._joined(corrected, seconds)

    def changes(self, task: Task, numbers: Numbers) -> Floats:
        """The correction of configurations, given by their numbers: (configuration,)."""
        changes = np.zeros(len(numbers))
        for space, indices, rows in task.by_space(numbers):
            name = space.kernel.name
            if name in self.forests:
                changes[indices] = self.forests[name].margins(features(space, rows, self.ranker.listed))[:, 0]
        return changes

    def _joined(self, candidates: Candidates, seconds: Floats) -> Candidates:
        """The candidates and the measured configurations, whose slowness is mostly the measured one."""
        task, ran = candidates.task, np.flatnonzero(np.isfinite(seconds))
        failed = np.isinf(seconds[candidates.numbers])
        slowness = np.where(failed, WORST, candidates.slowness)
        if not len(ran) or np.isnan(slowness).any():
            return replace(candidates, slowness=slowness)
        ran = ran[np.argsort(seconds[ran], kind="stable")]
        spread = np.linspace(0, len(ran) - 1, min(OWN - FASTEST, len(ran))).astype(np.int64)
        chosen = np.unique(np.concatenate([ran[:FASTEST], ran[spread], candidates.numbers[
            np.isfinite(seconds[candidates.numbers])]]))
        expected = (self.expected or self.ranker.slowness)(task, chosen) + self.changes(task, chosen)
        logs, known = np.log(seconds[chosen]), ~np.isnan(expected)
        if not known.any():
            return replace(candidates, slowness=slowness)
        offset = float(np.average((logs - expected)[known], weights=np.exp(-np.clip(expected[known], 0, WORST))))
        estimate = np.where(known, TRUST * (logs - offset) + (1 - TRUST) * expected, logs - offset)
        slowness_of = dict(zip(chosen.tolist(), estimate.tolist(), strict=True))
        added = chosen[~np.isin(chosen, candidates.numbers)]
        numbers = np.concatenate([candidates.numbers, added])
        slowness = np.array([slowness_of.get(number, predicted) for number, predicted in zip(
            numbers.tolist(), [*slowness.tolist(), *[WORST] * len(added)], strict=True)])
        # the beam's doubt of a configuration does not count against its measurement
        likeliest = candidates.log_probabilities.max()
        log_probabilities = np.concatenate([candidates.log_probabilities, np.full(len(added), likeliest)])
        log_probabilities[np.isin(numbers, chosen)] = likeliest
        # the probabilities of all candidates sum to that of the beam's
        log_probabilities += np.logaddexp.reduce(candidates.log_probabilities) - np.logaddexp.reduce(log_probabilities)
        members = candidates.members
        if members is not None:  # on measured times, they disagree only with the prediction's weight
            members = np.concatenate([members, np.repeat(slowness[len(candidates):, None], members.shape[1], axis=1)])
            means = members.mean(axis=1, keepdims=True)
            members = np.where(np.isin(numbers, chosen)[:, None], means + (1 - TRUST) * (members - means), members)
        return Candidates(task, numbers, log_probabilities, slowness, members)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The trees by kernel and part, to be kept in a file."""
        return {f"{name}/{part}": array for name, forest in self.forests.items()
                for part, array in forest.arrays().items()}

    @classmethod
    def of_arrays(cls, ranker: Ranker, arrays: Mapping[str, NDArray[Any]], own_times: OwnTimes,
                  expected: Expected | None = None) -> Correction:
        """The inverse of `arrays`. Raises FormatError if they do not fit the ranker."""
        forests: dict[str, Forest] = {}
        for name in sorted({name.rpartition("/")[0] for name in arrays}):
            parts = {key.rpartition("/")[2]: array for key, array in arrays.items() if key.rpartition("/")[0] == name}
            try:
                if name not in ranker.forests:
                    raise CheckpointError("the ranker has no trees of it")
                forests[name] = Forest.read(parts, 1, ranker.features[name])
            except CheckpointError as error:
                raise FormatError(f"the corrections of {name:.40} do not fit the checkpoint's trees: {error}") from None
        return cls(ranker, forests, own_times, expected)
