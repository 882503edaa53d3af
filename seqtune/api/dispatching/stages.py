"""Stages of a dispatch: the shapes, their matrix with candidates, the members and their rule, the proof, the files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.bound import FEWEST, Bounds, Losses
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.matrix import matrix_of
from seqtune.predictor.dispatch.members import generalises
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from seqtune.tuner.run.plan import TuningOptions

from ...errors import MisuseError
from .choosing import MOST_KERNELS, Chooser, Chosen, Question
from .filling import complete_members, fill, room
from .known import Known, known_here, shares, solver_matrix, tasks_in_data
from .measuring import Measuring
from .outputs import paths_of, texts_of, write_files
from .page import page
from .proof import loss, measure_fresh
from .results import Dispatched, Measured, OwnKernel, Served
from .sizes import ObjectSizes

WORTH = 0.1  # log of the gain from which on a shape deserves a kernel of its own
PROOF = 0.5  # share of the time that is kept for the bound
LEARNING = 10  # shapes for each of which one is searched, where no checkpoint answers
LEARNING_TIME = 0.4  # share of the time for the matrix that these searches take at most
HELD_OUT = 0.25  # share of the shapes of existing data that is kept for the bound
NO_BOUND = f"no bound: it needs at least {FEWEST} fresh shapes"
DRAWN = 300  # shapes that teach the rule by what is expected of them


def dispatch_measured(question: Question, measuring: Measuring, shapes: Mapping[Problem, float]) -> Dispatched:
    """Dispatch on a device, by measuring. Raises OutOfTime if fewer pairs were measured than there are shapes."""
    whole = measuring.deadline
    measuring.deadline = whole.part(1 - PROOF) if question.fresh else whole
    domain, inside = question.within(given := [*shapes])
    shapes = {given[row]: shapes[given[row]] for row in inside}
    fresh = domain.draw(question.fresh, np.random.default_rng(question.seed), [*shapes], np.array([*shapes.values()]))
    known = known_here(shapes, measuring.device, question.checkpoint, partial(measuring.seconds, own=False),
                       question.note)
    known.draw(_drawn(question, domain, [*shapes]), question.checkpoint)
    question.progress(f"shapes: {len(known.tasks)} of {question.operation.name} on {measuring.device.name}")
    sizes = _sizes(question, known)

    if not known.answerings:
        _search_shapes(question, known, measuring)
    candidates = known.candidates().candidates
    known.tasks = [replace(each, seconds=measuring.seconds(each.task)) for each in known.tasks]
    known.learn()
    matrix = known.matrix(candidates)
    chooser = Chooser(question, measuring.device, known.kernels, domain, candidates,
                      [each.task.default for each in known.tasks], sizes)
    question.progress(f"candidates: {len(candidates)}; {matrix.known} pairs of shape and candidate are measured")
    matrix, complete = fill(known, matrix, measuring, question.kernels or MOST_KERNELS, question.progress,
                            enumerate(chooser.default_columns))
    count = int(np.isfinite(matrix.seconds).sum())
    if not count or (not complete and count < len(known.tasks)):
        raise OutOfTime(f"{count} of {matrix.seconds.size} pairs of shape and candidate have a time, too few to "
                        "choose; they are in the journal: give more time (--minutes) and the same call goes on, or see "
                        "what fails (seqtune tune)")

    chosen = chooser.choose(known.with_drawn(matrix), whole)
    if complete:
        chosen, complete = choose_measured(known, chooser, measuring, chosen, whole)
    complete &= len(chosen.sets) == min(question.kernels or MOST_KERNELS, len(candidates))
    _tell(question, chosen)

    measuring.deadline = whole
    losses = measure_fresh(question, measuring, fresh, chosen.dispatcher)
    notes = [] if complete else ["the time ended before all that decides was measured; the same call again goes on"]
    if question.fresh and len(losses) < FEWEST:
        notes.append(f"{NO_BOUND}, and {len(losses)} of {question.fresh} could be drawn and measured; give a larger "
                     "--fresh, or more --minutes")
    elif len(losses) < question.fresh:
        notes.append(f"of {question.fresh} fresh shapes for the bound, {len(losses)} could be drawn and measured")
    return _finished(chooser, chosen, losses, notes, measuring.measured, complete)


def dispatch_data(question: Question, data: Dataset, device: Device,
                  shapes: Mapping[Problem, float] | None) -> Dispatched:
    """Dispatch from existing times. Up to a quarter of the shapes is held out for the bound: nothing learns from it."""
    name = question.operation.name
    tasks = [] if data.holds_labels else tasks_in_data(data, device, name, shapes)
    solvers = solver_matrix(data, device, name, shapes) if data.holds_labels else None
    problems = [each.problem for each in tasks] if solvers is None else [*solvers.problems]
    if len(problems) < 2:
        raise MisuseError(f"the data have times of only one shape of {name} on {device.name}; a rule needs several")
    if shapes is not None and len(problems) < len(shapes):
        question.note(f"{len(shapes) - len(problems)} of {len(shapes)} shapes have no times in the data and are left "
                      "out")
    domain, inside = question.within(problems)
    held, rest = _split(question, inside)

    weights = shares([1.0 if shapes is None else shapes[problem] for problem in problems])
    known = Known(device, [tasks[row] for row in rest] if tasks else [], weights[rest] / weights[rest].sum())
    known.learn()
    known.draw(_drawn(question, domain, [each.problem for each in known.tasks]) if tasks else [], None)
    matrix = known.candidates() if solvers is None else solvers.take(rest)
    chooser = Chooser(question, device, known.kernels, domain, matrix.candidates,
                      [each.task.default for each in known.tasks], _sizes(question, known))
    question.progress(f"shapes: {len(inside)} of {name} on {device.name} with {len(matrix.candidates)} candidates, "
                      f"from existing times; {len(held)} of them are held out for the bound")
    chosen = chooser.choose(known.with_drawn(matrix), Deadline())
    _tell(question, chosen)

    if solvers is None:
        best = np.array([each.best for each in tasks])
        seconds = matrix_of(tasks, chosen.dispatcher.members, weights,
                            lambda task, numbers: np.zeros(len(numbers))).seconds
    else:
        best, seconds = solvers.seconds.min(axis=1), solvers.take(candidates=chosen.members).seconds
    losses, notes = _held_out(chosen, problems, seconds, best, held)
    if question.fresh and not held:
        notes.append(f"{NO_BOUND}, and a quarter of the data, at most --fresh ({question.fresh}), has fewer; give more "
                     "shapes, or a larger --fresh")
    return _finished(chooser, chosen, losses, notes, 0, True)


def choose_measured(known: Known, chooser: Chooser, measuring: Measuring, chosen: Chosen,
                    deadline: Deadline) -> tuple[Chosen, bool]:
    """Measure the members of a choice on all shapes, and choose again, as long as that brings other members.

    The result is the last choice, and whether there was time for all of it.
    """
    while True:
        members = {*chosen.members, *chosen.sets[0].members}
        matrix, complete = complete_members(known, chosen.matrix, measuring, sorted(members))
        chosen = chooser.choose(known.with_drawn(matrix), deadline)
        if not complete or members.issuperset(chosen.members) or not room(known, matrix):
            return chosen, complete


def _search_shapes(question: Question, known: Known, measuring: Measuring) -> None:
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


def _sizes(question: Question, known: Known) -> ObjectSizes | None:
    """The sizes of the kernels' objects, if their bytes are limited. Raises MisuseError if nothing tells them."""
    return None if question.bytes is None else ObjectSizes.of(known.device, [each.task for each in known.tasks])


