"""Answers: the answers of all live searches of a problem, measured in one contest.

The answer of one of our strategies is that of `seqtune tune`: its fastest trials and the safe default are measured
again, interleaved, and the best of them wins. A strategy of Kernel Tuner answers with its fastest trial, as Kernel
Tuner does. The seconds of these finals count: a search that is evaluated after so many seconds ended its trials
earlier. Only what its trials have built already is not charged again, nor the start of the worker.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.search.comparison import Search
from benchmarks.search.peers import PREFIX
from benchmarks.search.trials import SearchRun
from seqtune.data.record import Measurement, Status
from seqtune.errors import FormatError
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.compared_times import CompareOptions, compare_all
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import DEFAULTS
from seqtune.tuner.run.finals import fastest_finalist, finalists_of, measure_finals
from seqtune.tuner.run.plan import Finals

CONTEST = CompareOptions(builds=7, rounds=30)  # twice as many as usual: answers often differ by less than 1 %, and the
#                                                 same kernel of 0.2 ms by up to 7 % between builds of PoCL
Answers = dict[str, list[int | None]]  # "trials" or "seconds" -> the answer at each moment


@dataclass(frozen=True, slots=True)
class AnswerContest:
    """The answers of all searches of a problem and the seconds of each configuration that is one."""

    answers: Mapping[Search, Answers]
    seconds: Mapping[int, float]  # number of a configuration -> seconds; infinite if it failed

    def to_json(self) -> dict[str, object]:
        """The contest as a JSON object."""
        return {"answers": [[run.method, run.seed, answers] for run, answers in self.answers.items()],
                "seconds": {str(number): value if math.isfinite(value) else None
                            for number, value in self.seconds.items()}}

    @classmethod
    def from_json(cls, content: object, runs: Sequence[Search]) -> AnswerContest:
        """The inverse of `to_json`, for the searches of the problem. Raises FormatError."""
        named = {(run.method, run.seed): run for run in runs}
        try:
            assert isinstance(content, dict)
            seconds = {int(number): math.inf if value is None else float(value)
                       for number, value in content["seconds"].items()}
            answers: dict[Search, Answers] = {named[method, seed]: kinds for method, seed, kinds in content["answers"]}
            assert set(runs) == set(answers)
            assert all(number is None or number in seconds for kinds in answers.values()
                       for numbers in kinds.values() for number in numbers)
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
            raise FormatError("a stored contest does not hold the answers of its searches; remove the folder of "
                              "--work") from None
        return cls(answers, seconds)


def is_ours(search: Search) -> bool:
    """Whether the strategy is one of ours."""
    return not search.method.startswith(PREFIX)


def compared_answers(task: Task, runs: Mapping[Search, SearchRun], at: Mapping[str, Sequence[float]],
                     measurer: Measurer, renew: Callable[[], None]) -> AnswerContest:
    """Measure the finals of our searches of a task, then the contest of all answers.

    `at` are the moments: numbers of trials, and seconds. `renew` lets the measurer build everything again.
    """
    list(measurer.measure(task.problem, [task.default], DEFAULTS))  # starts the worker and makes the operands
    answers = {run: _answers(run, searched, at, task, measurer) for run, searched in runs.items()}
    numbers = sorted({number for kinds in answers.values() for answered in kinds.values() for number in answered
                      if number is not None})
    contest = compare_all(measurer, task.problem, [task[number] for number in numbers], CONTEST, renew)
    return AnswerContest(answers, {number: contest.seconds[task[number]] for number in numbers})


def _answers(run: Search, searched: SearchRun, at: Mapping[str, Sequence[float]], task: Task,
             measurer: Measurer) -> Answers:
    """The answers of a search after so many trials and after so many seconds."""
    if not is_ours(run):
        return {"trials": [searched.after(int(count)).fastest for count in at["trials"]],
                "seconds": [searched.at(seconds).fastest for seconds in at["seconds"]]}
    after = [_final(searched.after(int(count)), task, measurer) for count in at["trials"]]
    within = [_final(searched.at(seconds - final.seconds), task, measurer)
              for seconds, final in zip(at["seconds"], after, strict=True)]
    return {"trials": [final.winner for final in after], "seconds": [final.winner for final in within]}


@dataclass(frozen=True, slots=True)
class _Final:
    """The number of the winner, None if nothing ran, and the seconds that the finals took."""

    winner: int | None
    seconds: float


def _final(searched: SearchRun, task: Task, measurer: Measurer) -> _Final:
    """The winner of the finals, as in `MeasuredSearch.result`."""
    finals = Finals()
    trials = {task[trial.number]: Measurement(Status.CORRECT, (trial.seconds,)) for trial in searched.trials
              if math.isfinite(trial.seconds)}
    finalists = finalists_of(trials, task.default, finals.count)
    start = time.monotonic()
    compared = measure_finals(measurer, task.problem, finalists, finals, DEFAULTS)
    spent = time.monotonic() - start
    again = sum(measurement.build_seconds for finalist, measurement in compared.items() if finalist in trials)
    winner = fastest_finalist(compared)
    return _Final(None if winner is None else task.number(winner), spent - again)
