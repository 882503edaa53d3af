"""Case: one problem on one device, its search spaces, and what is known of the time of each of their configurations.

Everything that learns or judges here works on cases: rows of all spaces of the problem, counted through in table order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from seqtune.errors import FormatError, KernelError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.kernels.union import find_rows

from .dataset import configuration

Floats = NDArray[np.float64]

NEEDED = ("device", "problem", "kernel", "configuration", "status", "seconds", "run", "held_out")


class Data(Protocol):
    """What is asked of a data set: rows (see NEEDED) and the facts of the devices that they name, by that name."""

    @property
    def frame(self) -> pd.DataFrame: ...

    @property
    def devices(self) -> Mapping[str, Device]: ...


@dataclass(frozen=True, eq=False)
class Case:
    """`seconds[row]`: a time, infinite where the configuration failed, NaN where it was not measured."""

    problem: Problem
    device: Device
    spaces: tuple[SearchSpace, ...]
    seconds: Floats

    @property
    def label(self) -> tuple[str, str]:
        """Problem and device."""
        return self.problem.key, self.device.name

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows were measured, failures included."""
        return ~np.isnan(self.seconds)

    @property
    def best(self) -> float:
        """The least time known."""
        return float(np.nanmin(self.seconds))

    def shares(self) -> Floats:
        """Best known time over time: 1 for the best row, 0 for failures, NaN where not measured."""
        return self.best / self.seconds

    def row(self, wanted: Configuration) -> int:
        """The number of a configuration in the union of the spaces. Raises ConfigurationError."""
        offset = 0
        for space in self.spaces:
            if space.kernel.name == wanted.kernel:
                return offset + space.row(wanted)
            offset += len(space)
        raise KernelError(f"{wanted.kernel} does not solve {self.problem.brief()}")

    def measured_only(self) -> Case:
        """The same case with every space cut down to its measured rows: look-ahead stays exact in it."""
        known, spaces, offset = self.known, [], 0
        for space in self.spaces:
            part = known[offset:offset + len(space)]
            offset += len(space)
            if part.any():
                spaces.append(narrowed(space, part))
        return replace(self, spaces=tuple(spaces), seconds=self.seconds[known])


def narrowed(space: SearchSpace, keep: NDArray[np.bool_]) -> SearchSpace:
    """A copy of the space with the chosen rows alone; still sorted."""
    return space if keep.all() else space.only(keep)


def cases(data: Data, held_out: bool, declared: Sequence[Kernel] = ()) -> list[Case]:
    """The cases of the training part (or of the held-out part) in which anything ran; problems sorted by key.

    Problems that `declared` kernels solve are those kernels' alone.

    Configurations that their space no longer holds are left out, as are other versions of a kernel, problems without
    one, and what another toolchain than the device's own (where its facts name one) made. Where a configuration was
    measured more than once the least time counts, of `final` runs where there are any: those are longer and
    interleaved. Finals are scaled by what most of them are off from their trials. Raises FormatError.
    """
    frame = data.frame
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise FormatError(f"the data set has no column {missing[0]!r}; it needs {', '.join(NEEDED)}")
    found = []
    part = frame[frame["held_out"].astype(bool) == held_out]
    for (key, found_name), rows in part.groupby(["problem", "device"], sort=True, observed=True):
        name = str(found_name)
        if name not in data.devices:
            raise FormatError(f"the data set says nothing about its device {name!r:.60}")
        case = _case(parse_problem(str(key)), data.devices[name], rows, declared)
        if case is not None:
            found.append(case)
    return found


def _case(problem: Problem, device: Device, rows: pd.DataFrame, declared: Sequence[Kernel]) -> Case | None:
    solving = [kernel for kernel in declared if kernel.why_not(problem, device) is None]
    try:
        spaces = spaces_for(problem, device, solving)
    except KernelError:
        return None
    if device.toolchain and "toolchain" in rows:
        rows = rows[rows["toolchain"] == device.toolchain]
    seconds = np.full((2, sum(map(len, spaces))), np.nan)  # of all runs, of final ones
    times = np.where(rows["status"].to_numpy(str) == "correct", rows["seconds"].to_numpy(float), np.inf)
    times = np.where(times > 0, times, np.inf)  # NaN too
    names, texts, offset = rows["kernel"].to_numpy(str), rows["configuration"].to_numpy(str), 0
    final = rows["run"].to_numpy(str) == "final"
    versions = rows["kernel_version"].to_numpy() if "kernel_version" in rows else None
    for space in spaces:
        mine = names == space.kernel.name
        if versions is not None:
            mine &= versions == space.kernel.version
        kinds, which = np.unique(texts[mine], return_inverse=True)
        places = find_rows(space, [dict(configuration(space.kernel.name, text).settings) for text in kinds])[which]
        valid = places >= 0
        for kind, chosen in enumerate((valid, valid & final[mine])):
            np.fmin.at(seconds[kind], places[chosen] + offset, times[mine][chosen])
        offset += len(space)
    trials, finals = seconds
    both = np.isfinite(trials) & np.isfinite(finals)
    if both.any():  # finals all met the same minute, which may have been a slow one; trials met many
        finals = finals * np.median(trials[both] / finals[both])
    if np.isfinite(finals).any():  # a lucky trial does not beat the best of the finals
        trials = np.where(np.isnan(finals), np.maximum(trials, np.nanmin(finals)), finals)
    return Case(problem, device, spaces, trials) if np.isfinite(trials).any() else None


def counted(times: ArrayLike, default: float, known: ArrayLike) -> Floats:
    """Times as a user meets them: a pick that fails (infinite) counts as the default, which one falls back on; where
    that fails as well, as the slowest of the `known` times that ran."""
    if not math.isfinite(default):
        ran = np.asarray(known, float)
        default = float(ran[np.isfinite(ran)].max())
    found = np.asarray(times, float)
    return np.where(np.isfinite(found), found, default)




def split(found: Sequence[Case], share: float, seed: int) -> tuple[list[Case], list[Case]]:
    """(fitting, validation): `share` of the problems go to the second, with all their devices."""
    keys = sorted({case.problem.key for case in found})
    count = min(max(1, round(share * len(keys))), len(keys) - 1) if share > 0 and len(keys) > 1 else 0
    chosen = {keys[place] for place in np.random.default_rng(seed).permutation(len(keys))[:count]}
    return ([case for case in found if case.problem.key not in chosen],
            [case for case in found if case.problem.key in chosen])