def _drawn(question: Question, domain: Domain, near: Sequence[Problem]) -> list[Problem]:
    """The shapes that teach the rule, like those `near` them."""
    return domain.draw(DRAWN, np.random.default_rng((question.seed, 1)), near)


def _tell(question: Question, chosen: Chosen) -> None:
    points = ", ".join(f"{each.kernels}: {each.rule:.4f}" for each in chosen.sets)
    question.progress(f"members: {len(chosen.members)} ship; the rule's held-out loss by number of kernels is {points}")


def _split(question: Question, rows: Sequence[int]) -> tuple[list[int], list[int]]:
    """The shapes of existing data that are held out, drawn evenly, and the others; none is if they bear no bound."""
    most = min(question.fresh, int(HELD_OUT * len(rows)))
    order: list[int] = np.random.default_rng(question.seed).permutation(rows).tolist()
    count = most if most >= FEWEST else 0
    return sorted(order[:count]), sorted(order[count:])


def _held_out(chosen: Chosen, problems: Sequence[Problem], seconds: Floats, best: Floats,
              held: Sequence[int]) -> tuple[list[Losses], list[str]]:
    """The losses on the shapes `held` out, and notes. Shapes: `seconds` (shape, member), `best` (shape,)."""
    answers = chosen.dispatcher.choose_many(ProblemColumns.of(problems))
    times = np.where(answers.members < 0, np.inf, seconds[np.arange(len(problems)), answers.members])
    lacking = int((np.isnan(times) | ~np.isfinite(best))[held].sum())
    notes = [f"{len(held)} of {len(problems)} shapes of the data were held out for the bound, so no kernel was chosen "
             "for them; --fresh 0 learns from all"] if held else []
    if lacking:  # a bound from the others would be one of a selection
        return [], [*notes, f"no bound: {lacking} of {len(held)} held-out shapes have no time with the kernel that "
                            "the rule picks for them; add these times, or use --fresh 0"]
    return [Losses(loss(float(times[row]), float(best[row])), None, bool(answers.sure[row])) for row in held], notes


