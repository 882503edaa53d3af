"""Rehearsal: the part of old records that a retraining looks at again, the same number of problems for every device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seqtune.data.measured_tasks import Data, measured_tasks
from seqtune.kernels.task import MeasuredTask

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pandas as pd

    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Kernel


@dataclass(frozen=True)
class Rehearsal:
    """Some rows of a data set; it is a `Data` itself."""

    frame: pd.DataFrame
    devices: Mapping[str, Device]
    kernels: Mapping[str, Kernel]

    @classmethod
    def drawn(cls, data: Data, each: int, held_out: bool, seed: int,
              leave_out: Collection[tuple[str, str]] = ()) -> Rehearsal:
        """Draw `each` problems of every device from the training part or the held-out part, or all if there are fewer.

        `leave_out` has pairs of problem and device, by their names in the rows, that are not drawn.
        """
        part = data.frame[data.frame["held_out"].astype(bool) == held_out]
        pairs = sorted(part[["device", "problem"]].drop_duplicates().itertuples(index=False, name=None))
        by_device: dict[str, list[str]] = {}
        for device, problem in pairs:
            if (problem, device) not in leave_out:
                by_device.setdefault(str(device), []).append(str(problem))
        keep = np.zeros(len(part), np.bool_)
        for device, problems in by_device.items():
            order = np.random.default_rng([seed, len(problems)]).permutation(len(problems))
            chosen = {problems[index] for index in order[:each]}
            keep |= (part["device"] == device).to_numpy() & part["problem"].isin(chosen).to_numpy()
        return cls(part[keep], data.devices, data.kernels)

    def tasks(self, before_each: Callable[[], object] = lambda: None) -> list[MeasuredTask]:
        """The measured tasks of these rows, sorted by problem; `before_each` is called before each is made.

        No warning is given of constraints that leave out a fast configuration: old records are mostly the shipped ones.
        """
        return [task for held_out in (False, True)
                for task in measured_tasks(self, held_out, warn=False, before_each=before_each)]
