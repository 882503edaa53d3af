"""Simulation: searches of recorded spaces, where a measurement is a look-up by number; thousands of runs in minutes.

The result of a search is the share of the optimum's speed after each evaluation: optimum / least time so far, 0 while
every evaluation failed. Evaluations are distinct configurations, failures included. Every run has its own seed, which
is the same for all methods.
"""

from __future__ import annotations

import multiprocessing
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
from seqtune.kernels.libraries.messages import messages_in_use, use_messages
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..processes import one_thread_each, usable_jobs
from ..strategies.strategy import SearchContext, StrategyFactory

_Unit = tuple[int, str, int]  # index of the space, method, repeat

_ROUNDING = 1e-12  # tolerance for a share that equals the requested share
_DRAWS = 1000  # of a bootstrap; the ends of its interval change by less than a tenth of its width between seeds
_CHUNK = 4  # runs sent to a process at once


@dataclass(frozen=True, eq=False)
class RecordedSpace:
    """A task with a time for every configuration, its names in results, and the context in which it is searched."""

    space: str  # name of the space in results
    device: str  # name of the device in results
    measured: MeasuredTask
    history: tuple[MeasuredTask, ...] = field(default=(), repr=False)  # measurements of other devices or problems
    seeds: tuple[Configuration, ...] = ()  # configurations to propose first, likeliest first
    slowness: Sequence[float] = field(default=(), repr=False)  # expected log(time / best time), by number

    @property
    def task(self) -> Task:
        """The task to search."""
        return self.measured.task

    @property
    def seconds(self) -> Floats:
        """The seconds of each number; infinite if it failed."""
        return self.measured.seconds

    @cached_property
    def optimum(self) -> float:
        """The least time of all configurations, in seconds."""
        return self.measured.best

    def context(self, trials: int, seed: int) -> SearchContext:
        """The context for a strategy that searches this space."""
        return SearchContext(self.task, seed, trials, self.history, self.seeds, self.slowness)

    def measurement(self, number: int) -> Measurement:
        """The recorded measurement of a number."""
        seconds = float(self.seconds[number])
        if np.isinf(seconds):
            return Measurement(Status.RUNTIME, message="the configuration failed when it was recorded")
        return Measurement(Status.CORRECT, (seconds,))


class SearchMethod(Protocol):
    """Searches a recorded space; returns the numbers of at most `trials` configurations in the order of evaluation.

    A method is sent to other processes, so it must be picklable. The same seed gives the same numbers.
    """

    def __call__(self, recorded: RecordedSpace, trials: int, seed: int) -> Sequence[int]: ...


@dataclass(frozen=True)
class StrategyMethod:
    """The search method of a strategy."""

    factory: StrategyFactory
    batch: int = 1  # configurations proposed before results are passed on; a strategy learns most with 1

    def __call__(self, recorded: RecordedSpace, trials: int, seed: int) -> Sequence[int]:
        strategy = self.factory(recorded.context(trials, seed))
        numbers: list[int] = []
        while len(numbers) < trials and (batch := strategy.ask(min(self.batch, trials - len(numbers)))):
            for configuration in batch:
                numbers.append(recorded.task.number(configuration))
                strategy.tell(configuration, recorded.measurement(numbers[-1]))
        return numbers


