"""LabelledProblems: problems as training examples, whose times a teacher estimates when a step needs them.

They are sampled, or problems for which another tuner's choices are known and no time.

A teacher's labels are endless: a training can see a new problem in every example. Of these only the sentences and
configurations that a step reads are kept, until it has read them. A second process may draw them ahead of the steps;
it draws the same ones.
"""

from __future__ import annotations

import hashlib
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from seqtune.errors import SeqtuneError
from seqtune.kernels.libraries.messages import messages_in_use, use_messages
from seqtune.kernels.task import ChosenTask, Floats, Task
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.processes import one_thread_each, processors, usable_jobs

from ...sequence.vocabulary import Vocabulary
from ...training.options import TrainingOptions
from ...trees.choice_rows import between
from ...trees.ranker import Ranker
from .sampled_problems import SampledProblems
from .targets import PrefixTree
from .training_example import DrawnExample, TrainingExample

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

KEPT = 1500  # labelled problems that are kept, each of 0.15 MB, where there are so few that they come again
LARGEST_KEPT = 10_000  # configurations of a problem that is kept
NEAR = 0.35  # log(time / best) from which on configurations are estimated by one model of the teacher alone: their
#              wanted probabilities are below exp(-10)
AHEAD = 6  # batches that the second process has ready

Wanted = Sequence[tuple[int, int]]  # the numbers of a batch's labelled problems, and the seeds of their drawings
DrawnBatch = Callable[[int], DrawnExample]  # the example with an index among those of its batch
Draw = Callable[[Sequence[Wanted]], Iterator[DrawnBatch]]  # for all batches of an epoch, in order


class LabelledProblems:
    """Problems with another tuner's choices, then sampled problems, `count` together, as training examples."""

    def __init__(self, problems: SampledProblems | None, teacher: Ranker, vocabulary: Vocabulary, tau: float,
                 count: int, chosen: Sequence[ChosenTask] = ()) -> None:
        self._problems, self._teacher, self._tau, self._count = problems, teacher, tau, count
        self.vocabulary, self._chosen = vocabulary, chosen
        self._first, self._others = teacher.split(1)
        self._kept: dict[int, TrainingExample] = {}

    def __len__(self) -> int:
        return self._count

    def example(self, number: int) -> TrainingExample:
        """The example with this number: a function of the problems, the teacher and the number."""
        example = self._kept.get(number)
        if example is None:
            chosen = self._chosen[number] if number < len(self._chosen) else None
            task = self._task(number) if chosen is None else chosen.task
            log_ratios = self.estimated(task)
            slowness = (np.expm1(np.minimum(log_ratios - log_ratios.min(), 20.0)) if chosen is None
                        else between(log_ratios, chosen))
            example = TrainingExample(self.vocabulary.source(task.problem, task.device),
                                      PrefixTree(task, slowness, self.vocabulary, self._tau), task.problem,
                                      task.device)
            if len(self._kept) < KEPT and len(task) <= LARGEST_KEPT:
                self._kept[number] = example
        return example

    def _task(self, number: int) -> Task:
        assert self._problems is not None  # `count` has no more than the choices
        return self._problems.task(number - len(self._chosen))

    def estimated(self, task: Task) -> Floats:
        """The teacher's log(time / best) of each configuration: the mean of its models, or far from the best one's."""
        log_ratios = self._first.slowness(task, np.arange(len(task)))
        if self._others.forests:
            near = np.flatnonzero(log_ratios < log_ratios.min() + NEAR)
            members = np.column_stack([log_ratios[near], self._others.members(task, near)])
            log_ratios[near] = np.nanmean(members, axis=1)  # NaN: a kernel that has a single forest
        return log_ratios

    def label(self, deadline: Deadline) -> None:
        """Label the problems that are kept now. Those that the deadline leaves unlabelled are dropped."""
        for number in range(min(self._count, KEPT)):
            if deadline.is_over:
                self._count = number
                break
            self.example(number)

    def digest(self) -> bytes:
        """Bytes that change when an example changes."""
        digest = hashlib.sha256(b"" if self._problems is None else self._problems.identity().encode())
        for chosen in self._chosen:
            digest.update(f"{chosen.problem.key} {chosen.device.key}".encode() + chosen.numbers.tobytes()
                          + chosen.weights.tobytes())
        for name, array in self._teacher.arrays().items():
            digest.update(name.encode() + array.tobytes())
        return digest.digest()


@contextmanager
def drawing(labelled: LabelledProblems | None, options: TrainingOptions) -> Iterator[tuple[Draw, TrainingOptions]]:
    """Yield a function that draws the labelled problems of batches, and the options with the threads that this leaves.

    A second process draws them if there are more problems than are kept, and a second thread and processor.
    """
    if labelled is None or len(labelled) <= KEPT or options.threads < 2 or processors() < 2 or usable_jobs(2) < 2:
        yield partial(_drawn_here, labelled, options), options
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Ctrl-C reaches every process: only this one answers it
    with one_thread_each(), ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (
            messages_in_use(), labelled, options)) as pool:
        try:
            yield partial(_drawn_ahead, pool), replace(options, threads=options.threads - 1)
        except BrokenProcessPool:
            raise SeqtuneError("the process that labels problems died, perhaps because memory ran out; train with "
                               "fewer further problems (--extra)") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _drawn_here(labelled: LabelledProblems | None, options: TrainingOptions,
                batches: Sequence[Wanted]) -> Iterator[DrawnBatch]:
    """The batches' examples, each drawn when a step asks for it."""
    def draw(wanted: Wanted, index: int) -> DrawnExample:
        assert labelled is not None
        number, seed = wanted[index]
        return labelled.example(number).drawn(seed, labelled.vocabulary, options)

    return (partial(draw, wanted) for wanted in batches)


def _drawn_ahead(pool: ProcessPoolExecutor, batches: Sequence[Wanted]) -> Iterator[DrawnBatch]:
    """The batches' examples, drawn by the pool's process while steps before them are computed."""
    waiting: deque[Future[list[DrawnExample]]] = deque()
    for wanted in batches:
        waiting.append(pool.submit(_draw, wanted))
        if len(waiting) > AHEAD:
            yield waiting.popleft().result().__getitem__
    while waiting:
        yield waiting.popleft().result().__getitem__


_here: tuple[LabelledProblems, TrainingOptions]  # of the process that draws


def _begin(libraries: list[dict[str, Any]], labelled: LabelledProblems, options: TrainingOptions) -> None:
    """Prepare the process that draws."""
    global _here
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_messages(libraries)
    _here = labelled, options


def _draw(wanted: Wanted) -> list[DrawnExample]:
    """Draw the examples of a batch in the process that draws."""
    labelled, options = _here
    return [draw(index) for draw in _drawn_here(labelled, options, [wanted]) for index in range(len(wanted))]
