"""The kernels beside PyTorch's: `python -m benchmarks.kernels_speed --out docs/ [--journal J.sqlite | --data FILE]`.

The 12 ResNet-18 layers at batch 1, fp32. Ours: the best known configuration, from a journal or from the data set (the
shipped one by default); where neither has one, from --trials random trials, which a journal keeps. PyTorch's:
`F.conv2d` in channels_last and in NCHW, on as many threads.

What a time includes. Ours: everything from operands in memory to the result in memory, in the problem's own layout
(NCHW), the zero-padding copy too; the filters were packed before, once, as for constant weights. PyTorch's: the call as
a user makes it in inference mode, input and filters already in that memory format, with what oneDNN reorders inside.
Both include their call from Python.

How: ours, channels_last and NCHW take turns in blocks, in one process. A block counts its least sample; a ratio is of
blocks that follow each other, and the median over the blocks is shown, with their interquartile range over the median.
Times are the least of all. The llvm backend, which pins the calling thread, is open in its own blocks alone, and
PyTorch's threads are made before it: they are never pinned.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.report import insert, machine, markdown, words, write_json
from seqtune.errors import FormatError, SeqtuneError
from seqtune.learn import read_dataset

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.data.journal import Journal
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.backend import Backend

SAMPLE_SECONDS = 1e-3  # a sample loops calls for so long: a call from Python is some microseconds
REST_SECONDS = 0.02  # before a block: idle threads of the other side stop spinning
ERROR = 1e-4  # of either side against the reference
RIVALS = ("channels_last", "NCHW")


@dataclass(frozen=True)
class Sampling:
    """How long to measure."""

    blocks: int = 11  # of each of the three, in turn
    samples: int = 8  # in a block


def best_known(data: Dataset, problem: Problem, device: Device) -> Configuration | None:
    """The fastest of a data set, where it is still in its kernel's space."""
    from seqtune.data.dataset import configuration
    from seqtune.kernels.space import spaces_for

    found = data.on(device.key)
    found = replace(found, rows=found.rows[found.rows["problem"] == problem.key])
    spaces = {space.kernel.name: space for space in spaces_for(problem, device)}
    versions = found.rows["kernel"].map({name: space.kernel.version for name, space in spaces.items()})
    found = replace(found, rows=found.rows[found.rows["kernel_version"] == versions])
    for row in found.best_known().itertuples(index=False):
        wanted = configuration(str(row.kernel), str(row.configuration))
        if wanted in spaces[wanted.kernel]:
            return wanted
    return None


def tuned(problem: Problem, device: Device, journal: Journal, trials: int) -> Configuration:
    """The best of some random trials. Raises SeqtuneError where nothing ran."""
    from seqtune.tuner.runner import Runner
    from seqtune.tuner.tune import Budget, tune

    with Runner(device) as runner:
        found = tune(problem, device, journal, "random", Budget(trials=trials), measurer=runner).configuration
    if found is None:
        raise SeqtuneError(f"no configuration of {problem.brief()} ran on {device.name}")
    return found


class Ours:
    """A configuration on its device. An OpenCL backend stays open; an llvm one is open in a block alone."""

    def __init__(self, problem: Problem, device: Device, configuration: Configuration) -> None:
        from seqtune.tuner.measure import prepare

        self.problem, self.device, self.configuration = problem, device, configuration
        self.operands, self.expected = prepare(problem)
        self._kept: Backend | None = None

    def close(self) -> None:
        """Free the device."""
        if self._kept is not None:
            self._kept.close()

    @contextlib.contextmanager
    def _backend(self) -> Iterator[Backend]:
        from seqtune.tuner.backend import open_backend

        if self.device.backend != "llvm":
            self._kept = self._kept or open_backend(self.device)
            yield self._kept
            return
        opened = open_backend(self.device)
        try:
            yield opened
        finally:
            opened.close()

    def block(self, samples: int) -> list[float]:
        """Seconds of a launch, several times. Raises SeqtuneError on a wrong result."""
        from seqtune.data.record import Status
        from seqtune.kernels.kernel import kernel
        from seqtune.tuner.measure import check

        with self._backend() as backend:
            executable = backend.build(self.problem, kernel(self.configuration.kernel), self.configuration)
            try:
                checked, _ = check(executable, self.operands, self.expected)
                if checked.status is not Status.CORRECT:
                    raise SeqtuneError(f"{self.configuration.brief()} on {self.device.name}: {checked.message}")
                return timed(executable.run, samples)
            finally:
                executable.close()


