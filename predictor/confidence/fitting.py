"""Confidence fitting: observes how much is lost on problems and machines that trees were not fitted to.

A training's validation problems show how much all models together lose on known devices. Without validation problems,
the trees of the ranker are fitted again without a part of the problems (cross-fitting). For new machines they are
fitted without one; the translator takes no part there, since that would need a training for each machine. Proposals are
made among the measured configurations, and the regret of one is its distance from the best of them. If few were
measured, the best of the whole space is faster, but so are proposals from the whole space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from seqtune.data.measured_tasks import counted
from seqtune.kernels.devices.device import Device
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..device_identity import identity
from ..say import Say, silent
from ..trees.cost_trees import WORST, Trees, TreesOptions
from ..trees.ranker import PROPOSALS
from .model import ConfidenceModel, RegretModel, fit_regret, signals_of

if TYPE_CHECKING:
    from ..proposing import Proposals

FOLDS = 3  # parts of the problems
LEAST_TASKS = 30  # below that, a 10 % quantile rests on two or three tasks
MOST_MACHINES = 4  # that are left out in turn, those with the most tasks: each needs new trees


@dataclass(frozen=True, eq=False)
class ObservedProposals:
    """The proposals of one task, in order: their signals (proposal, signal) and log regrets (proposal,)."""

    task: MeasuredTask
    signals: Floats
    regrets: Floats


def fit_confidence(tasks: Sequence[MeasuredTask], options: TreesOptions | None = None, seed: int = 0,
                   say: Say = silent, known: Sequence[ObservedProposals] = (),
                   least: int = LEAST_TASKS) -> ConfidenceModel | None:
    """Fit a confidence model to at least `least` measured training tasks; None if they are fewer.

    `known` holds what was proposed for validation problems; if these are too few, trees are cross-fitted instead. The
    trees of the fits have half of the rounds, at twice the rate.
    """
    options = options or TreesOptions()
    options = replace(options, seed=seed, rounds=math.ceil(options.rounds / 2), rate=2 * options.rate)
    if len(tasks) < least or len({measured.problem.key for measured in tasks}) < FOLDS:
        return None
    if len(known) < least:
        say(f"confidence: trees without a third of the problems, {FOLDS} times")
        known = observe(tasks, parts_by_problem(tasks, seed), options)
    groups = parts_by_machine(tasks)
    say(f"confidence: trees without a machine, {len(groups)} times")
    new = observe(tasks, groups, options)
    if len(known) < least:
        return None
    return model_of(known, new if len(new) >= least else [], {identity(measured.device) for measured in tasks})


def model_of(known: Sequence[ObservedProposals], new: Sequence[ObservedProposals],
             devices: Iterable[str]) -> ConfidenceModel:
    """Fit the model to tasks of known devices and of machines that were left out."""
    first = _fitted(known, new, slice(1))
    several = any(len(task.regrets) > 1 for task in known)  # not if only one configuration of each task was measured
    other = _fitted(known, new, slice(1, None)) if several else first
    return ConfidenceModel(first=first, other=other, devices=tuple(sorted(devices)))


def _fitted(known: Sequence[ObservedProposals], new: Sequence[ObservedProposals], rows: slice) -> RegretModel:
    """The model of the proposals with these ranks."""
    known, new = ([task for task in tasks if len(task.regrets[rows])] for tasks in (known, new))
    pairs, new_pairs = ([(task.signals[rows], task.regrets[rows]) for task in tasks] for tasks in (known, new))
    return fit_regret(pairs, new_pairs, [identity(task.task.device) for task in known])


Part = Callable[[MeasuredTask], bool]  # whether a task is left out of the fitting


def parts_by_problem(tasks: Sequence[MeasuredTask], seed: int) -> list[Part]:
    """Parts with a third of the problems each, with all their devices."""
    keys = sorted({measured.problem.key for measured in tasks})
    fold = {keys[index]: rank % FOLDS
            for rank, index in enumerate(np.random.default_rng(seed).permutation(len(keys)).tolist())}
    return [lambda measured, number=number: fold[measured.problem.key] == number  # type: ignore[misc]
            for number in range(FOLDS)]


def parts_by_machine(tasks: Sequence[MeasuredTask]) -> list[Part]:
    """A part for each of the machines with the most tasks; if there is one machine, for each of its devices."""
    naming: Callable[[Device], str] = machine
    if len({machine(measured.device) for measured in tasks}) == 1:
        naming = identity
    names = [naming(measured.device) for measured in tasks]
    largest = sorted(set(names), key=lambda name: (-names.count(name), name))[:MOST_MACHINES]
    return [lambda measured, name=name: naming(measured.device) == name for name in largest]  # type: ignore[misc]


def machine(device: Device) -> str:
    """The processor of a device, as text: devices of one machine differ in vector width, threads and runtime."""
    return f"{device.model or device.architecture} L1 {device.l1_bytes} L2 {device.l2_bytes} L3 {device.l3_bytes}"


def observe_proposed(propose: Callable[[Task, int], Proposals],
                     tasks: Sequence[MeasuredTask]) -> list[ObservedProposals]:
    """Propose among the measured configurations of tasks that no model was fitted to.

    `propose` returns a number of proposals of a task, in order. Tasks with a kernel that the models do not know are
    left out.
    """
    observed: list[ObservedProposals] = []
    for measured in tasks:
        narrowed = measured.measured_only()
        proposals = propose(narrowed.task, PROPOSALS)
        if not np.isnan(proposals.slowness).any():
            observed.append(_observed(measured, narrowed, proposals.numbers,
                                      signals_of(proposals.slowness, proposals.members, proposals.log_probabilities)))
    return observed


def observe(tasks: Sequence[MeasuredTask], parts: Iterable[Part], options: TreesOptions) -> list[ObservedProposals]:
    """Propose in each part with trees that are fitted to the rest. Tasks with an unknown kernel are left out."""
    observed: list[ObservedProposals] = []
    for left_out in parts:
        fitting = [measured for measured in tasks if not left_out(measured)]
        if fitting:
            trees = Trees(fitting, options)
            observed += observe_with(trees, [measured for measured in tasks if left_out(measured)])
    return observed


def observe_with(trees: Trees, tasks: Sequence[MeasuredTask]) -> list[ObservedProposals]:
    """Propose among the measured configurations of tasks with trees that were not fitted to them."""
    observed: list[ObservedProposals] = []
    for measured in tasks:
        narrowed = measured.measured_only()
        if not all(trees.knows(space.kernel) for space in narrowed.task.spaces):
            continue
        members = trees.members(narrowed.task.spaces).astype(np.float64)
        slowness = members.mean(axis=1)
        order = np.argsort(slowness, kind="stable")[:PROPOSALS]
        observed.append(_observed(measured, narrowed, order, signals_of(slowness[order], members[order])))
    return observed


def _observed(measured: MeasuredTask, narrowed: MeasuredTask, numbers: Numbers, signals: Floats) -> ObservedProposals:
    """The signals of proposals and their log regrets against the best measured configuration."""
    seconds = counted(narrowed.seconds[numbers], measured.time(measured.task.default), narrowed.seconds)
    return ObservedProposals(measured, signals, np.clip(np.log(seconds / narrowed.best), 0.0, WORST))
