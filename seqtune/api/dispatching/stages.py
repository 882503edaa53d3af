"""Stages of a dispatch: candidates, matrix, members, measuring, rule, guards and domain, bound, files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from seqtune.kernels.task import Floats, MeasuredTask
from seqtune.predictor.dispatch.bound import FEWEST
from seqtune.predictor.dispatch.c_file import c_file
from seqtune.predictor.dispatch.dispatcher import Choices, Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact, fact_columns, facts_of
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.guards import Guard
from seqtune.predictor.dispatch.learning import learn_rule
from seqtune.predictor.dispatch.matrix import WORST, Matrix
from seqtune.predictor.dispatch.members import MemberSet, choose_members, generalises, knee
from seqtune.predictor.dispatch.python_file import python_file
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.run.plan import TuningOptions

from ...errors import MisuseError
from ..collecting.collection import SECONDS, SECONDS_ELSEWHERE
from .filling import complete_members, fill
from .known import Known, known_here, shares, solver_matrix, tasks_in_data
from .measuring import TRIALS, Measuring
from .outputs import NAME, output_paths
from .page import page
from .proof import FINALISTS, Losses, loss, measure_fresh
from .results import CurvePoint, Dispatched, Measured, OwnKernel, Served

MOST_KERNELS = 10  # that the curve shows: with 8, sets lose under 1 % in all public data
NAMED = 3  # shapes without a kernel that a note names
WORTH = 0.1  # log of the gain from which on a shape deserves a kernel of its own
PROOF = 0.5  # share of the time that is kept for the bound
LEARNING = 10  # shapes for each of which one is searched, where no checkpoint answers
LEARNING_TIME = 0.4  # share of the time for the matrix that these searches take at most
HELD_OUT = 0.25  # share of the shapes of existing data that is kept for the bound


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
    """Members and their dispatcher, from the shapes of a matrix."""

    matrix: Matrix
    steps: tuple[MemberSet, ...]
    members: tuple[int, ...]  # candidates of the matrix
    dispatcher: Dispatcher
    slowness: Floats  # (shape,) of what the dispatcher answers
    answers: Choices  # of the dispatcher for the shapes


@dataclass(frozen=True, eq=False)
class Chooser:
    """Chooses among the candidates on a device, whose kernels say where each is valid."""

    question: Question
    device: Device
    kernels: Mapping[str, Kernel]  # of the candidates, by name; empty: nothing is known of validity
    domain: Domain
    everywhere: NDArray[np.bool_]  # (candidate,) whether it is proved valid in the whole domain
    defaults: NDArray[np.int64]  # (shape,) the candidate that the library would take; -1: none of them

    @classmethod
    def of(cls, question: Question, matrix: Matrix, kernels: Mapping[str, Kernel], device: Device, domain: Domain,
           defaults: Sequence[Configuration] = ()) -> Chooser:
        """Prove what can be proved. Raises MisuseError for too few candidates."""
        count = len(matrix.candidates)
        if question.kernels is not None and question.kernels > count:
            raise MisuseError(f"{question.kernels} kernels are asked for, and the shapes have {count} candidates")
        guards = [Guard.of(each, kernels[each.kernel], device) for each in matrix.candidates] if kernels else []
        numbers = {candidate: number for number, candidate in enumerate(matrix.candidates)}
        return cls(question, device, kernels, domain, np.array([guard.is_proved(domain) for guard in guards], bool),
                   np.array([numbers.get(each, -1) for each in defaults] or [-1] * len(matrix.problems)))

    def choose(self, matrix: Matrix, deadline: Deadline) -> Chosen:
        """Choose as many members as the question asks for, and learn their rule; fewer where the time ends before.

        For "auto" these are the fewest whose next one gains little, or more, where none of them is valid for a shape,
        or the library's default is better.
        """
        question = self.question
        columns = ProblemColumns.of(matrix.problems)
        steps: tuple[MemberSet, ...] = ()
        for step in choose_members(matrix, question.kernels or MOST_KERNELS, question.goal,
                                   lambda members: self._facts(matrix, columns, members), seed=question.seed,
                                   valid_everywhere=self.everywhere if self.everywhere.any() else None):
            steps = (*steps, step)
            if deadline.is_over:
                break
        if question.kernels is None:
            first = chosen = self._without_idle(self.ruled(matrix, steps, _serving(matrix, steps)))
        else:
            first = chosen = self.ruled(matrix, steps, steps[-1].members)
        for step in steps[len(first.members):]:
            if deadline.is_over or not self.is_below_default(chosen):
                break
            chosen = self.ruled(matrix, steps, step.members)
        return first if self.is_below_default(chosen) else chosen

    def _without_idle(self, chosen: Chosen) -> Chosen:
        """The choice without members that serve none of the shapes, unless they serve others of the domain alone."""
        used = {*chosen.answers.members.tolist(), chosen.dispatcher.fallback}
        members = tuple(member for number, member in enumerate(chosen.members) if number in used)
        if members in ((), chosen.members):
            return chosen
        fewer = self.ruled(chosen.matrix, chosen.steps, members)
        return chosen if fewer.dispatcher.gap and not chosen.dispatcher.gap else fewer

    def ruled(self, matrix: Matrix, steps: tuple[MemberSet, ...], members: tuple[int, ...]) -> Chosen:
        """The choice of these members, with the rule that the shapes teach."""
        columns = ProblemColumns.of(matrix.problems)
        facts, values = self._facts(matrix, columns, members)
        slowness = matrix.slowness()[:, members]
        rule = learn_rule(values, slowness, matrix.weights, self.question.goal, facts, seed=self.question.seed)
        dispatcher = Dispatcher.of([matrix.candidates[each] for each in members], self.kernels, self.device, rule,
                                   self.domain)
        answers = dispatcher.choose_many(columns)
        picked = np.where(answers.members >= 0, slowness[np.arange(len(slowness)), answers.members], WORST)
        return Chosen(matrix, steps, members, dispatcher, picked, answers)

    def _facts(self, matrix: Matrix, columns: ProblemColumns,
               members: Sequence[int]) -> tuple[tuple[Fact, ...], NDArray[np.int64]]:
        """The facts over which a rule decides among members, and their values: (shape, fact)."""
        facts = facts_of(self.question.operation, matrix.problems, [matrix.candidates[each] for each in members],
                         self.device)
        return facts, fact_columns(facts, columns)

    def losses(self, chosen: Chosen) -> dict[str, float]:
        """The goal's losses on the shapes: of the rule, of the best single kernel, and of the defaults if known."""
        slowness, weights, goal = chosen.matrix.slowness(), chosen.matrix.weights, self.question.goal
        losses = {"rule": goal.loss(chosen.slowness, weights),
                  "single": goal.loss(slowness[:, self.best_single(chosen.matrix)], weights)}
        default = self._default_loss(chosen.matrix)
        return losses if default is None else {**losses, "default": default}

    def _default_loss(self, matrix: Matrix) -> float | None:
        """The goal's loss of the library's defaults; None if one of them is not known."""
        if self.defaults.min() < 0:
            return None
        return self.question.goal.loss(matrix.slowness()[np.arange(len(self.defaults)), self.defaults], matrix.weights)

    def is_below_default(self, chosen: Chosen) -> bool:
        """Whether the library's default is better than the choice."""
        default = self._default_loss(chosen.matrix)
        rule = self.question.goal.loss(chosen.slowness, chosen.matrix.weights)
        return default is not None and rule > default + 1e-9

    def best_single(self, matrix: Matrix) -> int:
        """The candidate that loses least where it alone serves all shapes; if any is valid everywhere, one of these."""
        losses = np.array([self.question.goal.loss(column, matrix.weights) for column in matrix.slowness().T])
        return int(np.argmin(np.where(self.everywhere, losses, np.inf) if self.everywhere.any() else losses))

    def compared_with_single(self, chosen: Chosen) -> tuple[Chosen, list[str]]:
        """The choice, or the best single kernel where the rule is no better on the shapes; and notes."""
        losses, notes = self.losses(chosen), list[str]()
        if losses["rule"] > losses["single"] + 1e-9:
            chosen = self.ruled(chosen.matrix, chosen.steps, (self.best_single(chosen.matrix),))
            notes.append("no rule is better than the best single kernel on the given shapes, so that one ships alone")
        elif not generalises(chosen.steps[min(len(chosen.members), len(chosen.steps)) - 1], self.question.goal):
            notes.append("no few kernels with a rule serve shapes that the rule did not learn from: tune what matters, "
                         "and give each its own kernel")
        if self.is_below_default(chosen):
            notes.append("the library's default is better on the given shapes than what ships here; keep the default, "
                         "or ask for more kernels")
        return chosen, notes


