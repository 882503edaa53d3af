"""Stages of a dispatch: candidates, matrix, members, measuring, rule, guards and domain, bound, files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqtune.data.dataset import Dataset
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import write_together, write_whole
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.operations.operation import Operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.say import Say
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.bound import FEWEST
from seqtune.predictor.dispatch.c_file import c_file
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact, fact_columns, facts_of
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.guards import Guard
from seqtune.predictor.dispatch.matrix import WORST, Matrix
from seqtune.predictor.dispatch.members import Step, choose_members, generalises, knee
from seqtune.predictor.dispatch.python_file import python_file
from seqtune.predictor.dispatch.rule import Rule, learn_rule
from seqtune.tuner.measuring.deadline import OutOfTime
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

from ...errors import MisuseError
from ..collecting.collection import SECONDS, SECONDS_ELSEWHERE
from .filling import cells, complete_members, fill, limit
from .known import Known, known_here, known_in_data, solver_matrix
from .measuring import Measuring
from .page import page
from .proof import FINALISTS, TRIALS, Losses, measure_fresh
from .results import CurvePoint, Dispatched, Measured, OwnKernel, Served

MOST_KERNELS = 10  # that the curve shows: with 8, sets lose under 1 % in all public data
WORTH = 0.1  # log of the gain from which on a shape deserves a kernel of its own
PROOF = 0.5  # share of the time that is kept for the bound
LEARNING = 10  # shapes for each of which one is searched, where no checkpoint answers
LEARNING_TIME = 0.4  # share of the time for the matrix that these searches take at most
SAMPLE = 1000  # random shapes of the domain, of which some must have a valid candidate
FURTHER = 100  # other shapes of the domain, like the given ones, from which the rule learns what is expected
PROBES = 12  # corners, and random shapes, of the domain for which a fallback must be valid before it is proved
NAME = "dispatch"  # of the files, and the prefix of the names in C


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked for, and who is told."""

    operation: Operation
    goal: Goal
    kernels: int | None  # None: as many as pay
    domain: tuple[str, ...]
    fresh: int
    seed: int
    checkpoint: str | Path | None
    folder: Path
    progress: Say
    note: Say


@dataclass(frozen=True, eq=False)
class Chosen:
    """Members and their rule, from the shapes of a matrix."""

    matrix: Matrix
    steps: tuple[Step, ...]
    members: tuple[int, ...]  # candidates of the matrix
    rule: Rule


@dataclass(frozen=True, eq=False)
class Chooser:
    """Chooses among the candidates on a device, whose kernels say where each is valid."""

    question: Question
    device: Device
    kernels: Mapping[str, Kernel]  # of the candidates, by name; empty: nothing is known of validity
    domain: Domain
    everywhere: NDArray[np.bool_]  # (candidate,) whether it is proved valid in the whole domain

    @classmethod
    def of(cls, question: Question, matrix: Matrix, kernels: Mapping[str, Kernel], device: Device,
           domain: Domain) -> Chooser:
        """Prove what can be proved. Raises MisuseError for too few candidates, or if none is valid in the domain."""
        count = len(matrix.candidates)
        if question.kernels is not None and question.kernels > count:
            raise MisuseError(f"{question.kernels} kernels are asked for, and the shapes have {count} candidates")
        guards = [Guard.of(each, kernels[each.kernel], device) for each in matrix.candidates] if kernels else []
        if guards:
            sample = domain.sample(SAMPLE, np.random.default_rng(question.seed))
            if not np.any([guard.holds(sample) for guard in guards]):
                raise MisuseError(f"no candidate is valid for any shape of the domain: {'; '.join(domain.texts())}")
        return cls(question, device, kernels, domain, np.array([guard.is_proved(domain) for guard in guards], bool))

    def choose(self, matrix: Matrix) -> Chosen:
        """Choose as many members as the question asks for, and learn their rule."""
        question = self.question
        columns = ProblemColumns.of(matrix.problems)
        steps = choose_members(matrix, question.kernels or MOST_KERNELS, question.goal,
                               lambda members: self._facts(matrix, columns, members), seed=question.seed,
                               valid_everywhere=self.everywhere if self.everywhere.any() else None)
        count = min(question.kernels or knee(steps), len(steps))
        return self.ruled(matrix, steps, steps[count - 1].members)

    def ruled(self, matrix: Matrix, steps: tuple[Step, ...], members: tuple[int, ...]) -> Chosen:
        """The choice of these members, with the rule that the shapes teach."""
        facts, values = self._facts(matrix, ProblemColumns.of(matrix.problems), members)
        rule = learn_rule(values, matrix.slowness()[:, members], matrix.weights, self.question.goal, facts,
                          seed=self.question.seed)
        return Chosen(matrix, steps, members, rule)

    def _facts(self, matrix: Matrix, columns: ProblemColumns,
               members: Sequence[int]) -> tuple[tuple[Fact, ...], NDArray[np.int64]]:
        """The facts over which a rule decides among members, and their values: (shape, fact)."""
        facts = facts_of(self.question.operation, matrix.problems, [matrix.candidates[each] for each in members],
                         self.device)
        return facts, fact_columns(facts, columns)

    def dispatcher(self, chosen: Chosen) -> Dispatcher:
        """The dispatcher of the members."""
        return Dispatcher.of([chosen.matrix.candidates[each] for each in chosen.members], self.kernels, self.device,
                             chosen.rule, self.domain)


