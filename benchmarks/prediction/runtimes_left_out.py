"""An OpenCL runtime that the training never saw, judged live: `python -m benchmarks runtimes_left_out --out docs`.

On each OpenCL device that is a CPU, checkpoints propose for the problems of `benchmarks runtime_speed`, and for layers
drawn from networks that no data hold. As in `benchmarks locked`, a search of --trials configurations comes first; then
the proposals of all checkpoints, the safe default and the best of the search run in one contest. A proposal counts as
slower than the default if it takes more than 4 % longer.

`--without DEVICE=FOLDER` names a checkpoint that was trained without the data of a device, such as `python -m
benchmarks.machines --leave DEVICE --work WORK` keeps in WORK. With `--evidence JOURNAL`, each checkpoint proposes a
second time, corrected by the measurements of the device in that journal (`seqtune calibrate --journal JOURNAL`).
The search is in a journal and every judged problem in a file next to it, so that --minutes can end a call and the next
one goes on. Nothing else should run at the same time.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import machine, markdown
from benchmarks.kernels.runtime_speed import PROBLEMS
from benchmarks.prediction.locked import COUNTS, JudgedFile, judge_with, until_after
from seqtune.errors import MisuseError, UnavailableError
from seqtune.kernels.problem_sets.parse import parse_problem

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import Task
    from seqtune.predictor.candidate import Candidate
    from seqtune.predictor.correction.device_evidence import DeviceEvidence
    from seqtune.predictor.model import Predictor
    from seqtune.predictor.times.model import TimesModel
    from seqtune.predictor.times.shares import Outcome

KNOWN, WITHOUT, CORRECTED = "seqtune", "without its data", ", calibrated"
NOISE = 1.04  # medians of three builds differ by 1.3 % (standard deviation), so two of them by less than 4 % in 95 %

Row = dict[str, Any]


@dataclass(frozen=True)
class WithEvidence:
    """A checkpoint whose proposals are corrected by the measurements of a device."""

    checkpoint: TimesModel
    evidence: DeviceEvidence

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Propose configurations of each task."""
        return self.checkpoint.propose(tasks, count, self.evidence.correction)


def problems_on(devices: Sequence[Device], texts: Sequence[str], drawn: int, seed: int) -> list[Problem]:
    """The problems of the texts, and `drawn` layers that all devices can search, drawn with the seed."""
    from benchmarks.search.drawn_problems import candidates, is_searchable

    layers = candidates()
    random.Random(seed).shuffle(layers)
    suitable = [layer for layer in layers if all(is_searchable(layer, device) for device in devices)]
    return list(dict.fromkeys([*(parse_problem(text) for text in texts), *suitable[:drawn]]))