def _serving(matrix: Matrix, steps: tuple[MemberSet, ...]) -> tuple[int, ...]:
    """The members at the knee, or more, so that one is valid for each shape for which any candidate is."""
    valid = matrix.valid

    def unserved(members: Sequence[int]) -> NDArray[np.int64]:
        return np.flatnonzero(valid.any(axis=1) & ~valid[:, members].any(axis=1))

    rest = steps[knee(steps) - 1:]
    members = next((step.members for step in rest if not len(unserved(step.members))), rest[0].members)
    while len(rows := unserved(members)):
        members = (*members, int(np.argmin(matrix.weights[rows] @ matrix.slowness()[rows])))
    return members


def domain_of(question: Question, problems: Sequence[Problem]) -> Domain:
    """The domain that the question declares; the ranges of the shapes are those of features that it does not name."""
    domain = Domain.of_shapes(problems)
    if question.domain:
        domain = Domain.parse(question.operation, question.domain, domain)
    inside = int(domain.contains(ProblemColumns.of(problems)).sum())
    if inside < len(problems):
        question.note(f"{len(problems) - inside} of {len(problems)} shapes are outside of the domain and are left out")
    if inside < 2:
        raise MisuseError(f"{inside} of {len(problems)} shapes are in the domain {'; '.join(domain.texts()):.300}; a "
                          "rule needs several")
    return domain


