"""Compare exported C predictors with Python: `python -m benchmarks c_predictor [--out docs] --state FILE [...]`.

Each library's predictor is exported, compiled with `cc -std=c99 -O2`, and asked for five configurations of random
problems on random devices; the same part of the checkpoint answers in Python. Every block of problems has its own seed
and becomes a line of the state file, so that an interrupted run goes on where it stopped, and several processes share
the work (`--part 1/2`). The last process to end writes the page.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.common.compiled_predictor import CompiledPredictor, compile_shared
from benchmarks.common.miopen_problems import draw, gpus
from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import markdown, processor
from seqtune.data.shipped_machines import shipped_devices
from seqtune.errors import FormatError, KernelError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import Task
from seqtune.predictor.c_source.c_file import CFile, labels_file, times_file
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.labels.model import LabelModel
from seqtune.predictor.times.checkpoint_parts import parts_of
from seqtune.predictor.times.model import TimesModel
from seqtune.tuner.cost_models.machine_ratios import jittered

LIBRARIES = ("llvm", "opencl", "miopen")
BLOCK = 250  # problems of one seed
PRODUCTS = 3  # of each such number of problems of our own libraries, one is a matrix product
FIVE = 5
WORDS = 8  # of the sentences that are timed
TIMED = 200

Query = tuple[Problem, Device]
Answers = Callable[[Task], Sequence[Candidate]]


class Contestants:
    """A library's predictor in C and in Python."""

    def __init__(self, library: str, folder: Path) -> None:
        self.library = library
        self.task: Callable[[Problem, Device], Task] = Task.of
        if library == "miopen":
            loaded = LabelModel.load("miopen")
            alone = replace(loaded, chains={})
            self.written: CFile = labels_file(loaded)
            self.task = loaded.task
            self.python: Answers = lambda task: alone.propose([task], FIVE)[0]
            self.devices = gpus()
        else:
            checkpoint = TimesModel.load("default")
            part = parts_of(checkpoint)["transformer"]
            self.written = times_file(checkpoint, [library])
            self.python = lambda task: part.propose([task], FIVE)[0]
            self.devices = [device for device in shipped_devices() if device.backend == library]
        source = folder / f"{library}.c"
        source.write_text(self.written.source)
        self.digest = hashlib.sha256(self.written.source.encode()).hexdigest()[:16]  # of the code and the weights
        self.compiled = CompiledPredictor(compile_shared(source), self.written)

    def queries(self, block: int) -> list[Query]:
        """Random problems on random devices, the same for the same block; rates of CPUs differ, too."""
        generator = np.random.default_rng([LIBRARIES.index(self.library), block])
        if self.library == "miopen":
            problems = [problem for _, problem in draw(2 * BLOCK, generator).problems()][:BLOCK]
        else:
            seed = int(generator.integers(2**31))
            problems = [*sample_problems("conv2d", BLOCK - BLOCK // PRODUCTS, seed),
                        *sample_problems("gemm", BLOCK // PRODUCTS, seed)]
        devices = [self.devices[index] for index in generator.integers(len(self.devices), size=len(problems))]
        if self.library != "miopen":
            devices = [jittered(device, generator) for device in devices]
        return list(zip(problems, devices, strict=True))

    def compare(self, block: int) -> dict[str, int]:
        """Count the problems of a block, and those whose first or five answers differ."""
        counts = {"problems": 0, "first": 0, "five": 0, "refused": 0}
        for problem, device in self.queries(block):
            answers = self.compiled.propose(problem, device, FIVE)
            try:
                task = self.task(problem, device)
            except KernelError:
                counts["refused"] += 1  # both must refuse it
                counts["five"] += bool(answers)
                counts["first"] += bool(answers)
                continue
            expected = [candidate.configuration for candidate in self.python(task)]
            counts["problems"] += 1
            counts["five"] += answers != expected
            counts["first"] += answers[:1] != expected[:1]
        return counts

    def seconds(self) -> list[float]:
        """The times of predictions of one configuration whose sentences have WORDS words."""
        times: list[float] = []
        for block in range(1000, 1100):
            for problem, device in self.queries(block):
                answers = self.compiled.propose(problem, device, 1)
                if answers and len(answers[0].settings) == WORDS - 1:
                    structs = self.compiled.problem(problem), self.compiled.device(device)
                    start = time.perf_counter()
                    self.compiled.predict(*structs, 1)
                    times.append(time.perf_counter() - start)
                if len(times) >= TIMED:
                    return times
        return times


def blocks(problems: int, part: int, parts: int) -> Iterator[int]:
    """The blocks of one of several processes."""
    return iter(range(part - 1, -(-problems // BLOCK), parts))


def read_state(path: Path, source: str) -> dict[tuple[str, int], dict[str, int]]:
    """The counts of blocks that are done by an exported file, given by its digest. Raises FormatError."""
    if not path.exists():
        return {}
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        return {(line["library"], line["block"]): line["counts"] for line in lines if line["source"] == source}
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is no state of this program ({error!r:.80})") from None


def summary(done: Mapping[tuple[str, int], Mapping[str, int]], library: str) -> dict[str, int]:
    """The counts of a library over all blocks."""
    rows = [counts for (name, _), counts in done.items() if name == library]
    return {name: sum(row[name] for row in rows) for name in ("problems", "first", "five", "refused")}


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = [[row["library"], f"{row['problems']:,}", str(row["first"]), str(row["five"]),
             f"{row['bytes'] / 1e6:.2f}", f"{row['median_ms']:.2f}" if row["median_ms"] is not None else "-",
             f"{row['p90_ms']:.2f}" if row["p90_ms"] is not None else "-"] for row in results["rows"]]
    table = markdown(["library", "problems", "another first", "another order of five", "source, MB",
                      f"median of {WORDS} words, ms", "90 %, ms"], rows)
    total = sum(row["problems"] for row in results["rows"])
    first, five = (sum(row[name] for row in results["rows"]) for name in ("first", "five"))
    return Page(
        "c_predictor", "Predictors in C",
        f"Exported C predictors give the same first configuration as Python for {total - first:,} of {total:,} random "
        f"problems, and the same order of five for {total - five:,}.",
        "python -m benchmarks c_predictor --state state.jsonl --problems 100000 --time --out docs", table,
        measured_on(results),
        f"Times are of one configuration on one thread, for {TIMED} problems whose first configuration is a sentence "
        f"of {WORDS} words, compiled with -O2; `-`: not timed.",
        ("Both sides compute in 32 bits, in another order; weights have 19.5 bits in C. Where two configurations are "
         "almost equally probable, they may change places. Problems that both sides refuse are not counted.",
         "The C predictors contain the translator and its judge, or the label translator. Boosted trees, which the "
         "shipped checkpoints also ask, are left out on both sides.",
         "A timed prediction of `default` for llvm takes 41 million multiply-adds: the source has 50 positions, and "
         "that of opencl 32; the beam has 16 hypotheses. A core of this processor does 58 thousand million in a "
         "second, so 0.7 ms are the least for llvm in 32 bits."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--state", type=Path, required=True, help="file of the blocks that are done")
    parser.add_argument("--problems", type=positive, default=20_000, help="of each library")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--part", default="1/1", help="the share of this process, such as 1/2; other than 1/1: no page")
    parser.add_argument("--time", action="store_true", help="time predictions, too")
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    part, _, parts = given.part.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise MisuseError(f"--part {given.part!r:.20} is not like 1/2")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for library in given.libraries:
            contestants = Contestants(library, Path(folder))
            _run(contestants, given.state, list(blocks(given.problems, int(part), int(parts))))
            times = contestants.seconds() if given.time else []
            rows.append({"library": library, **summary(read_state(given.state, contestants.digest), library),
                         "bytes": len(contestants.written.source), **_quantiles(times)})
    if given.part == "1/1":
        publish(given.out, page, {"machine": processor(), "rows": rows})
        print(page({"machine": processor(), "rows": rows}).tables)


def _run(contestants: Contestants, state: Path, wanted: Sequence[int]) -> None:
    done = read_state(state, contestants.digest)
    for block in wanted:
        if (contestants.library, block) not in done:
            line = {"library": contestants.library, "source": contestants.digest, "block": block,
                    "counts": contestants.compare(block)}
            with state.open("a") as stream:
                stream.write(json.dumps(line) + "\n")


def _quantiles(times: Sequence[float]) -> dict[str, float | None]:
    if len(times) < 2:
        return {"median_ms": None, "p90_ms": None}
    return {"median_ms": 1e3 * statistics.median(times), "p90_ms": 1e3 * statistics.quantiles(times, n=10)[-1]}