def domain_of(question: Question, problems: Sequence[Problem]) -> Domain:
    """The domain that the question declares; the ranges of the shapes are those of features that it does not name."""
    domain = Domain.of_shapes(problems)
    if question.domain:
        domain = Domain.parse(question.operation, question.domain, domain)
    outside = int((~domain.contains(ProblemColumns.of(problems))).sum())
    if outside:
        question.note(f"{outside} of {len(problems)} shapes are outside of the domain")
    return domain


def dispatch_measured(question: Question, measuring: Measuring, shapes: Mapping[Problem, float]) -> Dispatched:
    """Dispatch on a device, by measuring."""
    whole = measuring.deadline
    measuring.deadline = whole.part(1 - PROOF) if question.fresh else whole
    domain, generator = domain_of(question, [*shapes]), np.random.default_rng(question.seed)
    drawn = domain.draw(FURTHER + question.fresh, generator, [*shapes], np.array([*shapes.values()]))
    fresh, others = drawn[:question.fresh], drawn[question.fresh:]  # the rule never sees the fresh ones
    known = known_here(shapes, others, measuring.device, question.checkpoint,
                       partial(measuring.seconds, own=False), question.note)
    question.progress(f"shapes: {known.given} of {question.operation.name} on {measuring.device.name}, and "
                      f"{len(known.tasks) - known.given} others of the domain for which times are only expected")
    if not known.answerings:
        _search_some(question, known, measuring)
    sample = domain.sample(PROBES, generator).problems()
    matrix = known.candidates(known.universal([*islice(domain.corners(), PROBES), *(probe for _, probe in sample)]))
    for row in range(known.given):
        known.tasks[row] = replace(known.tasks[row], seconds=measuring.seconds(known.tasks[row].task))
    known.learn()
    matrix = known.matrix(matrix.candidates)
    chooser = Chooser.of(question, matrix, known.kernels, measuring.device, domain)
    question.progress(f"candidates: {len(matrix.candidates)}, {int(chooser.everywhere.sum())} of them proved valid in "
                      f"the whole domain; {cells(matrix)} pairs of shape and candidate are measured already")
    defaults = [_index(matrix, each.task.default) for each in known.tasks[:known.given]]
    matrix, complete = fill(known, matrix, measuring, question.kernels or MOST_KERNELS, question.progress,
                            [(row, column) for row, column in enumerate(defaults) if column >= 0])
    if not cells(matrix):
        raise OutOfTime("the time ended before a kernel was measured, or none runs; give more time (--minutes), or see "
                        "what fails (seqtune tune)")
    chosen = chooser.choose(matrix)
    while complete:  # choosing again may bring members that are not measured on all shapes
        before = {*chosen.members, best_single(question, matrix.take(np.arange(known.given)))}
        matrix, complete = complete_members(known, matrix, measuring, sorted(before))
        chosen = chooser.choose(matrix)
        question.progress(f"members: {_curve_text(question, chosen)}")
        if before.issuperset(chosen.members) or cells(matrix) >= limit(known, matrix):
            break
    measuring.deadline = whole
    chosen, notes = never_below(chooser, chosen, defaults)
    dispatcher = chooser.dispatcher(chosen)
    if fresh:
        minutes = len(fresh) * (TRIALS + FINALISTS) * SECONDS.get(measuring.device.backend, SECONDS_ELSEWHERE) / 60
        question.progress(f"bound: {len(fresh)} fresh shapes, each searched with {TRIALS} trials, take about "
                          f"{minutes:.2g} min, less what the journal has")
    losses = measure_fresh(measuring, fresh, dispatcher, question.checkpoint, question.seed, question.progress)
    if len(losses.first) < question.fresh:
        notes.append(f"of {question.fresh} fresh shapes for the bound, {len(losses.first)} could be drawn and measured")
    if not complete:
        notes.append("the time ended before all that decides was measured; the same call again goes on")
    return finish(chooser, chosen, dispatcher, losses, defaults, Measured(
        known.given, len(matrix.candidates), cells(matrix), measuring.measured, complete), notes)


