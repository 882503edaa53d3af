"""How long MIOpen's parameters take: `OPENBLAS_NUM_THREADS=1 python -m benchmarks.miopen_latency [--json]`.

Predictions of ConvAsm1x1U (eight words) for random convolutions, each asked once, in a running process: by the
transformer alone and with the trees beside it, with a beam of 5, and greedily in one batch. The search spaces are built
before, and timed apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.miopen_problems import draw, gpus, solved
from benchmarks.program import positive
from benchmarks.report import markdown
from seqtune.data.labels import Labels
from seqtune.data.questions import Questions
from seqtune.errors import SeqtuneError
from seqtune.kernels.miopen import PREFIX
from seqtune.kernels.space import SearchSpace
from seqtune.labels import load_labels
from seqtune.predictor.beam import NextWord, beam_search
from seqtune.predictor.labels.answers import Greedy
from seqtune.predictor.labels.arrays import ArrayTranslator

SOLVER = "ConvAsm1x1U"
BEAM = 5
WARM_UP = 5  # problems
BATCH = 2000  # problems answered greedily at once
BATCHES = 5
SEED = 7


def milliseconds(answer: Callable[[Any], object], asked: Sequence[Any]) -> dict[str, float]:
    """Median, tenth and ninetieth percentile, each asked once."""
    found = []
    for one in asked:
        start = time.perf_counter()
        answer(one)
        found.append((time.perf_counter() - start) * 1e3)
    found = sorted(found[WARM_UP:])
    return {"problems": len(found), "median_ms": statistics.median(found), "p10_ms": found[len(found) // 10],
            "p90_ms": found[len(found) * 9 // 10]}


def measure(checkpoint: str, problems: int) -> dict[str, Any]:
    """Every figure, by what answers."""
    loaded, generator = load_labels(checkpoint), np.random.default_rng(SEED)
    kernel = loaded.kernels()[PREFIX + SOLVER]
    pairs = []
    while len(pairs) < max(problems + WARM_UP, BATCH):
        pairs += solved(kernel, draw(20_000, generator), gpus(), BATCH, generator)
    spaces: list[SearchSpace] = []
    found: dict[str, Any] = {"solver": SOLVER, "beam": BEAM, "openblas_threads": os.environ.get("OPENBLAS_NUM_THREADS")}
    found["space"] = milliseconds(lambda pair: spaces.append(SearchSpace(kernel, *pair)), pairs[:problems + WARM_UP])
    batch = Labels(kernel, Questions.of(pairs[:BATCH]), np.zeros((BATCH, len(kernel.parameters)), np.int16))
    words: dict[str, NextWord[Any]] = {
        "transformer": ArrayTranslator(loaded.size, loaded.state, loaded.vocabulary), "hybrid": loaded.next_word()}
    for name, one in words.items():
        greedy = Greedy(one)
        rates = []
        for _ in range(BATCHES):
            start = time.perf_counter()
            greedy.answer(batch, 1)
            rates.append(BATCH / (time.perf_counter() - start))
        found[name] = {"beam": milliseconds(lambda space, one=one: beam_search(one, [space], BEAM, BEAM), spaces),
                       "greedy_per_second": {"batch": BATCH, "median": statistics.median(rates), "least": min(rates),
                                             "most": max(rates)}}
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", default="miopen")
    parser.add_argument("--problems", type=positive, default=200)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    given = parser.parse_args()
    try:
        found = measure(given.checkpoint, given.problems)
    except SeqtuneError as error:
        sys.exit(f"miopen_latency: {error}")
    if given.json:
        print(json.dumps(found, allow_nan=False))
        return
    rows = [["the search space", *_told(found["space"]), "", ""]]
    rows += [[name, *_told(found[name]["beam"]), f"{found[name]['greedy_per_second']['median']:.0f}",
              f"{found[name]['greedy_per_second']['least']:.0f} to {found[name]['greedy_per_second']['most']:.0f}"]
             for name in ("transformer", "hybrid")]
    print(markdown([f"{SOLVER}, beam {BEAM}", "median, ms", "p10 to p90", f"greedy, {BATCH} at once: problems/s",
                    "spread"], rows))


def _told(times: dict[str, float]) -> list[str]:
    return [f"{times['median_ms']:.2f}", f"{times['p10_ms']:.2f} to {times['p90_ms']:.2f}"]


if __name__ == "__main__":
    main()