def proposers_on(device: Device, folders: Mapping[str, str], evidence: Path | None) -> dict[str, Predictor]:
    """The checkpoints of a device by method, each corrected as well where there is evidence, and the safe default."""
    from seqtune.predictor.correction.device_evidence import device_evidence
    from seqtune.predictor.times.baselines import Default
    from seqtune.predictor.times.model import TimesModel

    proposers: dict[str, Predictor] = {}
    for method, folder in folders.items():
        checkpoint = TimesModel.load(folder)
        proposers[method] = checkpoint
        known = None if evidence is None else device_evidence(checkpoint.on(device), device, evidence)
        if known is not None:
            proposers[method + CORRECTED] = WithEvidence(checkpoint, known)
    return {**proposers, "default": Default()}


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """A row for each device, method and number of measured proposals, with the problems where it is slower."""
    from seqtune.predictor.times.shares import rows

    table = []
    for row in rows(list(outcomes)):
        own = [outcome.log_shares for outcome in outcomes if outcome.device == row.device]
        slower = sum(shares[row.method, row.measured] < shares["default", 0] - math.log(NOISE) for shares in own)
        table.append({**row.to_json(), "slower": slower})
    return table


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each device and method."""
    lines = []
    for device, method in dict.fromkeys((row["device"], row["method"]) for row in rows):
        own = {row["measured"]: row for row in rows if (row["device"], row["method"]) == (device, method)}
        first = own[COUNTS[0]]
        lines.append([device, method, str(first["problems"]), *(
            f"{own[count]['share']:.3f} [{own[count]['share_low']:.3f}, {own[count]['share_high']:.3f}]"
            for count in COUNTS), "-" if method == "default" else str(first["slower"]),
            "-" if first["ceiling"] is None else f"{first['ceiling']:.3f}"])
    return markdown(["device", "method", "problems", "first proposal", "best of 3", "best of 5",
                     "slower than the default", "ceiling"], lines, left=2)


def claim(rows: Sequence[Row]) -> str:
    """The sentence with the figures that matter: first proposals without data of the runtime, where that was judged."""
    methods = {row["method"] for row in rows}
    method = WITHOUT if WITHOUT in methods else KNOWN
    first = [row for row in rows if row["method"] == method and row["measured"] == COUNTS[0]]
    shares = ", ".join(f"{row['share']:.3f} [{row['share_low']:.3f}, {row['share_high']:.3f}] on {row['device']} "
                       f"({row['slower']} of {row['problems']} slower than the safe default)" for row in first)
    subject = "without data of the runtime" if method == WITHOUT else "of the checkpoint"
    return f"The first proposal {subject} reaches, of the best speed found there: {shares}."


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    methods = {row["method"] for row in rows}
    options = (" --without DEVICE=FOLDER ..." if WITHOUT in methods else "") + (
        " --evidence JOURNAL" if any(method.endswith(CORRECTED) for method in methods) else "")
    return Page(
        "runtimes_left_out", "An OpenCL runtime that the training never saw", claim(rows),
        f"python -m benchmarks runtimes_left_out --trials {results['trials']} --drawn {results['drawn']}{options} "
        "--out docs",
        table(rows), measured_on(results),
        f"`{KNOWN}`: the checkpoint {results['checkpoint']}; `{WITHOUT}`: one trained without data of the device; "
        f"`{CORRECTED.strip(', ')}`: corrected by measurements of the device. The best of a search of "
        f"{results['trials']} trials, all proposals and the default run in one contest of three "
        "builds; medians. In brackets: the 95 % interval (bootstrap of the problems). A proposal is slower than the "
        f"default if it takes more than {NOISE - 1:.0%} longer.",
        ("Of the problems of `benchmarks runtime_speed`, the plain 3x3 convolution and the depthwise one are near "
         "training problems of other devices; the drawn problems are near none.",))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--devices", nargs="+", help="OpenCL devices [default: all that are CPUs]")
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--without", nargs="+", default=[], metavar="DEVICE=FOLDER",
                        help="checkpoints that were trained without the data of a device")
    parser.add_argument("--evidence", type=Path, help="journal with measurements of the devices")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--drawn", type=int, default=10, help="further problems, drawn at random")
    parser.add_argument("--trials", type=positive, default=150, help="configurations that the search measures")
    parser.add_argument("--minutes", type=positive, help="end this call after so many minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="folder of journal and judged problems [default: the user's cache]")
    given = parser.parse_args(arguments)
    run(given)


def folders_of(given: argparse.Namespace, devices: Sequence[Device]) -> dict[str, dict[str, str]]:
    """The checkpoints of each device: device -> method -> name or folder. Raises MisuseError."""
    folders = {device.name: {KNOWN: str(given.checkpoint)} for device in devices}
    for text in given.without:
        device, _, folder = text.partition("=")
        if device not in folders or not folder:
            raise MisuseError(f"--without {text!r:.60}; write DEVICE=FOLDER with one of {', '.join(folders)}")
        folders[device][WITHOUT] = folder
    return folders


def devices_of(names: Sequence[str] | None) -> list[Device]:
    """The OpenCL devices with these names, or all that are CPUs. Raises DeviceError, UnavailableError."""
    from seqtune.tuner.backends import discovery

    if names is not None:
        return [discovery.find(name) for name in names]
    devices = [device for device in discovery.devices() if device.backend == "opencl" and device.threads]
    if not devices:
        reason = discovery.why_unavailable().get("opencl", "none is a CPU")
        raise UnavailableError(f"no OpenCL device is here: {reason}")
    return devices


def run(given: argparse.Namespace) -> None:
    """Judge all problems on all devices, and write the results when all are judged."""
    import platformdirs

    from seqtune.data.journal import Journal
    from seqtune.predictor.checkpoint_folder import digests
    from seqtune.predictor.checkpoint_folder import find as find_folder
    from seqtune.predictor.times.evaluation import EvaluateOptions

    check_ready(given.out)
    devices = devices_of(given.devices)
    folders = folders_of(given, devices)
    work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "runtimes_left_out"
    work.mkdir(parents=True, exist_ok=True)
    problems = problems_on(devices, given.problems, given.drawn, given.seed)
    until, left = until_after(given.minutes), 0
    outcomes: list[Outcome] = []
    with Journal(work / "journal.sqlite") as journal:
        for device in devices:
            proposers = proposers_on(device, folders[device.name], given.evidence)
            weights = {method: digests(find_folder(folder)) for method, folder in folders[device.name].items()}
            counts = {method: proposer.evidence.measurements for method, proposer in proposers.items()
                      if isinstance(proposer, WithEvidence)}
            judged = JudgedFile(work / "judged.jsonl", {
                "device": device.key, "machine": device.fingerprint, "toolchain": device.toolchain,
                "weights": weights, "measurements": counts, "trials": given.trials})
            left += judge_with(proposers, list(proposers), device, problems, judged, journal, given.trials, until,
                               EvaluateOptions(sample=0))  # the search has measured enough
            outcomes += [judged.outcomes[problem.key] for problem in problems if problem.key in judged.outcomes]
    if outcomes:
        print(table(rows_of(outcomes)))
    if left or not outcomes:
        print(f"{left} problems remain; run the program again")
        return
    results = {"machine": machine(devices), "checkpoint": str(given.checkpoint), "trials": given.trials,
               "drawn": given.drawn, "rows": rows_of(outcomes)}
    publish(given.out, page, results)