def dispatch_data(question: Question, data: Dataset, device: Device,
                  shapes: Mapping[Problem, float] | None) -> Dispatched:
    """Dispatch from existing times. A quarter of the shapes, drawn by weight, is held out for the bound."""
    name, kernels = question.operation.name, dict[str, Kernel]()
    if data.holds_labels:
        matrix = solver_matrix(data, device, name, shapes)
        best, defaults = matrix.seconds.min(axis=1), np.full(len(matrix.problems), -1)
    else:
        known = known_in_data(data, device, name, shapes)
        matrix = known.candidates()
        best = np.array([each.best for each in known.tasks])
        defaults = np.array([_index(matrix, each.task.default) for each in known.tasks])
        kernels = known.kernels
    count = len(matrix.problems)
    if count < 2:
        raise MisuseError(f"the data have times of only one shape of {name} on {device.name}; a rule needs several")
    question.progress(f"shapes: {count} of {name} on {device.name} with {len(matrix.candidates)} candidates, from "
                      "existing times")
    chooser = Chooser.of(question, matrix, kernels, device, domain_of(question, matrix.problems))
    held = np.random.default_rng(question.seed).choice(count, min(question.fresh, count // 4), replace=False,
                                                       p=matrix.weights)
    rest = np.setdiff1d(np.arange(count), held)
    chosen = chooser.choose(matrix.take(rest))
    question.progress(f"members: {_curve_text(question, chosen)}")
    chosen, notes = never_below(chooser, chosen, defaults[rest].tolist())
    dispatcher, losses = chooser.dispatcher(chosen), Losses()
    answers = dispatcher.choose_many(ProblemColumns.of(matrix.problems))
    for row in held.tolist():
        first, second, sure = (column[row].item() for column in answers[:3])
        seconds = [math.inf if each < 0 else float(matrix.seconds[row, chosen.members[each]])
                   for each in (first, second)]
        if not any(map(math.isnan, seconds)) and math.isfinite(best[row]):
            losses.add(seconds, float(best[row]), sure)
    if len(losses.first) < len(held):
        notes.append(f"of {len(held)} held-out shapes for the bound, {len(losses.first)} have the times that it needs")
    return finish(chooser, chosen, dispatcher, losses, defaults[rest].tolist(), Measured(
        count, len(matrix.candidates), cells(matrix), 0, True), notes)


def never_below(chooser: Chooser, chosen: Chosen, defaults: Sequence[int]) -> tuple[Chosen, list[str]]:
    """The choice, or the best single kernel where the rule is no better on the given shapes; and notes.

    `defaults` are the candidates that the library would take, by shape; -1 where it is none of them.
    """
    losses, notes = given_losses(chooser, chosen, defaults), list[str]()
    if losses["rule"] > losses["single"] + 1e-9:
        single = best_single(chooser.question, chosen.matrix.take(np.arange(len(defaults))))
        chosen = chooser.ruled(chosen.matrix, chosen.steps, (single,))
        notes.append("no rule is better than the best single kernel on the given shapes, so that one ships alone")
        losses = given_losses(chooser, chosen, defaults)
    elif not generalises(chosen.steps[len(chosen.members) - 1], chooser.question.goal):
        notes.append("no few kernels with a rule serve shapes that the rule did not learn from: tune what matters, and "
                     "give each its own kernel")
    if losses["rule"] > losses.get("default", math.inf) + 1e-9:
        notes.append("the library's default is better on the given shapes than what ships here; keep the default, or "
                     "ask for more kernels")
    return chosen, notes


def given_losses(chooser: Chooser, chosen: Chosen, defaults: Sequence[int]) -> dict[str, float]:
    """The goal's losses on the given shapes of the rule, of the best single kernel, and of the defaults if known."""
    matrix, goal = chosen.matrix.take(np.arange(len(defaults))), chooser.question.goal
    slowness, rows = matrix.slowness(), np.arange(len(defaults))
    losses = {"rule": goal.loss(_picked(chooser, chosen)[0][:len(defaults)], matrix.weights),
              "single": goal.loss(slowness[:, best_single(chooser.question, matrix)], matrix.weights)}
    if min(defaults) >= 0:
        losses["default"] = goal.loss(slowness[rows, np.asarray(defaults)], matrix.weights)
    return losses


def best_single(question: Question, matrix: Matrix) -> int:
    """The candidate that loses least where it alone serves all shapes."""
    slowness = matrix.slowness()
    return int(np.argmin([question.goal.loss(column, matrix.weights) for column in slowness.T]))


def _picked(chooser: Chooser, chosen: Chosen) -> tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]:
    """The slowness of what the dispatcher answers for each shape, its member (-1: none), and whether it is sure."""
    answers = chooser.dispatcher(chosen).choose_many(ProblemColumns.of(chosen.matrix.problems))
    slowness = chosen.matrix.slowness()[np.arange(len(answers.members)), np.array(chosen.members)[answers.members]]
    return np.where(answers.members >= 0, slowness, WORST), answers.members, answers.sure