class Torch:
    """F.conv2d of a problem in a memory format, on as many threads as the device has."""

    def __init__(self, ours: Ours, rival: str) -> None:
        import torch

        problem = ours.problem
        form = torch.channels_last if rival == "channels_last" else torch.contiguous_format
        self.x = torch.tensor(ours.operands.x).contiguous(memory_format=form)
        self.weights = torch.tensor(ours.operands.weights).contiguous(memory_format=form)
        self.options: dict[str, Any] = {
            "stride": (problem.size("stride_h"), problem.size("stride_w")),
            "padding": (problem.size("pad_h"), problem.size("pad_w")),
            "dilation": (problem.size("dilation_h"), problem.size("dilation_w")), "groups": problem.size("groups")}
        self.threads = threads_of(ours.device)
        self.expected = ours.expected

    def block(self, samples: int) -> list[float]:
        """Seconds of a call, several times."""
        import torch

        torch.set_num_threads(self.threads)
        with torch.inference_mode():
            error = self.expected.error(self().numpy())
            if not error <= ERROR:
                raise SeqtuneError(f"F.conv2d computes something else: error {error:.1e}")
            return timed(self, samples)

    def __call__(self) -> Any:
        from torch.nn.functional import conv2d

        return conv2d(self.x, self.weights, **self.options)


def timed(run: Callable[[], Any], samples: int) -> list[float]:
    """Seconds of one launch, after a warm-up."""
    from seqtune.tuner.measure import sample

    time.sleep(REST_SECONDS)
    one, _ = sample(run, 3 * SAMPLE_SECONDS, 1)
    calls = max(1, math.ceil(SAMPLE_SECONDS / one))
    return [sample(run, SAMPLE_SECONDS, calls)[0] for _ in range(samples)]


def compare(problem: Problem, device: Device, configuration: Configuration, sampling: Sampling) -> dict[str, Any]:
    """One row: the least seconds of the three, and the ratios (above 1: ours is faster) with their spread."""
    ours = Ours(problem, device, configuration)
    rivals = {name: Torch(ours, name) for name in RIVALS}
    free = _affinity()
    mine: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in RIVALS}
    try:
        for _ in range(sampling.blocks):
            mine.append(min(ours.block(sampling.samples)))
            if _affinity() != free:
                raise SeqtuneError("the calling thread is still pinned; PyTorch would be, too")
            for name, rival in rivals.items():
                theirs[name].append(min(rival.block(sampling.samples)))
    finally:
        ours.close()
    row: dict[str, Any] = {"problem": problem.brief(), "kernel": configuration.kernel,
                           "configuration": dict(configuration.settings), "seconds": min(mine),
                           "gflops": problem.size("flop") / min(mine) / 1e9}
    for name, times in theirs.items():
        ratios = np.array(times) / np.array(mine)
        quarter, middle, three = np.quantile(ratios, (0.25, 0.5, 0.75))
        row[name] = {"seconds": min(times), "ratio": float(middle), "spread": float((three - quarter) / middle)}
    return row


def _affinity() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


def threads_of(device: Device) -> int:
    """CPU threads that a device uses; as many are PyTorch's."""
    return device.threads or device.compute_units


