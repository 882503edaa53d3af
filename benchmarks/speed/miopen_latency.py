"""Time the prediction of MIOpen's parameters: `OPENBLAS_NUM_THREADS=1 python -m benchmarks miopen_latency [--json]`.

The program predicts the eight parameters of ConvAsm1x1U for random convolutions, once each, in a running process: by
the transformer alone and by transformer and trees together, with a beam of 5 and greedily in one batch. The search
spaces are built before and timed separately. Processor time is reported in addition to elapsed time, which is longer if
other processes share the core.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common.greedy import Greedy
from benchmarks.common.miopen_problems import draw, gpus, solved
from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import markdown, processor
from seqtune.data.labels import Labels
from seqtune.data.queries import Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.miopen.solver import PREFIX
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.labels.model import LabelModel
from seqtune.predictor.labels.numpy_translator import ArrayTranslator
from seqtune.predictor.sequence.beam import NextWord, beam_search

SOLVER = "ConvAsm1x1U"
BEAM = 5
WARM_UP = 5  # problems that are not counted
BATCH = 2000  # problems answered greedily at once
BATCHES = 5
SEED = 7


def milliseconds(answer: Callable[[Any], object], queries: Sequence[Any]) -> dict[str, float]:
    """The median, 10th and 90th percentile of an answer's elapsed time and processor time, in milliseconds."""
    times, processor = [], []
    for query in queries:
        start, processor_start = time.perf_counter(), time.process_time()
        answer(query)
        processor.append((time.process_time() - processor_start) * 1e3)
        times.append((time.perf_counter() - start) * 1e3)
    summary: dict[str, float] = {"problems": len(times) - WARM_UP}
    for name, values in (("", sorted(times[WARM_UP:])), ("processor_", sorted(processor[WARM_UP:]))):
        summary |= {f"{name}median_ms": statistics.median(values), f"{name}p10_ms": values[len(values) // 10],
                  f"{name}p90_ms": values[len(values) * 9 // 10]}
    return summary


def measure(checkpoint: str, problems: int) -> dict[str, Any]:
    """Measure all figures of the page."""
    loaded, generator = LabelModel.load(checkpoint), np.random.default_rng(SEED)
    kernel = loaded.kernels()[PREFIX + SOLVER]
    pairs: list[tuple[Problem, Device]] = []
    while len(pairs) < max(problems + WARM_UP, BATCH):
        pairs += solved(kernel, draw(20_000, generator), gpus(), BATCH, generator)
    spaces: list[SearchSpace] = []
    results: dict[str, Any] = {"solver": SOLVER, "beam": BEAM,
                               "openblas_threads": os.environ.get("OPENBLAS_NUM_THREADS")}
    results["space"] = milliseconds(lambda pair: spaces.append(SearchSpace(kernel, *pair)), pairs[:problems + WARM_UP])
    batch = Labels(kernel, Queries.of(pairs[:BATCH]), np.zeros((BATCH, len(kernel.parameters)), np.int16))
    words: dict[str, NextWord[Any]] = {
        "transformer": ArrayTranslator(loaded.size, loaded.state, loaded.vocabulary), "hybrid": loaded.next_word()}
    for name, next_word in words.items():
        greedy = Greedy(next_word)
        rates, processor = [], []
        for _ in range(BATCHES):
            start, processor_start = time.perf_counter(), time.process_time()
            greedy.predict(batch, 1)
            processor.append(BATCH / (time.process_time() - processor_start))
            rates.append(BATCH / (time.perf_counter() - start))
        results[name] = {"beam": milliseconds(partial(_searched, next_word), spaces),
                       "greedy_per_second": {"batch": BATCH, "median": statistics.median(rates), "least": min(rates),
                                             "most": max(rates), "processor_median": statistics.median(processor)}}
    return results


def _searched(words: NextWord[Any], space: SearchSpace) -> list[Candidate]:
    return beam_search(words, Task(space.problem, space.device, (space,)), BEAM, BEAM)


def table(results: Results) -> str:
    """Make the table: a line for building the space and one for each model."""
    rows = [["the search space", *_cells(results["space"]), "", "", ""]]
    for name in ("transformer", "hybrid"):
        rate = results[name]["greedy_per_second"]
        rows.append([name, *_cells(results[name]["beam"]), f"{rate['median']:.0f}",
                     f"{rate['least']:.0f} to {rate['most']:.0f}", f"{rate['processor_median']:.0f}"])
    return markdown([f"{results['solver']}, beam {results['beam']}", "median, ms", "p10 to p90", "processor, ms",
                     f"greedy, {BATCH} at once: problems/s", "least to most", "per processor second"], rows)


def page(results: Results) -> Page:
    """Make the page of the results."""
    both, alone = (results[name]["beam"]["median_ms"] for name in ("hybrid", "transformer"))
    return Page(
        "miopen_latency", "How long MIOpen's parameters take",
        f"One prediction of {results['solver']} (eight parameters) takes {both:.1f} ms, and {alone:.1f} ms with the "
        "transformer alone, in a running process on one thread; predicting needs no PyTorch.",
        "OPENBLAS_NUM_THREADS=1 taskset -c 1 python -m benchmarks miopen_latency --out docs", table(results),
        measured_on(results),
        "`hybrid` is the shipped checkpoint: transformer and boosted trees. The search space of a problem is built "
        "once and timed separately. The last three columns are rates of greedy predictions in one batch, by elapsed "
        "time and by processor time; elapsed time is longer if other processes share the core.",
        ("The problems are random convolutions, each asked once.",))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--checkpoint", default="miopen")
    parser.add_argument("--problems", type=positive, default=200)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    results = {"machine": processor(), **measure(given.checkpoint, given.problems)}
    print(json.dumps(results, allow_nan=False) if given.json else table(results))
    publish(given.out, page, results)


def _cells(times: dict[str, float]) -> list[str]:
    return [f"{times['median_ms']:.2f}", f"{times['p10_ms']:.2f} to {times['p90_ms']:.2f}",
            f"{times['processor_median_ms']:.2f}"]
