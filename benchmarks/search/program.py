"""Compare search strategies with each other and with Kernel Tuner's: `python -m benchmarks search [--on KIND]`.

Every method searches every problem with the same seeds. Methods are our strategies and those of Kernel Tuner
(`pip install kernel_tuner`, or `--peers ''` for ours alone). There are three kinds of problems:

recorded  the recorded spaces of `--data RECORDED`. A measurement is a look-up; methods are compared by their regret,
          1 - optimum / best found, averaged over the seeds. `portfolio+history` knows the records of other devices.
across    held-out problems of a data set, by default the shipped one, where only measured configurations can be chosen.
          `portfolio+history` knows the records of the nearest training problems, as `seqtune tune` does, and
          `portfolio+proposals` begins with the shipped predictor's proposals.
live      problems drawn from networks that no data hold, measured on this machine. The answers after each budget of
          trials, and after equal seconds, are compared in one contest of all methods. It takes about 35 minutes, most
          of them for PoCL's compiler.

`--work FOLDER` stores finished searches, but for those of ours on recorded spaces, which change with our code. With
`--minutes`, a call stops after that time, and the same call again continues. `--out docs` writes the page of recorded
or live searches; the table has the problems that are finished.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.finished import Finished
from benchmarks.common.page import add_out, check_ready, publish
from benchmarks.common.program import OneLineParser, minutes, positive
from benchmarks.common.progress import say
from benchmarks.programs import load
from benchmarks.search.comparison import compare
from benchmarks.search.peers import LIVE_STRATEGIES, PREFIX, STRATEGIES, check_installed
from seqtune.api.replaying import STRATEGIES as OURS
from seqtune.cli.arguments import numbers, parts
from seqtune.errors import MisuseError
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.strategies.table import strategy_factory

KNOWLEDGE = ("", "history", "proposals")


@dataclass(frozen=True)
class Kind:
    """A kind of problems: what makes the list of them and the report, and the lists by default."""

    problems: str  # "module:function" of (options, methods)
    report: str  # "module:function" of (options, outcomes): the JSON object, the text, what draws the figure
    page: str  # "module:function"; empty: it has no page
    strategies: str  # the first one is compared with the others
    peers: str
    budgets: str
    seeds: int
    devices: str


KINDS: Mapping[str, Kind] = {
    "recorded": Kind("benchmarks.search.recorded:spaces", "benchmarks.search.recorded:report",
                     "benchmarks.search.recorded:page", ",".join(OURS), ",".join(STRATEGIES), "25,50,100,200", 30, ""),
    "across": Kind("benchmarks.search.recorded:held_out", "benchmarks.search.recorded:report_across", "",
                   "portfolio,portfolio+history,portfolio+proposals,predictor+proposals,random", "", "1,2,5,10,25,50",
                   3, "llvm:avx512:2,opencl:cpu"),
    "live": Kind("benchmarks.search.live:problems", "benchmarks.search.live:report", "benchmarks.search.live_page:page",
                 "portfolio,random", ",".join(LIVE_STRATEGIES), "25,50,100", 3,
                 "llvm,llvm,opencl"),  # an OpenCL problem takes several times as long as an llvm one
}


def methods_of(strategies: str, peers: str) -> list[str]:
    """The methods to compare. Raises MisuseError for an unknown one, UnavailableError without Kernel Tuner."""
    ours, theirs = parts(strategies), parts(peers)
    if not ours:
        raise MisuseError("--strategies is empty; name at least one")
    for name in ours:
        strategy, _, knowledge = name.partition("+")
        strategy_factory(strategy)
        if knowledge not in KNOWLEDGE:
            raise MisuseError(f"{name!r:.40}: after + stands {' or '.join(KNOWLEDGE[1:])}")
    if theirs:
        check_installed()
        from kernel_tuner.interface import strategy_map

        unknown = [name for name in theirs if name not in strategy_map]
        if unknown:
            raise MisuseError(f"Kernel Tuner has no strategy {unknown[0]!r:.40}")
        for name in theirs:
            _ = strategy_map[name].tune  # imports what the strategy needs, before its time counts
    return [*ours, *(PREFIX + name for name in theirs)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--on", choices=KINDS, default="recorded", help="kind of problems [default: recorded]")
    parser.add_argument("--data", type=Path, help="recorded spaces, or a data set")
    parser.add_argument("--problems", default="", help="recorded, across: only these spaces, separated by commas")
    parser.add_argument("--devices", help="only these devices, separated by commas; live: llvm or opencl for the first "
                        "problem, the second one, ..., in turn")
    parser.add_argument("--count", type=positive, default=10, help="live: number of problems that are drawn")
    parser.add_argument("--strategies",
                        help="our strategies, separated by commas; the first one is compared with the others")
    parser.add_argument("--peers", help="strategies of Kernel Tuner, separated by commas; may be empty")
    parser.add_argument("--budgets", help="numbers of evaluations after which searches are compared")
    parser.add_argument("--seeds", type=positive, help="number of searches of each method on each problem")
    parser.add_argument("--jobs", type=positive, default=2, help="recorded, across: processes")
    parser.add_argument("--work", type=Path, help="folder that stores finished searches, so that a second call resumes")
    parser.add_argument("--minutes", type=minutes, default=math.inf, help="begin no search after this time")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_out(parser)
    given = parser.parse_args(arguments)
    kind = KINDS[given.on]
    for name in ("strategies", "peers", "budgets", "seeds", "devices"):
        if getattr(given, name) is None:
            setattr(given, name, getattr(kind, name))
    check_ready(given.out)
    if given.out is not None and not kind.page:
        raise MisuseError(f"--on {given.on} has no page; leave out --out")
    if math.isfinite(given.minutes) and given.work is None:
        raise MisuseError("--minutes needs --work FOLDER, which stores the finished searches")
    given.budgets = tuple(sorted(set(numbers("--budgets", given.budgets))))
    if not given.budgets:
        raise MisuseError("--budgets is empty; name at least one")
    methods = methods_of(given.strategies, given.peers)
    problems = load(kind.problems)(given, methods)
    with ExitStack() as stack:
        folder = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seqtune-search-")))
        finished = Finished(folder, Deadline(60 * given.minutes))
        outcomes = compare(problems, methods, finished)
    results, text, draw = load(kind.report)(given, outcomes)
    print(json.dumps(results, allow_nan=False) if given.json else text)
    if finished.left:
        say(f"{finished.left} searches and contests are left; run the same command again")
    elif given.out is not None:
        publish(given.out, load(kind.page), results, draw)
