"""Simulation: searches of recorded spaces, where a measurement is a look-up by number; thousands of runs in minutes.

A task is a recorded space, a method searches it, and what counts is the share of the optimum's speed that the best of
the first evaluations has: optimum / least time so far, 0 while nothing ran. Evaluations are distinct configurations,
failures included. Every run has a seed of its own, the same for all methods.
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
from numpy.typing import NDArray

from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.union import Past

from .strategies.strategy import Strategy, StrategyFactory

Floats = NDArray[np.float64]
_Unit = tuple[int, str, int]  # task, method, repeat

_ROUNDING = 1e-12  # of a share that is exactly the level asked for
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CHUNK = 4  # runs handed to a process at once


@dataclass(frozen=True, eq=False)
class Task:
    """A recorded space to be searched, and what is known from elsewhere."""

    space: str
    device: str
    spaces: tuple[SearchSpace, ...]
    seconds: Floats  # by number in the union of the spaces; inf: failed
    history: tuple[Past, ...] = field(default=(), repr=False)
    seeds: tuple[Configuration, ...] = ()  # to begin with, likeliest first

    @cached_property
    def optimum(self) -> float:
        """The least time, in seconds."""
        return float(self.seconds.min())

    @cached_property
    def _offsets(self) -> dict[str, tuple[int, SearchSpace]]:
        ends = np.cumsum([len(space) for space in self.spaces]).tolist()
        return {space.kernel.name: (end - len(space), space) for space, end in zip(self.spaces, ends, strict=True)}

    def number(self, configuration: Configuration) -> int:
        """The number of a configuration in the union of the spaces. Raises ConfigurationError."""
        offset, space = self._offsets[configuration.kernel]
        return offset + space.row(configuration)

    def measurement(self, number: int) -> Measurement:
        """What was recorded."""
        seconds = float(self.seconds[number])
        if np.isinf(seconds):
            return Measurement(Status.RUNTIME, message="it failed when it was recorded")
        return Measurement(Status.CORRECT, (seconds,))


class Method(Protocol):
    """Searches a task: the numbers of at most `trials` distinct configurations, in the order of their evaluation.

    It is handed to other processes, so it must be picklable. The same seed gives the same numbers.
    """

    def __call__(self, task: Task, trials: int, seed: int) -> Sequence[int]: ...


@dataclass(frozen=True)
class Search:
    """A strategy as a method. What is known beforehand is given to a factory that takes it (see StrategyFactory)."""

    factory: StrategyFactory
    batch: int = 1  # configurations asked for at once: told one by one, a strategy learns most

    def __call__(self, task: Task, trials: int, seed: int) -> Sequence[int]:
        make: Any = self.factory
        more = {name: given for name, given in (("history", task.history), ("seeds", task.seeds))
                if getattr(self.factory, f"takes_{name}", False)}
        strategy: Strategy = make(task.spaces, seed, trials, **more)
        found: list[int] = []
        while len(found) < trials and (asked := strategy.ask(min(self.batch, trials - len(found)))):
            for configuration in asked:
                found.append(task.number(configuration))
                strategy.tell(configuration, task.measurement(found[-1]))
        return found


@dataclass(frozen=True, eq=False)
class Curves:
    """How one method went on one task: `shares[run, n]` is the best share after n + 1 evaluations."""

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


def best_shares(task: Task, numbers: Sequence[int], trials: int) -> Floats:
    """The best share after each of `trials` evaluations; a method that ends early stays where it was."""
    least = np.minimum.accumulate(task.seconds[np.asarray(numbers[:trials], dtype=np.int64)])
    found = np.zeros(trials)
    found[:len(least)] = task.optimum / least
    found[len(least):] = found[len(least) - 1] if len(least) else 0.0
    return found


def simulate(tasks: Sequence[Task], methods: Mapping[str, Method], trials: int, repeats: int, *, seed: int = 0,
             jobs: int = 1, progress: Callable[[str], None] = lambda step: None) -> list[Curves]:
    """`repeats` searches of `trials` evaluations of every task by every method, by task in the methods' order.

    With `jobs` above 1 in as many processes of one thread each. Raises SeqtuneError where one of them dies.
    """
    units = [(place, name, repeat) for place in range(len(tasks)) for name in methods for repeat in range(repeats)]
    shares: dict[tuple[int, str], list[Floats]] = {}
    with _running(min(jobs, len(units)), partial(_search, tasks, dict(methods), trials, seed)) as results:
        for done, ((place, name, _), found) in enumerate(zip(units, results(units), strict=True), start=1):
            shares.setdefault((place, name), []).append(found)
            progress(f"{done} of {len(units)} searches")
    return [Curves(tasks[place].space, tasks[place].device, name, np.array(found))
            for (place, name), found in shares.items()]


def _search(tasks: Sequence[Task], methods: Mapping[str, Method], trials: int, seed: int, unit: _Unit) -> Floats:
    place, name, repeat = unit
    task = tasks[place]
    own = zlib.crc32(f"{seed} {task.space} {task.device} {repeat}".encode())
    return best_shares(task, methods[name](task, trials, own), trials)


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
