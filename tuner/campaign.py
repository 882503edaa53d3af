"""Campaign: one budget of trials for a whole set of problems; they go where they teach or improve most.

First one problem after the other is searched a little, knowing what was learned of those before it. Then each batch
goes to the problem whose search improved most of late, or was tried least, and its search is made anew with what is
known of all others by now.

A search is told its problem's own trials before it goes on, so a campaign is resumed by running it again: what the
journal holds is not measured again, and alone decides what comes next. That may be other trials than without the stop,
since a search that was made anew knows more, and a batch that was cut is not finished.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from seqtune.data.journal import Journal
from seqtune.errors import InterruptedTuning, KernelError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import spaces_for

from .measuring.runner import Measurer
from .measuring.timing import DEFAULTS, Options
from .strategies.strategy import Strategy, StrategyFactory
from .tune import Budget, Finals, Progress, Result, Search, made, named

BATCH = 4  # trials between two decisions
FIRST = 0.5  # of the budget, in equal parts: what comes later knows more
RECENT = 6  # trials that tell whether a search still improves
FINALS = Finals()


def campaign(problems: Sequence[Problem], device: Device, journal: Journal, total: int,
             strategy: str | StrategyFactory = "portfolio", *, measurer: Measurer,
             kernels: Sequence[Kernel] | None = None, options: Options = DEFAULTS, finals: Finals = FINALS,
             seed: int = 0, on_progress: Callable[[Progress], None] = lambda progress: None,
             on_skip: Callable[[Problem, str], None] = lambda problem, reason: None) -> Iterator[Result]:
    """`total` trials for all of the problems together, the journal's own included; then the finals, one by one.

    Unsolvable problems are skipped. Raises InterruptedTuning on Ctrl-C, with all in the journal.
    """
    name, factory = named(strategy)
    searches: list[Search] = []
    for problem in dict.fromkeys(problems):
        try:
            spaces = spaces_for(problem, device, kernels)
        except KernelError as error:
            on_skip(problem, str(error))
            continue
        searches.append(Search(problem, device, journal, measurer, spaces, options, name))
        searches[-1].recall()
    spent = resumed = sum(search.done for search in searches)
    most = min(total, sum(search.size for search in searches))

    def step(progress: Progress) -> None:
        nonlocal spent
        spent += 1
        on_progress(replace(progress, done=spent, resumed=resumed, total=most, problems=len(searches)))

    part = FIRST * most / max(1, len(searches))
    batch = min(BATCH, max(1, math.ceil(part)))

    def go_on(search: Search, going: Strategy | None = None) -> Strategy:
        """A batch of that search."""
        going = going or made(factory, search.spaces, seed, None, journal, tuple(search.found))
        count = min(batch, most - spent)
        search.run(going, Budget(search.done + count), count, step)
        return going

    try:
        for search in searches:
            going = None
            while spent < most and search.done < part and is_open(search):
                going = go_on(search, going)
        while spent < most and (left := [search for search in searches if is_open(search)]):
            go_on(max(left, key=lambda search: (promise(times(search)), -search.done)))
        for search in searches:
            yield search.result(finals)
    except KeyboardInterrupt:
        raise InterruptedTuning(f"stopped after {spent} trials of {len(searches)} problems; all are in "
                                f"{journal.path}; run again to resume") from None


def is_open(search: Search) -> bool:
    """Whether there may be anything left to try."""
    return search.done < search.size and not search.ended


def times(search: Search) -> list[float]:
    """Of its trials, in seconds, in measured order."""
    return [measurement.seconds for measurement in search.found.values()]


def promise(seconds: Sequence[float]) -> float:
    """What a trial more may save, as log time: what each of the last ones did.

    Infinite where there are none, or they are the first that ran; nothing where none ever did.
    """
    last, least = min(RECENT, len(seconds) // 2), min(seconds, default=math.inf)
    if not last:
        return math.inf
    return math.log(min(seconds[:-last]) / least) / last if math.isfinite(least) else 0.0
