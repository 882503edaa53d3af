"""Confidence fitting: observes how much is lost on problems and machines that trees were not fitted to.

The trees of the ranker are fitted again without each part of the problems (cross-fitting); they propose for the part
that they have not seen. The loss trees learn from these candidates (see `losses`). A training's validation problems
then show how much all models together lose on known devices; without them those candidates do, with losses that trees
without the part expect. For new machines the trees of the ranker are fitted
without one; the translator takes no part there, since that would need a training for each machine. Proposals are made
among the measured configurations, and the regret of one is its distance from the best of them. If few were measured,
the best of the whole space is faster, but so are candidates from the whole space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from seqtune.data.measured_tasks import counted
from seqtune.kernels.devices.device import Device
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..proposing import Candidates
from ..trees.cost_trees import Trees, TreesOptions
from ..trees.forest import WORST
from ..trees.ranker import PROPOSALS
from .losses import LEAST_TASKS as LEAST_LEARNED
from .losses import LossTrees, columns_of
from .model import ConfidenceModel, RegretModel, fit_regret, kernel_names, signals_of

FOLDS = 3  # parts of the problems
LEAST_TASKS = 30  # below that, a 10 % quantile rests on two or three tasks
MOST_MACHINES = 4  # that are left out in turn, those with the most tasks: each needs new trees

Part = Callable[[MeasuredTask], bool]  # whether a task is left out of the fitting


@dataclass(frozen=True, eq=False)
class ObservedCandidates:
    """The candidates of one task, in order, and what is known of them before and after measuring."""

    task: MeasuredTask
    signals: Floats  # (candidate, signal)
    columns: Floats  # (candidate, column) what loss trees read
    regrets: Floats  # (candidate,) log regrets

    @property
    def loss(self) -> float:
        """The loss of the first candidate: 1 - its share of the best speed."""
        return -math.expm1(-float(self.regrets[0]))

    def with_losses(self, trees: LossTrees) -> ObservedCandidates:
        """The same candidates with the loss that trees expect as the last signal."""
        losses = trees.expected(self.columns, self.task.device.identity)
        return replace(self, signals=np.column_stack([self.signals, losses]))


def fit_confidence(tasks: Sequence[MeasuredTask], options: TreesOptions | None = None, seed: int = 0,
                   progress: Say = silent, known: Sequence[ObservedCandidates] = (),
                   least: int = LEAST_TASKS) -> ConfidenceModel | None:
    """Fit a confidence model to at least `least` measured training tasks; None if they are fewer.

    `known` holds what was proposed for validation problems, which are among the tasks; if these are too few, the
    cross-fitted candidates take their place. The trees of the fits have half of the rounds, at twice the rate.
    """
    options = options or TreesOptions()
    options = replace(options, seed=seed, rounds=math.ceil(options.rounds / 2), rate=2 * options.rate)
    if len(tasks) < least or len({measured.problem.key for measured in tasks}) < FOLDS:
        return None
    parts, groups = parts_by_problem(tasks, seed), parts_by_machine(tasks)
    progress(f"confidence: trees without a third of the problems, {FOLDS} times")
    unseen = observe(tasks, parts, options)
    progress(f"confidence: trees without a machine, {len(groups)} times")
    new = observe(tasks, groups, options)
    known = unseen if len(known) < least else known
    if len(known) < least:
        return None
    return model_of(known, new if len(new) >= least else [], tasks,
                    CrossFitting(unseen, parts, groups, seed) if len(unseen) >= LEAST_LEARNED else None)


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """The fits of loss trees: all without a part of the problems, and for new machines without one as well."""

    unseen: Sequence[ObservedCandidates]  # of all training tasks
    parts: Sequence[Part]
    groups: Sequence[Part]
    seed: int

    def fit(self, *without: Part) -> LossTrees:
        """Fit trees to the tasks that are in none of these parts."""
        fitting = [task for task in self.unseen if not any(part(task.task) for part in without)] or self.unseen
        devices = [task.task.device.identity for task in fitting]
        return LossTrees.fit(np.stack([task.columns[0] for task in fitting]),
                             np.array([task.loss for task in fitting]), devices, self.seed)

    def known(self, observed: Sequence[ObservedCandidates]) -> list[ObservedCandidates]:
        """Proposals for known devices, with the losses that trees without their problems expect."""
        return [task.with_losses(trees) for part in self.parts for trees in [self.fit(part)]
                for task in observed if part(task.task)]

    def new(self, observed: Sequence[ObservedCandidates]) -> list[ObservedCandidates]:
        """Proposals for machines that were left out, with the losses that trees without both expect."""
        return [task.with_losses(trees) for group in self.groups for part in self.parts
                if any(group(task.task) and part(task.task) for task in observed)
                for trees in [self.fit(group, part)] for task in observed if group(task.task) and part(task.task)]


def model_of(known: Sequence[ObservedCandidates], new: Sequence[ObservedCandidates],
             tasks: Iterable[MeasuredTask], losses: CrossFitting | None = None) -> ConfidenceModel:
    """Fit the model to candidates for known devices and for left-out machines; `tasks` are all of training."""
    tasks = tuple(tasks)
    further: list[ObservedCandidates] = []
    if losses is not None:
        own = {task.task.problem.key for task in known}
        further = losses.known([task for task in losses.unseen if task.task.problem.key not in own])
        known, new = losses.known(known), losses.new(new)
    first = _fitted(known, new, further, slice(1))
    several = any(len(task.regrets) > 1 for task in known)  # not if only one configuration of each task was measured
    other = _fitted(known, new, further, slice(1, None)) if several else first
    return ConfidenceModel(first=first, other=other, devices=tuple(sorted({task.device.identity for task in tasks})),
                           kernels=tuple(sorted(kernel_names(tasks))), losses=None if losses is None else losses.fit())


def _fitted(known: Sequence[ObservedCandidates], new: Sequence[ObservedCandidates],
            further: Sequence[ObservedCandidates], rows: slice) -> RegretModel:
    """The model of the candidates with these ranks."""
    groups = [[task for task in tasks if len(task.regrets[rows])] for tasks in (known, new, further)]
    pairs, new_pairs, further_pairs = ([(task.signals[rows], task.regrets[rows]) for task in tasks] for tasks in groups)
    devices, _, further_devices = ([task.task.device.identity for task in tasks] for tasks in groups)
    return fit_regret(pairs, new_pairs, devices, further_pairs, further_devices)


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
        naming = attrgetter("identity")
    names = [naming(measured.device) for measured in tasks]
    largest = sorted(set(names), key=lambda name: (-names.count(name), name))[:MOST_MACHINES]
    return [lambda measured, name=name: naming(measured.device) == name for name in largest]  # type: ignore[misc]


def machine(device: Device) -> str:
    """The processor of a device, as text: devices of one machine differ in vector width, threads and runtime."""
    return f"{device.model or device.architecture} L1 {device.l1_bytes} L2 {device.l2_bytes} L3 {device.l3_bytes}"


def observe_candidates(propose: Callable[[Task, int], Candidates],
                       tasks: Sequence[MeasuredTask]) -> list[ObservedCandidates]:
    """Propose among the measured configurations of tasks that no model was fitted to.

    `propose` returns a number of candidates of a task, in order. Tasks with a kernel that the models do not know are
    left out.
    """
    observed: list[ObservedCandidates] = []
    for measured in tasks:
        narrowed = measured.measured_only()
        candidates = propose(narrowed.task, PROPOSALS)
        if not np.isnan(candidates.slowness).any():
            observed.append(_observed(measured, narrowed, candidates, candidates.log_probabilities))
    return observed


def observe(tasks: Sequence[MeasuredTask], parts: Iterable[Part], options: TreesOptions) -> list[ObservedCandidates]:
    """Propose in each part with trees that are fitted to the rest. Tasks with an unknown kernel are left out."""
    observed: list[ObservedCandidates] = []
    for left_out in parts:
        fitting = [measured for measured in tasks if not left_out(measured)]
        if fitting:
            observed += observe_with(Trees(fitting, options), [measured for measured in tasks if left_out(measured)])
    return observed


def observe_with(trees: Trees, tasks: Sequence[MeasuredTask]) -> list[ObservedCandidates]:
    """Propose among the measured configurations of tasks with trees that were not fitted to them."""
    observed: list[ObservedCandidates] = []
    for measured in tasks:
        narrowed = measured.measured_only()
        task = narrowed.task
        if not all(trees.knows(space.kernel) for space in task.spaces):
            continue
        members = trees.members(task.spaces).astype(np.float64)
        whole = Candidates(task, np.arange(len(task)), np.zeros(len(task)), members.mean(axis=1), members).ordered()
        observed.append(_observed(measured, narrowed, whole.select(np.arange(min(PROPOSALS, len(task))))))
    return observed


def _observed(measured: MeasuredTask, narrowed: MeasuredTask, candidates: Candidates,
              searched: Floats | None = None) -> ObservedCandidates:
    """Note what is known of ordered candidates, and their log regrets against the best measured configuration.

    `searched` are the log-probabilities of a beam search, if there was one.
    """
    seconds = counted(narrowed.seconds[candidates.numbers], measured.time(measured.task.default), narrowed.seconds)
    return ObservedCandidates(measured, signals_of(candidates.slowness, candidates.members, searched),
                              columns_of(candidates), np.clip(np.log(seconds / narrowed.best), 0.0, WORST))
