"""Loss trees: small boosted trees that expect how much of the best speed a first candidate loses.

They are fitted to the candidates that were made for each training problem by experts that had not seen it. What they
read of a candidate is known before measuring: the slowness that the experts expect of it, how far the candidates lie
apart, the ratios of problem and device, and what is usually lost on the device. The expected slowness alone does not
rank well: where configurations are alike it is nearly 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from seqtune.errors import CheckpointError
from seqtune.kernels.devices.device import LONGEST_IDENTITY
from seqtune.kernels.task import Floats
from seqtune.tuner.cost_models.machine_ratios import RATIOS, machine_ratios

from ..trees.forest import Forest

if TYPE_CHECKING:
    from ..proposing import Candidates

OWN = ("slowness", "lead", "spread", "fifth's distance")
NAMING = ("lane_rate", "worker_bandwidth")  # ratios of the machine alone: trees that read them know few machines
COLUMNS = (*OWN, *(name for name in RATIOS if name not in NAMING))  # and last, the usual loss on the device
UNKNOWN = -20.0  # log2 of a ratio that is unknown: below all others
FIFTH = 4  # rank of the candidate whose distance from the fastest one tells how many are alike
ROUNDS, DEPTH, RATE = 80, 3, 0.05  # half or twice as many trees, of depth 2 to 4, rank alike
ROWS, FEATURES = 0.7, 0.5  # share of the rows of a tree, and of the features of a split
LEAST_LEAF = 10.0  # tasks of a leaf
CREDIBILITY = 20.0  # tasks that a device needs before its own loss counts more than the average one
LEAST_TASKS = 80  # below that the trees rank no better than the sum of the other signals
MOST_NODES = 5_000
MOST_DEVICES = 100_000

_Share = Annotated[float, Field(ge=0, le=1)]
_Identity = Annotated[str, Field(max_length=LONGEST_IDENTITY)]
_Byte = Annotated[int, Field(ge=0, lt=1 << 8)]
_Short = Annotated[int, Field(ge=0, lt=1 << 16)]


class LossTrees(BaseModel):
    """The trees, as the arrays of a `Forest`, and what is usually lost on each device of the training data."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    usual: _Share  # mean loss, 1 - share of the best speed
    devices: dict[_Identity, _Share] = Field(max_length=MOST_DEVICES)  # by `identity`
    roots: tuple[_Short, ...] = Field(max_length=MOST_NODES)
    feature: tuple[_Byte, ...] = Field(max_length=MOST_NODES)
    coded: tuple[_Short, ...] = Field(max_length=MOST_NODES)
    left: tuple[_Byte, ...] = Field(max_length=MOST_NODES)
    thresholds: tuple[Annotated[float, Field(ge=-1e30, le=1e30)], ...] = Field(max_length=MOST_NODES)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        try:
            self.forest  # noqa: B018
        except CheckpointError as error:
            raise ValueError(str(error)) from None
        return self

    @cached_property
    def forest(self) -> Forest:
        """The trees. Raises CheckpointError if the arrays are none."""
        arrays: dict[str, NDArray[Any]] = {
            "roots": np.array(self.roots, np.int32), "feature": np.array(self.feature, np.uint8),
            "coded": np.array(self.coded, np.uint16), "left": np.array(self.left, np.uint8),
            "thresholds": np.array(self.thresholds, np.float32)}
        return Forest.read(arrays, 1, len(COLUMNS) + 1)

    @classmethod
    def fit(cls, columns: Floats, losses: Floats, devices: Sequence[str], seed: int = 0) -> LossTrees:
        """Fit to first candidates: their columns (task, column), losses (task,) and the identities of their devices."""
        from seqtune.tuner.cost_models.boosting import Boosting

        usual, names = float(losses.mean()), np.array(devices)
        typical = {name: float((losses[names == name].sum() + CREDIBILITY * usual)
                               / ((names == name).sum() + CREDIBILITY)) for name in sorted(set(devices))}
        rows = np.column_stack([columns, [typical[name] for name in devices]]).astype(np.float32)
        boosting = Boosting("reg:squarederror", ROUNDS, DEPTH, RATE, ROWS, 1.0, LEAST_LEAF, 256, 1, seed,
                            {"base_score": 0.0, "colsample_bynode": FEATURES})
        arrays = Forest.of(boosting.grow(rows, losses - usual), 1).arrays()
        return cls(usual=usual, devices=typical, **{name: tuple(array.tolist()) for name, array in arrays.items()})

    def expected(self, columns: Floats, device: str) -> Floats:
        """The expected loss of candidates from their columns (candidate, column), on a device: (candidate,)."""
        rows = np.empty((len(columns), len(COLUMNS) + 1), np.float32)
        rows[:, :-1], rows[:, -1] = columns, self.devices.get(device, self.usual)
        expected: Floats = np.clip(self.usual + self.forest.margins(rows)[:, 0].astype(np.float64), 0.0, 1.0)
        return expected

    def losses(self, candidates: Candidates) -> Floats:
        """The expected loss of each of the ordered candidates: (candidate,)."""
        return self.expected(columns_of(candidates), candidates.task.device.identity)


def columns_of(candidates: Candidates) -> NDArray[np.float64]:
    """The facts of candidates that the trees read: (candidate, column) in the order of COLUMNS."""
    slowness, task = candidates.slowness, candidates.task
    ascending = np.sort(slowness)
    columns = np.empty((len(slowness), len(COLUMNS)))
    columns[:, 0] = slowness
    columns[:, 1] = slowness - ascending[0]
    columns[:, 2] = slowness.std()
    columns[:, 3] = ascending[min(FIFTH, len(ascending) - 1)] - ascending[0]
    ratios = machine_ratios(task.problem, task.device)
    columns[:, len(OWN):] = [math.log2(ratio) if (ratio := ratios[name]) else UNKNOWN for name in COLUMNS[len(OWN):]]
    return columns
