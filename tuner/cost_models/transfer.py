"""Transfer: predict a task's times from measurements of other devices and other problems, before anything is measured.

Each measured task of the history is a *source*: log(time / best time) by the task's numbers. Sources of the same
problem are used directly, and the more similar their device is, the more they count (`similarity`). Times of
another architecture are smoothed over neighbours (`smoothed`), and those of another maker get a penalty for what
another compiler may do (`gpu_launch`). Where there are none, or none measured a configuration, boosted trees fitted on
the whole history predict the ratio. A configuration that failed elsewhere counts as slow. Without a history, the
analytic model's estimates of a GPU are the only source.

Values are smoothed because what a compiler makes of one configuration depends on the architecture, and so do conflicts
and the last wave's size. The fastest configuration elsewhere was lucky in these; one among fast neighbours is likelier
to be fast on another device.

Two devices of one architecture run the same machine code. Another generation of the same maker differs in caches, units
and rates; another maker's device is also programmed through another compiler, and what is fast there tells little.
Threads that work in lock step (a warp, a wave) decide which blocks leave lanes idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task

from .analytic import estimates
from .features import features
from .gpu_launch import penalty

WORST = 3.0  # maximum log ratio, also that of a failure: differences among very slow configurations do not matter
MAX_SOURCES = 6  # devices, the most alike ones; and columns of the surrogate's linear term, one or two of a device
MAX_ROWS = 20_000  # rows on which the trees are fitted
ENOUGH = 0.9  # no trees are fitted if sources of the same problem measured this share of the task
SHRINKAGE = 0.3  # pull toward the median ratio, as a number of further sources that measured the median


@dataclass(frozen=True, eq=False)
class Sources:
    """The history of a task: expected log(time / best time) of every configuration, without missing values."""

    prior: Floats  # (number,): combined from all sources
    by_source: Floats  # (number, source)
    fastest: float | None = None  # expected best time in seconds: the geometric mean over devices with the same problem


@dataclass(frozen=True, eq=False)
class _Source:
    """Times of the same problem on another device."""

    ratios: Floats  # (number,) as they were measured; nan: not measured
    expected: Floats  # (number,) on the task's device
    weight: float
    best: float  # seconds

    @property
    def columns(self) -> list[Floats]:
        """The columns of the surrogate: what was measured, and what is expected if that is something else."""
        return [self.ratios] if self.expected is self.ratios else [self.ratios, self.expected]

    @classmethod
    def of(cls, task: Task, other: MeasuredTask, ratios: Floats) -> _Source:
        """The log ratios of another device's task, looked up by the task's numbers."""
        here, there = DeviceKind.of(task.device), DeviceKind.of(other.device)
        expected = ratios if here.architecture == there.architecture else smoothed(task, ratios)
        if here.maker != there.maker and here.warp and there.warp:
            expected = expected + penalty(task, here.warp)
        return cls(ratios, expected, similarity(here, there), float(other.seconds[np.isfinite(other.seconds)].min()))


def sources(task: Task, history: Sequence[MeasuredTask], seed: int = 0) -> Sources | None:
    """The sources in a history; without a time of any kernel of the task, the analytic model's estimates.

    None if there are no estimates either.
    """
    looked_up = [(other, ratios) for other in history if (ratios := look_up(task, other)) is not None]
    if not looked_up:
        return estimated(task)
    same = [_Source.of(task, other, ratios) for other, ratios in looked_up
            if other.problem.key == task.problem.key]
    same = sorted(same, key=lambda source: -source.weight)[:MAX_SOURCES]
    measured = (~np.isnan(np.stack([source.ratios for source in same])).all(axis=0) if same
                else np.zeros(len(task), bool))
    predicted = None
    if measured.mean() < ENOUGH:
        predicted = predicted_by_trees(task, history, seed)
    if not same:
        others = [ratios for _, ratios in looked_up if np.isfinite(ratios).any()]
        prior = predicted if predicted is not None else consensus(np.stack(others, axis=1))
        return Sources(prior, prior[:, None])
    weights = np.array([source.weight for source in same])
    prior = consensus(np.stack([source.expected for source in same], axis=1), weights)
    if predicted is not None:
        prior = np.where(np.isnan(prior), predicted, prior)
    prior = np.where(np.isnan(prior), np.nanmax(prior), prior)
    by_source = np.stack([column for source in same for column in source.columns][:MAX_SOURCES], axis=1)
    by_source = np.where(np.isnan(by_source), prior[:, None], by_source)
    return Sources(prior, by_source, float(np.exp(np.mean(np.log([source.best for source in same])))))


def estimated(task: Task) -> Sources | None:
    """The analytic model as a source; None if it has no estimate.

    A configuration without one is expected to be average.
    """
    seconds = estimates(task)
    known = np.isfinite(seconds)
    if not known.any():
        return None
    ratios = np.where(np.isinf(seconds), WORST, np.minimum(np.log(seconds / seconds[known].min()), WORST))
    prior = np.where(np.isnan(ratios), np.nanmedian(ratios), ratios)
    return Sources(prior, prior[:, None])


def look_up(task: Task, other: MeasuredTask) -> Floats | None:
    """log(time / best time) of another measured task by this task's numbers: (number,), nan where it was not measured.

    None if the other task has no time of any configuration of this task.
    """
    times = other.seconds[np.isfinite(other.seconds)]
    if not len(times):
        return None
    ratios = np.minimum(np.log(other.seconds / times.min()), WORST)
    by_number = np.full(len(task), np.nan)
    for space, part in task.parts():
        for other_space, other_part in other.task.parts():
            if (other_space.kernel.parameters == space.kernel.parameters
                    and other_space.kernel.name == space.kernel.name):
                rows = other_space.index.find(space.rows)
                by_number[part] = np.where(rows >= 0, ratios[other_part][np.maximum(rows, 0)], np.nan)
    return by_number if np.isfinite(by_number).any() else None


def consensus(ratios: Floats, weights: Floats | None = None) -> Floats:
    """The mean over the sources of `ratios` (number, source), shrunk toward the median; nan where all are missing.

    `weights` (source,) are those of the sources, by default equal.
    """
    weights = np.ones(ratios.shape[1]) if weights is None else weights / weights.max()
    count = np.where(np.isnan(ratios), 0.0, weights).sum(axis=1)
    total = np.nansum(ratios * weights, axis=1)
    median = float(np.nanmedian(ratios))
    return np.where(count > 0, (total + SHRINKAGE * median) / (count + SHRINKAGE), np.nan)


def predicted_by_trees(task: Task, history: Sequence[MeasuredTask], seed: int) -> Floats | None:
    """Predict the log ratios by number with trees fitted on the history; None if it has none of the task's kernels."""
    from .trees import CostModel

    generator = np.random.default_rng(seed)
    total = sum(int(other.known.sum()) for other in history)
    share = min(1.0, MAX_ROWS / total)
    by_number = np.full(len(task), np.nan)
    for space, part in task.parts():
        table = features(space, np.arange(len(space)))
        rows, ratios = _examples(space, history, share, generator, table.shape[1])
        if rows:
            target = np.concatenate(ratios)
            model = CostModel.regression(np.concatenate(rows), target, np.exp(-target), seed)
            by_number[part] = model.predict(table)
    if np.isnan(by_number).all():
        return None
    # a kernel without measurements is expected to be average
    return np.where(np.isnan(by_number), np.nanmedian(by_number), by_number)