def finish(chooser: Chooser, chosen: Chosen, dispatcher: Dispatcher, losses: Losses, defaults: Sequence[int],
           measured: Measured, notes: list[str]) -> Dispatched:
    """Write the files, and make the result."""
    question = chooser.question
    chosen = replace(chosen, matrix=chosen.matrix.take(np.arange(len(defaults))))
    matrix = chosen.matrix
    bounds = losses.bounds(question.goal.factor, question.seed)
    slowness, members, sure = _picked(chooser, chosen)
    best = np.argmin(matrix.slowness() + 1e-9 * ~np.isfinite(matrix.seconds), axis=1).tolist()
    order = np.argsort(-matrix.weights * slowness, kind="stable").tolist()
    deserving = tuple(OwnKernel(
        matrix.problems[row], matrix.candidates[best[row]], math.exp(slowness[row]),
        bool(members[row] >= 0 and np.isfinite(matrix.seconds[row, [best[row], chosen.members[members[row]]]]).all()))
        for row in order if slowness[row] > WORTH)
    curve = tuple(CurvePoint(tuple(matrix.candidates[each] for each in step.members), step.oracle, step.rule,
                             step.second) for step in chosen.steps)
    served = tuple(Served(member, tuple(matrix.problems[row] for row in np.flatnonzero(members == number).tolist()),
                          float(matrix.weights[members == number].sum()))
                   for number, member in enumerate(dispatcher.members))
    if bounds is None and question.fresh:
        notes.append(f"no bound: it needs at least {FEWEST} fresh shapes, and there are {len(losses.first)}")
    if dispatcher.gap:
        notes.append(f"no member is promised {dispatcher.gap}")
    if not dispatcher.promised:
        notes.append("the candidates' kernels have no constraints here, so their validity is not promised")
    evidence = {"curve": [point.to_json() for point in curve],
                "bounds": None if bounds is None else bounds.to_json(), "notes": notes}
    dispatcher = replace(dispatcher, evidence=evidence)
    files = write_files(question, dispatcher, notes)
    rule = chosen.rule.text([f"{number}: {member.kernel} {member.brief()}"
                             for number, member in enumerate(dispatcher.members)])
    result = Dispatched(question.operation.name, chooser.device.name, question.goal.kind, curve, served, rule,
                        given_losses(chooser, chosen, defaults), bounds, deserving,
                        tuple(matrix.problems[row] for row in np.flatnonzero(~sure).tolist()), measured, files,
                        tuple(notes), dispatcher)
    write_whole(files[-1], page(result))
    return result


