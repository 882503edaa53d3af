"""Live: what one, four and eight kernels reach on fresh shapes, measured here in one contest for each shape.

Beside them stand the library's default, the first proposal of a prediction for each shape, and what was searched for
the shape itself; the fastest of all is its best speed. One kernel is the best single configuration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common.progress import say
from seqtune import dispatch
from seqtune.api.dispatching.known import Known, known_here
from seqtune.api.dispatching.measuring import Measuring, measuring_on
from seqtune.api.dispatching.proof import contest, loss, raced
from seqtune.api.inputs import as_device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import Task
from seqtune.predictor.answering import propose_many, seeds_for, slowness_for
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.run.plan import TuningOptions

from .products import PRODUCTS, SEED, Target

FRESH, COUNTS = 40, (1, 4, 8)
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "matrix_product" / "library.toml"


TARGETS: Mapping[str, Target] = {target.name: target for target in (
    Target("llvm.gemm", "gemm", "llvm:0", None, ("m=16..1024", "n=16..1024", "k=16..1024")),
    Target("llvm.direct", "conv2d", "llvm:0", None, ("n=1", "c=8..256", "h=7..56", "k=8..256", "r=1,3", "pad=0,1")),
    Target("example", "matrix_product", "opencl:0", str(EXAMPLE), ("m=16..256", "n=16..256", "k=16..256")),
    PRODUCTS["clblast"])}


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A way to choose kernels, and what it reaches on fresh shapes."""

    way: str
    kernels: int  # that ship; 0: one for each shape
    bytes: int  # of the source in C with the rule; 0: there is none
    seconds: float  # that choosing them took, after what the fewer kernels had measured
    share: float  # of the best speed, geometric mean
    within: float  # share of the shapes that are at most 10 % slower than their best


def live_rows(name: str, folder: Path) -> list[LiveRow]:
    """Dispatch and compare on a target here. What the folder's journal has is not measured again."""
    target = TARGETS[name]
    target.use()
    device, journal = as_device(target.device), folder / f"{name}.sqlite"
    shapes = target.shapes()
    costs: dict[int, tuple[int, float]] = {}
    dispatchers: dict[int, Dispatcher] = {}
    for count in COUNTS:
        began, out = time.monotonic(), folder / f"{name}-{count}"
        result = dispatch(target.operation, shapes, device, kernels=count, domain=target.domain, journal=journal,
                          out=out, fresh=0, seed=SEED, progress=say, note=say)
        assert result.dispatcher is not None
        dispatchers[count] = result.dispatcher
        costs[count] = (out / "dispatch.c").stat().st_size, time.monotonic() - began
    losses: dict[str, list[float]] = {}
    fresh = target.served().draw(FRESH, np.random.default_rng(SEED + 1), shapes)
    known = known_here(dict.fromkeys(fresh, 1.0), device, None, lambda task: np.full(len(task), np.nan), say)
    with measuring_on(device, journal, Deadline()) as measuring:
        for number, (task, predicted) in enumerate(_predicted(known).items(), 1):
            for way, value in _losses(measuring, task, dispatchers, predicted).items():
                losses.setdefault(way, []).append(value)
            say(f"{number} of {len(known.tasks)}: {task.problem.brief()}: " + ", ".join(
                f"{way} {math.exp(-values[-1]):.2f}" for way, values in losses.items()))
    kernels = {way: count for count in COUNTS for way in _ways(count)}
    return [LiveRow(way, kernels.get(way, 0), *costs.get(kernels.get(way, 0), (0, 0.0)),
                    math.exp(-float(np.mean(values))), float(np.mean(np.array(values) <= math.log(1.1))))
            for way, values in losses.items()]


def _ways(count: int) -> tuple[str, str, str]:
    """The ways to use so many kernels: the rule's first, the faster of its two in a race, the fastest of all."""
    return f"{count} kernels", f"{count} kernels, first two raced", f"{count} kernels, fastest"


def _predicted(known: Known) -> dict[Task, Configuration | None]:
    """The tasks with the first proposal of the predictor that answers; None without one."""
    proposed = propose_many([*known.answerings.values()], 1, evidence=False)
    firsts = {problem: candidates[0].configuration
              for problem, candidates in zip(known.answerings, proposed, strict=True) if candidates}
    return {each.task: firsts.get(each.problem) for each in known.tasks}


def _losses(measuring: Measuring, task: Task, dispatchers: Mapping[int, Dispatcher],
            predicted: Configuration | None) -> dict[str, float]:
    """log(time / best time) of each way on a fresh shape, from one contest."""
    members = [each for dispatcher in dispatchers.values() for each in dispatcher.members]
    times = contest(measuring, task, [*members, task.default, *([predicted] if predicted else [])],
                    TuningOptions(seed=SEED, seeds=seeds_for, slowness=slowness_for))
    picks: dict[str, Configuration | None] = {"default": task.default}
    if predicted is not None:  # some predictor knows the kernels
        picks["predicted for the shape"] = predicted
    for count, dispatcher in dispatchers.items():
        pair = dispatcher.order(task.problem)[:2]
        picks |= dict(zip(_ways(count), (
            next(iter(pair), None), raced(measuring, task, pair),
            min(dispatcher.members, key=lambda each: times.get(each, math.inf))), strict=True))
    return {way: loss(times.get(pick, math.inf), min(times.values())) for way, pick in picks.items()}