def _examples(space: SearchSpace, history: Sequence[MeasuredTask], share: float, generator: np.random.Generator,
              width: int) -> tuple[list[NDArray[np.float32]], list[Floats]]:
    """The features and log ratios of a random share of the history's measurements of the space's kernel.

    Each list has one array per measured space; `width` is the number of features, other widths are left out.
    """
    rows: list[NDArray[np.float32]] = []
    ratios: list[Floats] = []
    for other in history:
        times = other.seconds[np.isfinite(other.seconds)]
        for other_space, part in other.task.parts():
            if other_space.kernel.name != space.kernel.name or not len(times):
                continue
            seconds = other.seconds[part]
            chosen: Numbers = np.flatnonzero(~np.isnan(seconds))
            chosen = generator.permutation(chosen)[:int(np.ceil(share * len(chosen)))]
            table = features(other_space, chosen)
            if len(chosen) and table.shape[1] == width:
                rows.append(table)
                ratios.append(np.minimum(np.log(seconds[chosen] / times.min()), WORST))
    return rows, ratios


OWN = 0.5  # share of a configuration's own value; 0 to 0.7 give about the same on recorded spaces, 1 less


def smoothed(task: Task, values: Floats) -> Floats:
    """The values (number,) with the mean of each configuration and its neighbours mixed in; nan stays nan.

    Neighbours differ in one parameter, by one step to the next valid value. Those that are nan do not count.
    """
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0.0), known.astype(float)
    for space, part in task.parts():
        for first, second in steps(space):
            for here, there in ((first + part.start, second + part.start), (second + part.start, first + part.start)):
                total[here] += np.where(known[there], values[there], 0.0)  # a number occurs once in `here`
                count[here] += known[there]
    return np.where(known, OWN * values + (1 - OWN) * total / np.maximum(count, 1.0), np.nan)


