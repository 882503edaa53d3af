"""Compare the answers of two versions of the sources: `python -m benchmarks answers BEFORE [--problems N]`.

A redesign must not change an answer by accident. BEFORE is a git revision or a folder with sources. Both versions run
the same commands on this machine, one after the other, with the same measured rates of its devices: predictions of
sampled problems on every kind of device and with every shipped checkpoint, seeded searches of recorded spaces, and
exports of a journal and of checkpoints. Only the command line is used, because it stays the same when modules move.
The exit status is 1 if an answer differs; the table says how many, and by how much.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.progress import say
from benchmarks.common.report import markdown
from benchmarks.common.revisions import HERE, checkout
from seqtune.errors import MisuseError, SeqtuneError

SEED = 20
DEVICES: Mapping[str, Sequence[str]] = {  # device -> the operations that its kernels solve
    "llvm:avx512:2": ("conv2d", "gemm", "attention"), "llvm:avx512:1": ("conv2d", "gemm"),
    "llvm:avx2:2": ("conv2d", "gemm", "attention"), "llvm:sse:1": ("conv2d", "gemm"),
    "opencl:cpu": ("conv2d", "gemm"), "cuda:h100": ("conv2d", "gemm"), "cuda:rtx-3060": ("conv2d", "gemm"),
    "triton:h100": ("gemm",), "triton:mi300x": ("gemm",),
    "miopen:gfx906_60": ("conv2d",), "miopen:gfx942130": ("conv2d",)}
CHECKPOINTS: Mapping[str, Sequence[str]] = {  # checkpoint -> options of its export to C
    "default": (), "miopen": (), "clblast": ("--library", "clblast")}
LIBRARY = "clblast"  # predicts products on an OpenCL device of the table
STRATEGIES = "portfolio,autotvm,droplet,random"
SPACES = 4  # recorded spaces that are searched
JOURNAL_PROBLEM = "gemm m=96 n=80 k=64"  # its records are exported


@dataclass(frozen=True)
class Question:
    """A command whose output must be the same in both versions; `{out}` in its arguments is the file it writes."""

    name: str
    arguments: tuple[str, ...]
    file: str = ""  # what it writes; empty: its answer is what it prints


@dataclass(frozen=True)
class Difference:
    """How far two answers to one question are apart."""

    name: str
    parts: int  # problems, rows or lines of the answer
    different: int  # parts that are not equal to the last digit
    reordered: int  # those parts whose predicted configurations, or their order, differ
    greatest: float  # greatest difference of log-probabilities between equal configurations

    def row(self) -> list[str]:
        """The cells of a table row."""
        return [self.name, str(self.parts), str(self.different), str(self.reordered), f"{self.greatest:.1e}"]


def questions(folder: Path, problems: int, devices: Sequence[str]) -> Iterator[Question]:
    """Yield the questions, and write the files of problems that they name into the folder."""
    from seqtune.kernels.problem_sets.sampler import sample_problems

    each = max(1, problems // sum(len(DEVICES[device]) for device in devices))
    asked: list[tuple[str, Sequence[str], tuple[str, ...]]] = [(device, DEVICES[device], ()) for device in devices]
    asked += [(device, ("gemm",), ("--library", LIBRARY)) for device in devices if device.startswith("opencl")]
    for number, (device, operations, options) in enumerate(asked):
        sampled = [problem for operation in operations
                   for problem in sample_problems(operation, each, SEED + number)]
        listed = folder / f"problems{number}.txt"
        listed.write_text("".join(f"{problem.key}\n" for problem in sampled))
        yield Question(" ".join(("predict on", device, *options)), (
            "predict", "--problems", str(listed), "--device", device, *options, "--top", "5", "--no-evidence",
            "--jobs", "1", "--out", "{out}"), "answers.jsonl")
    yield Question("search recorded spaces", (
        "replay", "shipped", "--held-out", "--strategies", STRATEGIES, "--budgets", "0,25,50", "--repeats", "2",
        "--seed", str(SEED), "--spaces", ",".join(searched()), "--jobs", "1", "--json"))
    for checkpoint, export in CHECKPOINTS.items():
        yield Question(f"export {checkpoint} to C", (
            "export-c", "--checkpoint", checkpoint, *export, "--out", "{out}"), "predictor.c")
    journal = folder / "journal.sqlite"
    for form, file in (("parquet", "records.parquet"), ("t4", "records.json")):
        yield Question(f"export a journal to {form}", (
            "export", "--format", form, "--journal", str(journal), "--out", "{out}",
            *(("--problem", JOURNAL_PROBLEM) if form == "t4" else ())), file)


def searched() -> list[str]:
    """The names of the held-out spaces that are searched, evenly over their list."""
    from seqtune.api.evaluating import read_measurements

    names = sorted(read_measurements(None).held_out)
    return names[::max(1, len(names) // SPACES)][:SPACES]


def command(tree: Path, user: Path, arguments: Sequence[str]) -> str:
    """Run a command of one version, and return what it prints. Raises SeqtuneError if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "XDG_DATA_HOME": str(user / "data"),
                   "XDG_CACHE_HOME": str(user / "cache")}
    done = subprocess.run([sys.executable, "-m", "seqtune", *arguments], cwd=tree, env=environment,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise SeqtuneError(f"in {tree}, `seqtune {' '.join(arguments)}` failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def answer(tree: Path, user: Path, question: Question, folder: Path) -> str:
    """The answer of one version to a question, as lines. A data set is read, because its file has a date."""
    out = folder / (question.file or "printed")
    printed = command(tree, user, [part.replace("{out}", str(out)) for part in question.arguments])
    if not question.file:
        return json.dumps(json.loads(printed), indent=1)
    if out.suffix == ".parquet":
        import pandas

        return str(pandas.read_parquet(out).to_csv(index=False))
    return out.read_text()


def compare(name: str, before: str, after: str) -> Difference:
    """Compare two answers: predictions problem by problem, all others line by line."""
    old, new = before.splitlines(), after.splitlines()
    parts = max(len(old), len(new))
    different = reordered = abs(len(old) - len(new))
    greatest = 0.0
    for left, right in zip(old, new, strict=False):
        if left == right:
            continue
        different += 1
        if name.startswith("predict"):
            same_order, apart = _prediction(json.loads(left), json.loads(right))
            reordered += not same_order
            greatest = max(greatest, apart)
    return Difference(name, parts, different, reordered, greatest)


def _prediction(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[bool, float]:
    """Whether two answers propose the same configurations in one order, and how far log-probabilities are apart."""
    old, new = ({json.dumps([each["kernel"], each["configuration"]]): each["probability"]
                 for each in answer["candidates"]} for answer in (before, after))
    apart = [abs(math.log(old[both]) - math.log(new[both])) for both in old.keys() & new.keys() if old[both]]
    return list(old) == list(new), max(apart, default=0.0)


def present() -> list[str]:
    """The devices of the table that this machine can answer for; it need not have the GPUs."""
    from seqtune.errors import DeviceError
    from seqtune.tuner.backends.discovery import find

    names = []
    for name in DEVICES:
        try:
            find(name)
        except DeviceError:
            continue
        names.append(name)
    return names


def sources(before: str, folder: Path) -> Path:
    """The folder of the version before: BEFORE itself, or a checkout of that revision. Raises MisuseError."""
    if Path(before, "seqtune").is_dir():
        return Path(before).resolve()
    try:
        return checkout(before, folder / "before")
    except MisuseError:
        raise MisuseError(f"{before!r:.60} is neither a folder with sources nor a git revision") from None


def run(before: str, problems: int, devices: Sequence[str]) -> list[Difference]:
    """Ask both versions every question. Raises SeqtuneError if a command fails."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        old = sources(before, folder)
        command(old, folder, ["tune", *JOURNAL_PROBLEM.split(), "--device", "llvm:0", "--strategy", "random",
                              "--trials", "8", "--journal", str(folder / "journal.sqlite")])
        differences = []
        for number, question in enumerate(questions(folder, problems, devices)):
            answers = []
            for name, tree in (("old", old), ("new", HERE)):
                own = folder / f"{number}{name}"
                own.mkdir()
                answers.append(answer(tree, folder, question, own))
            differences.append(compare(question.name, *answers))
            say(f"{question.name}: {differences[-1].different} of {differences[-1].parts} differ")
        return differences


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("before", help="a git revision, or a folder with sources")
    parser.add_argument("--problems", type=positive, default=2000, help="number of sampled problems, over all devices")
    parser.add_argument("--devices", nargs="+", choices=list(DEVICES), help="[default: all that are known here]")
    given = parser.parse_args(arguments)
    differences = run(given.before, given.problems, given.devices or present())
    print(markdown(["question", "parts", "different", "reordered", "greatest difference of log-probabilities"],
                   [difference.row() for difference in differences]))
    if any(difference.different for difference in differences):
        raise SeqtuneError("answers differ; is each difference intended?")
