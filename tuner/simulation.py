"""Simulation: searches of recorded spaces, where a measurement is a look-up by number; thousands of runs in minutes.

A method searches a recorded space, and what counts is the share of the optimum's speed that the best of the first
evaluations has: optimum / least time so far, 0 while nothing ran. Evaluations are distinct configurations, failures
included. Every run has a seed of its own, the same for all methods.
"""

from __future__ import annotations

import multiprocessing
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import Floats, MeasuredTask, Task

from .strategies.strategy import SearchContext, StrategyFactory

_Unit = tuple[int, str, int]  # index of the space, method, repeat

_ROUNDING = 1e-12  # of a share that is exactly the level asked for
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CHUNK = 4  # runs handed to a process at once


@dataclass(frozen=True, eq=False)
class RecordedSpace:
    """A task of which every configuration was measured, under its names, and what is known before it is searched."""

    space: str  # its name in results
    device: str
    measured: MeasuredTask
    history: tuple[MeasuredTask, ...] = field(default=(), repr=False)  # measured elsewhere
    seeds: tuple[Configuration, ...] = ()  # to begin with, likeliest first

    @property
    def task(self) -> Task:
        """The task to search."""
        return self.measured.task

    @property
    def seconds(self) -> Floats:
        """The time of each number; infinite where it failed."""
        return self.measured.seconds

    @cached_property
    def optimum(self) -> float:
        """The least time, in seconds."""
        return self.measured.best

    def context(self, trials: int, seed: int) -> SearchContext:
        """A strategy's context."""
        return SearchContext(self.task, seed, trials, self.history, self.seeds)

    def measurement(self, number: int) -> Measurement:
        """The recorded measurement of a number."""
        seconds = float(self.seconds[number])
        if np.isinf(seconds):
            return Measurement(Status.RUNTIME, message="it failed when it was recorded")
        return Measurement(Status.CORRECT, (seconds,))


class SearchMethod(Protocol):
    """Searches a recorded space. It returns the numbers of at most `trials` configurations in the order of evaluation.

    It is handed to other processes, so it must be picklable. The same seed gives the same numbers.
    """

    def __call__(self, recorded: RecordedSpace, trials: int, seed: int) -> Sequence[int]: ...


@dataclass(frozen=True)
class StrategyMethod:
    """A strategy as a method."""

    factory: StrategyFactory
    batch: int = 1  # configurations asked for at once: told one by one, a strategy learns most

    def __call__(self, recorded: RecordedSpace, trials: int, seed: int) -> Sequence[int]:
        strategy = self.factory(recorded.context(trials, seed))
        numbers: list[int] = []
        while len(numbers) < trials and (asked := strategy.ask(min(self.batch, trials - len(numbers)))):
            for configuration in asked:
                numbers.append(recorded.task.number(configuration))
                strategy.tell(configuration, recorded.measurement(numbers[-1]))
        return numbers


@dataclass(frozen=True, eq=False)
class Curves:
    """How one method went on one recorded space: `shares[run, n]` is the best share after n + 1 evaluations."""

    space: str
    device: str
    method: str
    shares: Floats

    def at(self, budget: int) -> Floats:
        """Each run's share after so many evaluations; after 0, that of the first proposal, taken unmeasured."""
        found: Floats = self.shares[:, max(budget, 1) - 1]
        return found

    def row(self, budget: int) -> dict[str, Any]:
        """Mean and standard error of the mean over the runs."""
        shares = self.at(budget)
        sem = float(shares.std(ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else None
        return {"space": self.space, "device": self.device, "strategy": self.method, "budget": budget,
                "share_mean": float(shares.mean()), "share_sem": sem, "repeats": len(shares)}

    def evaluations_to(self, share: float) -> float | None:
        """The median over the runs of the evaluations until that share; None where half of the runs end without."""
        there = self.shares >= share - _ROUNDING
        median = float(np.median(np.where(there.any(axis=1), there.argmax(axis=1) + 1.0, np.inf)))
        return median if np.isfinite(median) else None


def best_shares(recorded: RecordedSpace, numbers: Sequence[int], trials: int) -> Floats:
    """The best share after each of `trials` evaluations; a method that ends early stays where it was."""
    least = np.minimum.accumulate(recorded.seconds[np.asarray(numbers[:trials], dtype=np.int64)])
    shares = np.zeros(trials)
    shares[:len(least)] = recorded.optimum / least
    shares[len(least):] = shares[len(least) - 1] if len(least) else 0.0
    return shares


def simulate(spaces: Sequence[RecordedSpace], methods: Mapping[str, SearchMethod], trials: int, repeats: int, *,
             seed: int = 0, jobs: int = 1, progress: Callable[[str], None] = lambda step: None) -> list[Curves]:
    """`repeats` searches of `trials` evaluations of every space by every method, by space in the methods' order.

    With `jobs` above 1 in as many processes of one thread each. Raises SeqtuneError where one of them dies.
    """
    units = [(index, name, repeat) for index in range(len(spaces)) for name in methods for repeat in range(repeats)]
    shares: dict[tuple[int, str], list[Floats]] = {}
    with _running(min(jobs, len(units)), partial(_search, spaces, dict(methods), trials, seed)) as results:
        for done, ((index, name, _), reached) in enumerate(zip(units, results(units), strict=True), start=1):
            shares.setdefault((index, name), []).append(reached)
            progress(f"{done} of {len(units)} searches")
    return [Curves(spaces[index].space, spaces[index].device, name, np.array(runs))
            for (index, name), runs in shares.items()]


def _search(spaces: Sequence[RecordedSpace], methods: Mapping[str, SearchMethod], trials: int, seed: int,
            unit: _Unit) -> Floats:
    index, name, repeat = unit
    recorded = spaces[index]
    own = zlib.crc32(f"{seed} {recorded.space} {recorded.device} {repeat}".encode())
    return best_shares(recorded, methods[name](recorded, trials, own), trials)


@contextmanager
def _running(jobs: int, run: Callable[[_Unit], Floats]) -> Iterator[Callable[[Sequence[_Unit]], Iterator[Floats]]]:
    """What maps `run` over units, in order: here, or in processes that get `run` once."""
    if jobs <= 1:
        yield partial(map, run)
        return
    with _one_thread_each(), ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin, (run,)) as pool:
        try:
            yield partial(pool.map, _continue, chunksize=_CHUNK)
        except BrokenProcessPool:
            raise SeqtuneError("a searching process died, perhaps for want of memory; try fewer jobs") from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that are started meanwhile compute on one thread: libraries read these names when they are loaded."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_here: list[Callable[[_Unit], Floats]] = []  # in a process of a pool: what it runs


def _begin(run: Callable[[_Unit], Floats]) -> None:
    _here[:] = [run]


def _continue(unit: _Unit) -> Floats:
    return _here[0](unit)