def dispatch_measured(question: Question, measuring: Measuring, shapes: Mapping[Problem, float]) -> Dispatched:
    """Dispatch on a device, by measuring. Raises OutOfTime if fewer pairs were measured than there are shapes."""
    whole = measuring.deadline
    measuring.deadline = whole.part(1 - PROOF) if question.fresh else whole
    domain = domain_of(question, [*shapes])
    kept = domain.contains(ProblemColumns.of([*shapes])).tolist()
    shapes = {problem: weight for (problem, weight), inside in zip(shapes.items(), kept, strict=True) if inside}
    fresh = domain.draw(question.fresh, np.random.default_rng(question.seed), [*shapes], np.array([*shapes.values()]))
    known = known_here(shapes, measuring.device, question.checkpoint, partial(measuring.seconds, own=False),
                       question.note)
    question.progress(f"shapes: {len(known.tasks)} of {question.operation.name} on {measuring.device.name}")
    if not known.answerings:
        _search_some(question, known, measuring)
    matrix = known.candidates(known.universal(domain, question.seed))
    known.tasks = [replace(each, seconds=measuring.seconds(each.task)) for each in known.tasks]
    known.learn()
    matrix = known.matrix(matrix.candidates)
    chooser = Chooser.of(question, matrix, known.kernels, measuring.device, domain,
                         [each.task.default for each in known.tasks])
    question.progress(f"candidates: {len(matrix.candidates)}, {int(chooser.everywhere.sum())} of them proved valid in "
                      f"the whole domain; {matrix.known} pairs of shape and candidate are measured already")
    matrix, complete = fill(known, matrix, measuring, question.kernels or MOST_KERNELS, question.progress,
                            [(row, column) for row, column in enumerate(chooser.defaults.tolist()) if column >= 0])
    measured = int(np.isfinite(matrix.seconds).sum())
    if not measured or (not complete and measured < len(known.tasks)):
        raise OutOfTime(f"{measured} of {matrix.seconds.size} pairs of shape and candidate have a time, too few to "
                        "choose; they are in the journal: give more time (--minutes) and the same call goes on, or see "
                        "what fails (seqtune tune)")
    chosen = chooser.choose(matrix, whole)
    if complete:  # what is measured of the members on all shapes may change the choice
        matrix, complete = complete_members(known, matrix, measuring, sorted(
            {*chosen.members, chooser.best_single(matrix)}))
        chosen = chooser.choose(matrix, whole)
    question.progress(f"members: {_curve_text(chosen)}")
    complete &= len(chosen.steps) == min(question.kernels or MOST_KERNELS, len(matrix.candidates))
    measuring.deadline = whole
    chosen, notes = chooser.compared_with_single(chosen)
    if fresh:
        minutes = len(fresh) * (TRIALS + FINALISTS) * SECONDS.get(measuring.device.backend, SECONDS_ELSEWHERE) / 60
        question.progress(f"bound: {len(fresh)} fresh shapes, each searched with {TRIALS} trials, take about "
                          f"{minutes:.2g} min, less what the journal has")
    losses = measure_fresh(measuring, fresh, chosen.dispatcher, question.checkpoint, question.seed, question.progress)
    if len(losses.first) < question.fresh:
        notes.append(f"of {question.fresh} fresh shapes for the bound, {len(losses.first)} could be drawn and measured")
    if not complete:
        notes.append("the time ended before all that decides was measured; the same call again goes on")
    return finish(chooser, chosen, losses, Measured(
        len(known.tasks), len(matrix.candidates), matrix.known, measuring.measured, complete), notes)


