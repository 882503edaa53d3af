"""Check that no decode is invalid: `python -m benchmarks.miopen_decodes [--decodes 1000000] [--data PATH...]`.

The program predicts configurations of every tunable MIOpen solver for random convolutions, odd sizes included, on GPUs
of every generation (and, with `--data`, for the problems in perf-dbs): greedily in batches, with a beam on the
checkpoint's scores, and with a wide beam on random scores. Each configuration is then checked without its search space:
the kernel's conditions and constraints are evaluated over columns, and for one in fifty over plain numbers, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.greedy import Greedy
from benchmarks.common.miopen_problems import draw, gpus, solved
from benchmarks.common.program import positive, run_program
from seqtune.data.labels import Labels
from seqtune.data.queries import Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.membership import Membership
from seqtune.kernels.miopen.solver import PREFIX
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.sequence.beam import Allowed, NextWord, Scores, beam_search_many
from seqtune.predictor.sequence.vocabulary import Vocabulary

DRAWN = 20_000  # convolutions that are drawn in each round, for all solvers
GREEDY = 192  # convolutions of a round that one solver gets
SEARCHED = 16  # convolutions of these that are also decoded with beams
WIDTHS = {"beam": 32, "chance": 128}
PLAIN = 50  # one configuration in PLAIN is also checked over plain numbers

Pairs = Sequence[tuple[Problem, Device]]


@dataclass
class RandomScores:
    """Scores next words at random."""

    vocabulary: Vocabulary
    generator: np.random.Generator

    def start(self, queries: Pairs, allowed: Allowed) -> tuple[None, Scores]:
        """Random scores of the allowed words."""
        return None, self.generator.normal(size=len(allowed.words)).astype(np.float32)

    def advance(self, state: None, said: Allowed, allowed: Allowed) -> tuple[None, Scores]:
        """Random scores of the allowed words."""
        return self.start((), allowed)


@dataclass
class DecodeCount:
    """Numbers of decodes of one solver, by decoding method."""

    decodes: Counter[str] = field(default_factory=Counter)
    devices: set[str] = field(default_factory=set)
    invalid: list[str] = field(default_factory=list)

    def add(self, method: str, kernel: Kernel, decoded: Sequence[tuple[Problem, Device, Configuration]]) -> None:
        """Check decoded configurations and count them."""
        self.decodes[method] += len(decoded)
        for device in dict.fromkeys(device for _, device, _ in decoded):
            device_pairs = [(problem, configuration) for problem, pair_device, configuration in decoded
                            if pair_device == device]
            self.devices.add(device.name)
            reasons = why_not(kernel, device, device_pairs)
            for number in range(sum(self.decodes.values()) % PLAIN, len(device_pairs), PLAIN):
                reasons[number] = reasons[number] or plainly(kernel, device, *device_pairs[number])
            self.invalid += [f"{kernel.name} {configuration.brief()} for {problem.brief()} on {device.name}: {reason}"
                             for (problem, configuration), reason in zip(device_pairs, reasons, strict=True)
                             if reason is not None]


def why_not(kernel: Kernel, device: Device, decoded: Sequence[tuple[Problem, Configuration]]) -> list[str | None]:
    """Check configurations over columns: the reason why each one is invalid, or None."""
    index = {problem: number for number, problem in enumerate(dict.fromkeys(problem for problem, _ in decoded))}
    problems = ProblemColumns.of(list(index)).take(np.array([index[problem] for problem, _ in decoded]))
    settings = {name: np.array([configuration[name] for _, configuration in decoded]) for name in kernel.by_name}
    return list(Membership(kernel, problems, device, settings).reasons)


def plainly(kernel: Kernel, device: Device, problem: Problem, configuration: Configuration) -> str | None:
    """Check one configuration over plain numbers: the reason why it is invalid, or None."""
    names: dict[str, Any] = {**device.names(), **problem.names(), **dict(configuration.settings)}
    for parameter in kernel.parameters:
        if names[parameter.name] not in parameter.values:
            return f"{parameter.name}={names[parameter.name]} is not one of the kernel's values"
    for name, expression in kernel.derived:
        names[name] = expression(names)
    return next((constraint.reason for constraint in (*kernel.solves, *kernel.constraints)
                 if not constraint.expression(names)), None)


def decode(words: NextWord[Any], kernel: Kernel, pairs: Pairs, searched: int, generator: np.random.Generator,
           count: DecodeCount) -> None:
    """Decode with all methods; only the first `searched` pairs with beams."""
    queries = Queries.of(pairs)
    no_labels = np.zeros((len(pairs), len(kernel.parameters)), np.int16)
    proposed = Greedy(words).predict(Labels(kernel, queries, no_labels), 1).proposed[:, 0]
    count.add("greedy", kernel, [
        (*pair, Configuration.of(kernel.name, {item.name: item.values[index] for item, index in
                                               zip(kernel.parameters, indices, strict=True)}))
        for pair, indices in zip(pairs, proposed.tolist(), strict=True) if min(indices) >= 0])
    tasks = [Task(*pair, (space,)) for pair in pairs[:searched] if len(space := SearchSpace(kernel, *pair))]
    if not tasks:
        return
    for method, scorer in (("beam", words), ("chance", RandomScores(words.vocabulary, generator))):
        beams = beam_search_many(scorer, tasks, WIDTHS[method], WIDTHS[method])
        count.add(method, kernel, [(task.problem, task.device, item.configuration)
                                for task, candidates in zip(tasks, beams, strict=True) for item in candidates])


def recorded(paths: Sequence[Path], count: int, generator: np.random.Generator) -> Iterator[Mapping[str, Pairs]]:
    """Yield problems of perf-dbs by kernel, drawn again in each round."""
    from seqtune.data.formats.miopen_import import read_files
    from seqtune.data.formats.table import find_files
    from seqtune.data.labels import read_labels

    labels = read_labels(read_files(find_files("miopen", paths))[0])
    while True:
        yield {name: kernel_labels.queries.take(generator.integers(len(kernel_labels), size=count)).pairs()
               for name, kernel_labels in labels.items()}


def count_decodes(decodes: int, paths: Sequence[Path] = (), checkpoint: str = "miopen", seed: int = 0,
                  greedy: int = GREEDY, searched: int = SEARCHED) -> dict[str, DecodeCount]:
    """Decode until all kernels together have `decodes` configurations; the counts by kernel."""
    from seqtune.predictor.labels.checkpoint import LabelCheckpoint

    loaded, generator = LabelCheckpoint.load(checkpoint), np.random.default_rng(seed)
    counts = {name: DecodeCount() for name in loaded.kernels()}
    recorded_pairs = recorded(paths, greedy, generator) if paths else None
    while sum(sum(count.decodes.values()) for count in counts.values()) < decodes:
        columns, drawn_recorded = draw(DRAWN, generator), next(recorded_pairs) if recorded_pairs is not None else {}
        for name, kernel in loaded.kernels().items():
            for pairs in (solved(kernel, columns, gpus(), greedy, generator), drawn_recorded.get(name, ())):
                solvable = [pair for pair in pairs if kernel.why_not(*pair) is None]
                if solvable:
                    decode(loaded.next_word(), kernel, solvable, searched, generator, counts[name])
    return counts


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decodes", type=positive, default=1_000_000)
    parser.add_argument("--data", type=Path, nargs="+", default=[], help="perf-dbs, or folders of them")
    parser.add_argument("--checkpoint", default="miopen")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    counts = count_decodes(given.decodes, given.data, given.checkpoint, given.seed)
    invalid = [line for count in counts.values() for line in count.invalid]
    print(json.dumps({
        "decodes": sum(sum(count.decodes.values()) for count in counts.values()), "invalid": len(invalid),
        "seconds": round(time.monotonic() - began, 1),
        "devices": sorted(set().union(*(count.devices for count in counts.values()))),
        "solvers": {name.removeprefix(PREFIX): {**count.decodes, "invalid": len(count.invalid)}
                    for name, count in counts.items()}, "examples": invalid[:10]}, indent=1))
    sys.exit(1 if invalid else 0)


if __name__ == "__main__":
    run_program("miopen_decodes", main)