def write_files(question: Question, dispatcher: Dispatcher, notes: list[str]) -> tuple[Path, ...]:
    """Write the dispatcher as JSON, C and Python; return the paths, of which the last is that of the page.

    A language that cannot express it gets no file, but a note; files of an earlier call are removed.
    """
    question.folder.mkdir(exist_ok=True)
    paths = {ending: question.folder / f"{NAME}{ending}" for ending in (".json", ".h", ".c", ".py", ".html")}
    languages: dict[str, tuple[tuple[str, ...], Callable[[], tuple[str, ...]]]] = {
        "C": ((".h", ".c"), lambda: c_file(dispatcher, NAME)), "Python": ((".py",), lambda: (python_file(dispatcher),))}
    for language, (endings, texts) in languages.items():
        try:
            write_together(dict(zip([paths[ending] for ending in endings], texts(), strict=True)))
        except MisuseError as error:
            notes.append(f"no {language} file is written: {error}")
            for ending in endings:
                paths.pop(ending).unlink(missing_ok=True)
    dispatcher.save(paths[".json"])
    return tuple(paths.values())


def _search_some(question: Question, known: Known, measuring: Measuring) -> None:
    """Search some shapes, drawn by weight, so that trees learn from what is measured."""
    count, weights = max(2, known.given // LEARNING), known.weights[:known.given]
    rows = np.random.default_rng(question.seed).choice(known.given, min(count, known.given), replace=False,
                                                       p=weights / weights.sum())
    deadline = measuring.deadline.part(LEARNING_TIME)
    for number, row in enumerate(rows.tolist()):
        task, left = known.tasks[row].task, deadline.left / (len(rows) - number)
        try:
            result = tune(task, measuring.journal, measuring.measurer,
                          Budget(TRIALS, None if math.isinf(left) else left),
                          TuningOptions(seed=question.seed, finals=Finals(count=0)))
        except OutOfTime:
            break
        measuring.measured += result.done - result.resumed
        known.tasks[row] = replace(known.tasks[row], seconds=measuring.seconds(task, own=False))
        question.progress(f"learning: {result.done} trials of {task.problem.brief()}, {number + 1} of {len(rows)}")
    known.learn()


def _index(matrix: Matrix, configuration: Configuration) -> int:
    """The number of a candidate; -1 if it is none."""
    return matrix.candidates.index(configuration) if configuration in matrix.candidates else -1


def _curve_text(question: Question, chosen: Chosen) -> str:
    """The losses of each number of members, held out."""
    points = (f"{len(step.members)}: {step.rule:.4f}" for step in chosen.steps)
    return f"{len(chosen.members)} ship; the rule's held-out loss by number of kernels is {', '.join(points)}"