def dispatch_data(question: Question, data: Dataset, device: Device,
                  shapes: Mapping[Problem, float] | None) -> Dispatched:
    """Dispatch from existing times. Up to a quarter of the shapes is held out for the bound: nothing learns from it."""
    name = question.operation.name
    tasks = [] if data.holds_labels else tasks_in_data(data, device, name, shapes)
    whole = solver_matrix(data, device, name, shapes) if data.holds_labels else None
    problems = [each.problem for each in tasks] if whole is None else [*whole.problems]
    if len(problems) < 2:
        raise MisuseError(f"the data have times of only one shape of {name} on {device.name}; a rule needs several")
    if shapes is not None and len(problems) < len(shapes):
        question.note(f"{len(shapes) - len(problems)} of {len(shapes)} shapes have no times in the data and are left "
                      "out")
    domain = domain_of(question, problems)
    held, rest = _split(question, np.flatnonzero(domain.contains(ProblemColumns.of(problems))))
    if whole is None:
        known = Known(device, [tasks[row] for row in rest], shares(
            [1.0 if shapes is None else shapes[problems[row]] for row in rest]))
        known.learn()
        matrix, kernels = known.candidates(known.universal(domain, question.seed)), known.kernels
        defaults = [each.task.default for each in known.tasks]
    else:
        matrix, kernels, defaults = whole.take(rest), {}, []
    question.progress(f"shapes: {len(problems)} of {name} on {device.name} with {len(matrix.candidates)} candidates, "
                      f"from existing times; {len(held)} of them are held out for the bound")
    chooser = Chooser.of(question, matrix, kernels, device, domain, defaults)
    chosen = chooser.choose(matrix, Deadline())
    question.progress(f"members: {_curve_text(chosen)}")
    chosen, notes = chooser.compared_with_single(chosen)
    losses, lacking = Losses(), 0
    answers = chosen.dispatcher.choose_many(ProblemColumns.of(problems))
    for row in held:
        member = int(answers.members[row])
        best, seconds = (tasks[row].best, _time(tasks[row], chosen.dispatcher.members[member])) if whole is None else (
            float(whole.seconds[row].min()), float(whole.seconds[row, chosen.members[member]]))
        lacking += math.isnan(seconds) or not math.isfinite(best)
        losses.first.append(loss(math.inf if member < 0 else seconds, best))
        losses.sure.append(bool(answers.sure[row]))
    if held:
        notes.append(f"{len(held)} of {len(problems)} shapes of the data were held out for the bound, so no kernel was "
                     "chosen for them; --fresh 0 learns from all")
    if lacking:  # a bound from the others would be one of a selection
        losses = Losses()
        notes.append(f"{lacking} of {len(held)} held-out shapes lack a time of the kernel that is chosen for them")
    return finish(chooser, chosen, losses, Measured(
        len(matrix.problems), len(matrix.candidates), matrix.known, 0, True), notes)