def geometric_mean(values: list[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def table(rows: list[dict[str, Any]], device: Device) -> str:
    """A Markdown table of one device."""
    lines = [[f"{row['layer']}: {row['problem'].removeprefix('conv2d ')}", f"{row['seconds'] * 1e6:.0f}",
              f"{row['gflops']:.0f}", *(_ratio(row[name]) for name in RIVALS)] for row in rows]
    means = [f"**{geometric_mean([row[name]['ratio'] for row in rows]):.2f}**" for name in RIVALS]
    lines.append(["geometric mean", "", "", *means])
    threads = "1 thread" if threads_of(device) == 1 else f"{threads_of(device)} threads"
    return "\n\n".join((f"`{device.name}`, {threads}; speed over PyTorch's, ± interquartile range over the median",
                        markdown(["layer", "ours, µs", "GFLOP/s", "vs channels_last", "vs NCHW"], lines)))


def _ratio(found: dict[str, float]) -> str:
    return f"{found['ratio']:.2f} ± {100 * found['spread']:.0f} %"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for kernels_speed.json")
    parser.add_argument("--devices", nargs="+", default=["llvm:0", "llvm:1", "opencl:0"],
                        help="llvm:0 is the widest vectors on all cores, llvm:1 the same on one")
    parser.add_argument("--journal", type=Path, help="take the best configurations from here, and keep trials here")
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--trials", type=int, default=300, help="random ones, where nothing is known of a layer")
    parser.add_argument("--layers", type=int, nargs="+", default=range(1, 13), metavar="1..12")
    parser.add_argument("--blocks", type=int, default=Sampling.blocks)
    parser.add_argument("--samples", type=int, default=Sampling.samples, help="in a block")
    parser.add_argument("--readme", type=Path, help="also put the summary between this page's kernels comments")
    given = parser.parse_args()
    if not set(given.layers) <= set(range(1, 13)):
        parser.error("--layers are numbers from 1 to 12")
    try:
        run(given)
    except SeqtuneError as error:
        sys.exit(f"kernels_speed: {error}")


def _sources(given: argparse.Namespace, journal: Journal) -> list[Dataset]:
    from seqtune.data.dataset import Dataset

    found = [Dataset.from_journal(journal)] if given.journal is not None else []
    try:
        found.append(read_dataset(given.data))
    except FormatError:
        if given.data is not None:
            raise
    return found


def run(given: argparse.Namespace) -> None:
    """The comparison."""
    import torch

    from seqtune.data.journal import Journal
    from seqtune.kernels.networks import network
    from seqtune.tuner.devices import find

    most = len(_affinity()) or os.cpu_count() or 1
    torch.set_num_threads(most)
    torch.ones(1 << 20).add_(1)  # makes the threads now, while nothing is pinned
    devices = [find(name) for name in given.devices]
    layers = [network("resnet18")[number - 1] for number in given.layers]
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder, Journal(given.journal or Path(folder) / "trials.sqlite") as journal:
        sources = _sources(given, journal)
        for device in devices:
            rows = found[device.name] = []
            for problem in layers:
                known = next((one for data in sources if (one := best_known(data, problem, device)) is not None), None)
                chosen = known or tuned(problem, device, journal, given.trials)
                rows.append({"layer": f"C{network('resnet18').index(problem) + 1}", "tuned_here": known is None,
                             **compare(problem, device, chosen, Sampling(given.blocks, given.samples))})
                print(f"{device.name} {problem.brief()}: {rows[-1]['seconds'] * 1e6:.0f} us, "
                      + ", ".join(f"{name} {_ratio(rows[-1][name])}" for name in RIVALS), file=sys.stderr, flush=True)
    where = machine(devices)
    where["toolchain"] += f", torch {torch.__version__}"
    given.out.mkdir(parents=True, exist_ok=True)
    means = {device: {name: geometric_mean([row[name]["ratio"] for row in rows]) for name in RIVALS}
             for device, rows in found.items()}
    write_json(given.out / "kernels_speed.json", {"machine": where, "geometric_mean": means, "devices": found})
    tables = "\n\n".join(table(found[device.name], device) for device in devices)
    print(tables)
    text = f"{summary(means, found)}\n\nMeasured on {words(where)}, on {where['date']}."
    print(f"\n{text}")
    if given.readme is not None:
        insert(given.readme, "kernels", text)


def summary(means: dict[str, dict[str, float]], found: dict[str, list[dict[str, Any]]]) -> str:
    """A line per device: geometric means of the ratios and the slowest layer against channels_last."""
    lines = []
    for device, mean in means.items():
        worst = min(found[device], key=lambda row: float(row["channels_last"]["ratio"]))
        lines.append([device, *(f"{mean[name]:.2f}" for name in RIVALS),
                      f"{worst['channels_last']['ratio']:.2f} ({worst['layer']})",
                      f"{max(row['gflops'] for row in found[device]):.0f}"])
    return markdown(["device", "vs channels_last", "vs NCHW", "worst layer, vs channels_last", "most GFLOP/s"], lines)


if __name__ == "__main__":
    main()