def steps(space: SearchSpace) -> Iterator[tuple[Numbers, Numbers]]:
    """For each parameter, the pairs of rows that differ in it alone, by one step to the next valid value: (pair,)."""
    rows = space.rows
    weights: NDArray[np.uint64] = np.random.default_rng(0).integers(1, 2**63, (rows.shape[1],), dtype=np.uint64)
    hashes = (rows.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64)  # wraps around
    for column in range(rows.shape[1]):
        others = hashes - rows[:, column].astype(np.uint64) * weights[column]  # equal where all other values are
        order = np.lexsort((rows[:, column], others))
        first, second = order[:-1], order[1:]
        near = ((rows[first] != rows[second]).sum(axis=1) == 1) & (rows[first, column] != rows[second, column])
        yield first[near], second[near]


# Factors of the weight of a device that differs. Near the optimum, log times of two generations differ by 0.02 to 0.5
# (rms) on recorded spaces. No two GPUs of one architecture are there; these should differ by a few hundredths.
OTHER_ARCHITECTURE = 0.2
OTHER_WARP = 0.5
OTHER_MAKER = 0.05  # 0.05 to 0.2 give about the same on recorded spaces; equal weights lose a tenth of the speed
MAKERS = {"sm_": "nvidia", "gfx": "amd"}  # by the first letters of their architectures


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """The facts that two devices may have in common, as far as they are known."""

    maker: str
    architecture: str
    warp: int  # threads that work in lock step; 0: not known

    @classmethod
    def of(cls, device: Device) -> DeviceKind:
        """The kind of a device: by its own facts, or, if it is a name in records only, by the table of accelerators.

        A device that the table lacks has the maker and architecture that its record names.
        """
        known = device
        if "warp_size" not in dict(device.extra):
            names = (device.model, device.name.partition(":")[2])
            known = next((entry for name in names if (entry := described("triton", name)) is not None), device)
        warp = dict(known.extra).get("warp_size", 0)
        maker = MAKERS.get(known.architecture[:3], known.architecture)
        return cls(maker, known.architecture, warp if isinstance(warp, int) else 0)


def similarity(first: DeviceKind, second: DeviceKind) -> float:
    """The weight of times on one device for what is expected on the other: 1 on the same architecture, else less."""
    weight = 1.0
    if first.architecture != second.architecture:
        weight *= OTHER_ARCHITECTURE
    if first.maker != second.maker:
        weight *= OTHER_MAKER
    if first.warp != second.warp and first.warp and second.warp:
        weight *= OTHER_WARP
    return weight