def _split(question: Question, shapes: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """The shapes of existing data that are held out, drawn evenly, and the others; none is if they bear no bound."""
    most = min(question.fresh, int(HELD_OUT * len(shapes)))
    order = np.random.default_rng(question.seed).permutation(shapes)
    held = np.sort(order[:most if most >= FEWEST else 0])
    return held.tolist(), np.setdiff1d(order, held).tolist()


def _time(measured: MeasuredTask, configuration: Configuration) -> float:
    """The seconds of a configuration: infinite where it fails or is not valid, NaN if it was not measured."""
    number = measured.task.find(configuration)
    return math.inf if number is None else float(measured.seconds[number])


def finish(chooser: Chooser, chosen: Chosen, losses: Losses, measured: Measured, notes: list[str]) -> Dispatched:
    """Write the files, and make the result."""
    question, matrix, dispatcher = chooser.question, chosen.matrix, chosen.dispatcher
    bounds = losses.bounds(question.goal.factor, question.seed)
    members, slowness = chosen.answers.members, chosen.slowness
    best = np.argmin(matrix.slowness() + 1e-9 * ~np.isfinite(matrix.seconds), axis=1).tolist()
    order = np.argsort(-matrix.weights * slowness, kind="stable").tolist()
    deserving = tuple(OwnKernel(
        matrix.problems[row], matrix.candidates[best[row]], math.exp(slowness[row]),
        bool(np.isfinite(matrix.seconds[row, [best[row], chosen.members[members[row]]]]).all()))
        for row in order if slowness[row] > WORTH and members[row] >= 0)
    curve = tuple(CurvePoint(tuple(matrix.candidates[each] for each in step.members), step.oracle, step.rule,
                             step.second) for step in chosen.steps)
    served = tuple(Served(member, tuple(matrix.problems[row] for row in np.flatnonzero(members == number).tolist()),
                          float(matrix.weights[members == number].sum()))
                   for number, member in enumerate(dispatcher.members))
    if bounds is None and question.fresh:
        notes.append(f"no bound: it needs at least {FEWEST} fresh shapes, and there are {len(losses.first)}")
    unsure = np.flatnonzero(~chosen.answers.sure & (members >= 0)).tolist()
    unserved = [matrix.problems[row].brief() for row in order if members[row] < 0]
    if unserved:
        more = f" (and {len(unserved) - NAMED} more)" if len(unserved) > NAMED else ""
        notes.append(f"no kernel that ships is valid for {'; '.join(unserved[:NAMED])}{more}; ask for more kernels")
    if dispatcher.gap:
        notes.append(f"no kernel is promised for {dispatcher.gap}")
    if not dispatcher.promised:
        notes.append("the candidates' kernels have no constraints here, so their validity is not promised")
    evidence = {"curve": [point.to_json() for point in curve],
                "bounds": None if bounds is None else asdict(bounds), "notes": notes}
    dispatcher = replace(dispatcher, evidence=evidence)
    files = write_files(question, dispatcher, notes)
    rule = dispatcher.rule.text([f"{number}: {member.kernel} {member.brief()}"
                                 for number, member in enumerate(dispatcher.members)])
    result = Dispatched(question.operation.name, chooser.device.name, question.goal.kind, curve, served, rule,
                        chooser.losses(chosen), bounds, deserving,
                        tuple(matrix.problems[row] for row in unsure), measured, files, tuple(notes),
                        dispatcher)
    write_whole(files[-1], page(result))
    return result


def write_files(question: Question, dispatcher: Dispatcher, notes: list[str]) -> tuple[Path, ...]:
    """Write the dispatcher as JSON, C and Python; return the paths, of which the last is that of the page.

    A language that cannot express it gets no file, but a note; files of an earlier call are removed.
    """
    question.folder.mkdir(exist_ok=True)
    paths = output_paths(question.folder)
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
    count = min(max(2, len(known.tasks) // LEARNING), len(known.tasks))
    rows = np.random.default_rng(question.seed).choice(len(known.tasks), count, replace=False, p=known.weights)
    deadline = measuring.deadline.part(LEARNING_TIME)
    for number, row in enumerate(rows.tolist()):
        task = known.tasks[row].task
        try:
            done = measuring.search(task, deadline.left / (count - number), TuningOptions(seed=question.seed))
        except OutOfTime:  # the next one has what this one did not use
            continue
        known.searched += done
        known.tasks[row] = replace(known.tasks[row], seconds=measuring.seconds(task, own=False))
        question.progress(f"learning: {done} trials of {task.problem.brief()}, {number + 1} of {count}")
    if not known.searched:
        question.note("the time did not reach for a search from which trees learn, so there are few candidates; give "
                      "more time (--minutes), or a checkpoint")
    known.learn()


def _curve_text(chosen: Chosen) -> str:
    """The losses of each number of members, held out."""
    points = (f"{len(step.members)}: {step.rule:.4f}" for step in chosen.steps)
    return f"{len(chosen.members)} ship; the rule's held-out loss by number of kernels is {', '.join(points)}"
