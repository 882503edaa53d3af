"""Whether a decode is ever invalid: `python -m benchmarks.miopen_decodes [--decodes 1000000] [--data PATH...]`.

Every tunable solver of MIOpen's is asked for configurations of random convolutions, odd sizes included, on GPUs of
every generation (and, with `--data`, of the problems in perf-dbs): greedily in batches, by a beam of what the
checkpoint says, and by a wide beam of what chance says. Each one is then checked without its search space: the kernel's
conditions and constraints are evaluated on it, over columns, and for one in fifty over plain numbers, too.
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
from seqtune.data.queries import Questions
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.membership import Membership
from seqtune.kernels.miopen.solver import PREFIX
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.sequence.beam import Allowed, NextWord, Scores, beam_search_many
from seqtune.predictor.sequence.vocabulary import Vocabulary

DRAWN = 20_000  # convolutions of a round, for all solvers
GREEDY = 192  # of these, for one solver
SEARCHED = 16  # of these, with beams
WIDTHS = {"beam": 32, "chance": 128}
PLAIN = 50  # one in so many is also checked over plain numbers

Pairs = Sequence[tuple[Problem, Device]]


@dataclass
class Chance:
    """Scores next words by chance."""

    vocabulary: Vocabulary
    generator: np.random.Generator

    def start(self, questions: Pairs, allowed: Allowed) -> tuple[None, Scores]:
        """Anything."""
        return None, self.generator.normal(size=len(allowed.words)).astype(np.float32)

    def advance(self, state: None, said: Allowed, allowed: Allowed) -> tuple[None, Scores]:
        """Anything."""
        return self.start((), allowed)


@dataclass
class Count:
    """Decodes of one solver, by what made them."""

    decodes: Counter[str] = field(default_factory=Counter)
    devices: set[str] = field(default_factory=set)
    invalid: list[str] = field(default_factory=list)

    def add(self, way: str, kernel: Kernel, decoded: Sequence[tuple[Problem, Device, Configuration]]) -> None:
        """Checks and counts."""
        self.decodes[way] += len(decoded)
        for device in dict.fromkeys(device for _, device, _ in decoded):
            mine = [(problem, one) for problem, place, one in decoded if place == device]
            self.devices.add(device.name)
            reasons = why_not(kernel, device, mine)
            for number in range(sum(self.decodes.values()) % PLAIN, len(mine), PLAIN):
                reasons[number] = reasons[number] or plainly(kernel, device, *mine[number])
            self.invalid += [f"{kernel.name} {one.brief()} for {problem.brief()} on {device.name}: {reason}"
                             for (problem, one), reason in zip(mine, reasons, strict=True) if reason is not None]


def why_not(kernel: Kernel, device: Device, decoded: Sequence[tuple[Problem, Configuration]]) -> list[str | None]:
    """The reason against each, or None, by the kernel's conditions over columns."""
    place = {problem: number for number, problem in enumerate(dict.fromkeys(problem for problem, _ in decoded))}
    problems = ProblemColumns.of(list(place)).take(np.array([place[problem] for problem, _ in decoded]))
    settings = {name: np.array([one[name] for _, one in decoded]) for name in kernel.by_name}
    return list(Membership(kernel, problems, device, settings).reasons)


def plainly(kernel: Kernel, device: Device, problem: Problem, one: Configuration) -> str | None:
    """The same over plain numbers."""
    names: dict[str, Any] = {**device.names(), **problem.names(), **dict(one.settings)}
    for parameter in kernel.parameters:
        if names[parameter.name] not in parameter.values:
            return f"{parameter.name} has another value than the kernel knows"
    for name, expression in kernel.derived:
        names[name] = expression(names)
    return next((constraint.reason for constraint in (*kernel.solves, *kernel.constraints)
                 if not constraint.expression(names)), None)


def decode(words: NextWord[Any], kernel: Kernel, pairs: Pairs, searched: int, generator: np.random.Generator,
           count: Count) -> None:
    """Decodes in all ways; only the first `searched` with beams."""
    questions = Questions.of(pairs)
    nothing = np.zeros((len(pairs), len(kernel.parameters)), np.int16)
    proposed = Greedy(words).answer(Labels(kernel, questions, nothing), 1).proposed[:, 0]
    count.add("greedy", kernel, [
        (*pair, Configuration.of(kernel.name, {one.name: one.values[place] for one, place in
                                               zip(kernel.parameters, places, strict=True)}))
        for pair, places in zip(pairs, proposed.tolist(), strict=True) if min(places) >= 0])
    tasks = [Task(*pair, (space,)) for pair in pairs[:searched] if len(space := SearchSpace(kernel, *pair))]
    if not tasks:
        return
    for way, scorer in (("beam", words), ("chance", Chance(words.vocabulary, generator))):
        found = beam_search_many(scorer, tasks, WIDTHS[way], WIDTHS[way])
        count.add(way, kernel, [(task.problem, task.device, one.configuration)
                                for task, candidates in zip(tasks, found, strict=True) for one in candidates])


def recorded(paths: Sequence[Path], count: int, generator: np.random.Generator) -> Iterator[Mapping[str, Pairs]]:
    """Questions of perf-dbs by kernel, others every time."""
    from seqtune.data.formats.miopen_import import read_files
    from seqtune.data.formats.table import find_files
    from seqtune.data.labels import read_labels

    labels = read_labels(read_files(find_files("miopen", paths))[0])
    while True:
        yield {name: one.questions.take(generator.integers(len(one), size=count)).pairs()
               for name, one in labels.items()}


def count_decodes(decodes: int, paths: Sequence[Path] = (), checkpoint: str = "miopen", seed: int = 0,
                  greedy: int = GREEDY, searched: int = SEARCHED) -> dict[str, Count]:
    """By kernel, at least so many together."""
    from seqtune.predictor.labels.checkpoint import LabelCheckpoint

    loaded, generator = LabelCheckpoint.load(checkpoint), np.random.default_rng(seed)
    counts = {name: Count() for name in loaded.kernels()}
    real = recorded(paths, greedy, generator) if paths else None
    while sum(sum(count.decodes.values()) for count in counts.values()) < decodes:
        columns, known = draw(DRAWN, generator), next(real) if real is not None else {}
        for name, kernel in loaded.kernels().items():
            for pairs in (solved(kernel, columns, gpus(), greedy, generator), known.get(name, ())):
                asked = [pair for pair in pairs if kernel.why_not(*pair) is None]
                if asked:
                    decode(loaded.next_word(), kernel, asked, searched, generator, counts[name])
    return counts


def main() -> None:
    """The command."""
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