@dataclass(frozen=True, eq=False)
class Curves:
    """The runs of one method on one recorded space: `shares[run, n]` is the best share after n + 1 evaluations."""

    space: str
    device: str
    method: str
    shares: Floats

    def at(self, budget: int) -> Floats:
        """Each run's share after `budget` evaluations; a budget of 0 takes the first proposal without measuring."""
        shares: Floats = self.shares[:, max(budget, 1) - 1]
        return shares

    def interval(self, budgets: Sequence[int]) -> tuple[Floats, Floats]:
        """The ends of the 95 % interval of the mean share at each budget, (budget,), by a bootstrap of the runs."""
        shares = np.stack([self.at(budget) for budget in budgets], axis=1)  # (run, budget)
        runs = len(shares)
        drawn = np.random.default_rng(0).multinomial(runs, np.full(runs, 1 / runs), _DRAWS)  # (draw, run) times drawn
        low, high = np.quantile(drawn @ shares / runs, [0.025, 0.975], axis=0)
        return low, high

    def row(self, budget: int) -> dict[str, Any]:
        """The row of a table for one budget: mean share and standard error of the mean over the runs."""
        shares = self.at(budget)
        sem = float(shares.std(ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else None
        return {"space": self.space, "device": self.device, "strategy": self.method, "budget": budget,
                "share_mean": float(shares.mean()), "share_sem": sem, "repeats": len(shares)}

    def evaluations_to(self, share: float) -> float | None:
        """The median number of evaluations until a run reaches the share; None if half of the runs never do."""
        reached = self.shares >= share - _ROUNDING
        median = float(np.median(np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)))
        return median if np.isfinite(median) else None


def best_shares(recorded: RecordedSpace, numbers: Sequence[int], trials: int) -> Floats:
    """The best share after each of `trials` evaluations; a method that ends early keeps its last share."""
    least = np.minimum.accumulate(recorded.seconds[np.asarray(numbers[:trials], dtype=np.int64)])
    shares = np.zeros(trials)
    shares[:len(least)] = recorded.optimum / least
    shares[len(least):] = shares[len(least) - 1] if len(least) else 0.0
    return shares


def simulate(spaces: Sequence[RecordedSpace], methods: Mapping[str, SearchMethod], trials: int, repeats: int, *,
             seed: int = 0, jobs: int = 1, progress: Say = silent) -> list[Curves]:
    """Search every space with every method, `repeats` times with `trials` evaluations.

    Returns a `Curves` for each space and method, ordered by space, then as in `methods`. With `jobs` above 1 the runs
    are spread over that many processes with one thread each. Raises SeqtuneError if one of them dies.
    """
    units = [(index, name, repeat) for index in range(len(spaces)) for name in methods for repeat in range(repeats)]
    shares: dict[tuple[int, str], list[Floats]] = {}
    with _running(min(jobs, len(units)), partial(_search, spaces, dict(methods), trials, seed)) as results:
        for done, ((index, name, _), run_shares) in enumerate(zip(units, results(units), strict=True), start=1):
            shares.setdefault((index, name), []).append(run_shares)
            progress(f"{done} of {len(units)} searches")
    return [Curves(spaces[index].space, spaces[index].device, name, np.array(runs))
            for (index, name), runs in shares.items()]


def _search(spaces: Sequence[RecordedSpace], methods: Mapping[str, SearchMethod], trials: int, seed: int,
            unit: _Unit) -> Floats:
    """The shares of one run."""
    index, name, repeat = unit
    recorded = spaces[index]
    run_seed = zlib.crc32(f"{seed} {recorded.space} {recorded.device} {repeat}".encode())
    return best_shares(recorded, methods[name](recorded, trials, run_seed), trials)


@contextmanager
def _running(jobs: int, run: Callable[[_Unit], Floats]) -> Iterator[Callable[[Sequence[_Unit]], Iterator[Floats]]]:
    """Yield a function that maps `run` over units in order, in this process or in a pool of processes."""
    if usable_jobs(jobs) <= 1:
        yield partial(map, run)
        return
    with one_thread_each(), ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin,
                                                (messages_in_use(), run)) as pool:
        try:
            yield partial(pool.map, _continue, chunksize=_CHUNK)
        except BrokenProcessPool:
            raise SeqtuneError("a search process died, perhaps because memory ran out; use fewer jobs") from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


_task: list[Callable[[_Unit], Floats]] = []  # the function that a process of the pool runs, set once by `_begin`


def _begin(libraries: list[dict[str, Any]], run: Callable[[_Unit], Floats]) -> None:
    use_messages(libraries)
    _task[:] = [run]


def _continue(unit: _Unit) -> Floats:
    return _task[0](unit)