def _finished(chooser: Chooser, chosen: Chosen, losses: Sequence[Losses], notes: Sequence[str], measured: int,
              complete: bool) -> Dispatched:
    """Write the files, and make the result."""
    question, matrix, dispatcher, answers = chooser.question, chosen.matrix, chosen.dispatcher, chosen.answers
    served = tuple(Served(member, chosen.served(number), float(matrix.weights[answers.members == number].sum()),
                          int(chosen.bytes[number]) if chosen.bytes else None)
                   for number, member in enumerate(dispatcher.members))
    unsure = tuple(matrix.problems[row] for row in np.flatnonzero(~answers.sure & (answers.members >= 0)))
    names = [f"{number}: {member.kernel} {member.brief()}" for number, member in enumerate(dispatcher.members)]
    result = Dispatched(
        question.operation.name, chooser.device.name, question.goal.kind, chosen.sets, served,
        dispatcher.rule.text(names), chosen.losses, Bounds.of(losses, question.goal.factor, question.seed),
        _deserving(chosen), unsure,
        Measured(len(matrix.problems), len(matrix.candidates), matrix.known, measured, complete), (),
        (*notes, *_notes(question, chosen)))
    content = result.to_json()
    dispatcher = replace(dispatcher, evidence={name: content[name] for name in ("curve", "bounds", "notes")})
    texts, further = texts_of(question.folder, question.prefix, dispatcher)
    *_, page_path = paths_of(question.folder, question.prefix)
    result = replace(result, files=(*texts, page_path), notes=(*result.notes, *further), dispatcher=dispatcher)
    write_files(question.folder, question.prefix, {**texts, page_path: page(result)})
    return result


def _notes(question: Question, chosen: Chosen) -> list[str]:
    """Notes for the user on a choice."""
    notes, dispatcher, matrix = list[str](), chosen.dispatcher, chosen.matrix
    if question.kernels not in (None, len(chosen.members)):
        notes.append(f"{len(chosen.members)} of {question.kernels} kernels ship: with more, no rule is better on the "
                     "given shapes, or there was no time to choose more")
    if not generalises(chosen.sets[min(len(chosen.members), len(chosen.sets)) - 1], question.goal):
        notes.append("no few kernels with a rule serve shapes that the rule did not learn from: tune what matters, and "
                     "give each its own kernel")
    if chosen.is_worse_than("default"):
        notes.append("the library's default is better on the given shapes than what ships here; keep the default, or "
                     "ask for more kernels or bytes")
    unserved = [problem.brief() for problem, member in zip(matrix.problems, chosen.answers.members, strict=True)
                if member < 0]
    if unserved:
        notes.append(f"no kernel that ships is valid for {len(unserved)} of the shapes, such as {unserved[0]}; ask for "
                     "more kernels or bytes")
    if dispatcher.gap:
        notes.append(f"no kernel is promised for {dispatcher.gap}")
    if not dispatcher.promised:
        notes.append("the candidates' kernels have no constraints here, so their validity is not promised")
    return notes


def _deserving(chosen: Chosen) -> tuple[OwnKernel, ...]:
    """The shapes that deserve kernels of their own, those with the largest weighted gain first."""
    matrix, answers, slowness = chosen.matrix, chosen.answers.members, chosen.slowness
    best = np.argmin(matrix.slowness() + 1e-9 * ~np.isfinite(matrix.seconds), axis=1).tolist()
    return tuple(
        OwnKernel(matrix.problems[row], matrix.candidates[best[row]], math.exp(slowness[row]),
                  bool(np.isfinite(matrix.seconds[row, [best[row], chosen.members[answers[row]]]]).all()))
        for row in np.argsort(-matrix.weights * slowness, kind="stable")
        if slowness[row] > WORTH and answers[row] >= 0)
