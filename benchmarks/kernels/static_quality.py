"""Count the instructions of the inner loops of proposed kernels: `python -m benchmarks static_quality --out docs`.

For each of PROBLEMS, a family's first proposal on each device is compiled to assembly, without running it, so a device
need not be present. One pass of the loop with the most multiply-adds is counted. A tile of P pixels (rows, or tiles of
a Winograd convolution) by V vectors ideally loads P + V registers for P V multiply-adds and does nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.common.page import INTERNALS, Page, Results, check_ready, evaluated, publish
from benchmarks.common.program import parser_of
from benchmarks.common.progress import say
from benchmarks.common.report import Row, markdown, today
from benchmarks.kernels.inner_loops import InnerLoop, main_loop
from seqtune.errors import MisuseError

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration

DEVICES = ("llvm:neoverse-n1", "llvm:avx512:1")  # 128 bits and 512, both with 32 registers
BAR = 0.9  # share of the ideal that a loop should reach
# family -> problems: layers of ResNets, of VGG-16, of GoogLeNet, and products of BERT, GPT-2 and LSTMs
PROBLEMS = {
    "llvm.direct": (
        "conv2d c=3 h=224 w=224 k=64 r=7 s=7 pad=3 stride=2", "conv2d c=64 h=56 w=56 k=64 r=1 s=1 layout=NHWC",
        "conv2d c=64 h=56 w=56 k=256 r=1 s=1", "conv2d c=256 h=56 w=56 k=512 r=1 s=1 stride=2 layout=NHWC",
        "conv2d c=128 h=28 w=28 k=512 r=1 s=1 layout=NHWC", "conv2d c=1024 h=14 w=14 k=256 r=1 s=1",
        "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", "conv2d c=128 h=56 w=56 k=128 r=3 s=3 pad=1 stride=2 layout=NHWC",
        "conv2d c=16 h=28 w=28 k=32 r=5 s=5 pad=2", "conv2d c=512 h=7 w=7 k=512 r=3 s=3 pad=1 layout=NHWC"),
    "llvm.gemm": (
        "gemm m=128 n=768 k=768 trans_b=yes", "gemm m=128 n=3072 k=768 trans_b=yes",
        "gemm m=128 n=768 k=3072 trans_b=yes", "gemm m=384 n=768 k=768 trans_b=yes",
        "gemm m=512 n=2304 k=768", "gemm m=32 n=768 k=3072", "gemm m=64 n=2048 k=512 trans_b=yes",
        "gemm m=196 n=256 k=1024 trans_b=yes", "gemm m=3136 n=256 k=64 trans_b=yes", "gemm m=1024 n=1024 k=1024"),
    "llvm.winograd": (
        "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1 layout=NHWC",
        "conv2d c=128 h=28 w=28 k=128 r=3 s=3 pad=1", "conv2d c=128 h=28 w=28 k=128 r=3 s=3 pad=1 layout=NHWC",
        "conv2d c=256 h=14 w=14 k=256 r=3 s=3 pad=1", "conv2d c=256 h=14 w=14 k=256 r=3 s=3 pad=1 layout=NHWC",
        "conv2d c=512 h=7 w=7 k=512 r=3 s=3 pad=1", "conv2d c=64 h=224 w=224 k=64 r=3 s=3 pad=1",
        "conv2d c=256 h=56 w=56 k=256 r=3 s=3 pad=1", "conv2d c=96 h=28 w=28 k=128 r=3 s=3 pad=1"),
}
# family -> its parameters whose product is the number of pixels of a tile, and that of its vectors
_TILES = {"llvm.direct": (("tile_w", "tile_h"), "vectors_k"), "llvm.gemm": (("tile_m",), "vectors_n"),
          "llvm.winograd": (("group",), "vectors_k")}
# family -> the derived quantities whose product is proportional to the multiply-adds of a problem, with those of
# overlapping tiles
_WORK = {"llvm.direct": ("w_waste", "h_waste", "k_waste"), "llvm.gemm": ("m_waste", "n_waste"),
         "llvm.winograd": ("multiplied",)}
TIMED_PROBLEMS, TIMED_CONFIGURATIONS = 3, 40  # of each family, whose recorded times are compared with the counts


@dataclass(frozen=True, slots=True)
class TileShape:
    """The pixels and vectors of a tile."""

    pixels: int
    vectors: int

    @classmethod
    def of(cls, configuration: Configuration) -> TileShape:
        """The tile of a configuration of one of the families."""
        pixels, vectors = _TILES[configuration.kernel]
        return cls(math.prod(configuration.number(name) for name in pixels), configuration.number(vectors))

    def shares(self, loop: InnerLoop) -> tuple[float, float]:
        """A loop's multiply-adds for each load and for each instruction, relative to the ideal ones."""
        fused, loads = self.pixels * self.vectors, self.pixels + self.vectors
        return loop.fused_per_load * loads / fused, loop.fused_per_instruction * (fused + loads) / fused


def loop_of(configuration: Configuration, words: str, device: Device) -> InnerLoop | None:
    """The main loop of a configuration of a problem; None where its loops are unrolled whole."""
    from seqtune.kernels.llvm.launch import llvm_implementation
    from seqtune.kernels.problem_sets.parse import parse_problem
    from seqtune.kernels.registry import kernel
    from seqtune.tuner.backends.llvm.offline_compiler import LLVMOfflineCompiler

    source = llvm_implementation(kernel(configuration.kernel)).source(parse_problem(words), device, configuration)
    own = replace(source, options=())  # without the loops around it and the transforms, which are modules of their own
    return main_loop(LLVMOfflineCompiler(device).assembly(own))


def proposal(family: str, words: str, device: Device) -> Configuration:
    """The shipped predictor's first proposal of one family. Raises KernelError."""
    from seqtune.kernels.problem_sets.parse import parse_problem
    from seqtune.kernels.registry import kernel
    from seqtune.kernels.task import Task
    from seqtune.predictor.answering import Answering

    return next(iter(Answering.of(Task.of(parse_problem(words), device, [kernel(family)])).propose(1)))


def counted(device: Device) -> list[Row]:
    """Make a row for each problem."""
    rows = []
    for family, problems in PROBLEMS.items():
        for words in problems:
            configuration = proposal(family, words, device)
            loop, tile = loop_of(configuration, words, device), TileShape.of(configuration)
            say(f"{device.name} {configuration.brief()}: {loop}")
            if loop is not None:
                per_load, per_instruction = tile.shares(loop)
                rows.append({"device": device.name, "kernel": family, "problem": words, "pixels": tile.pixels,
                             "vectors": tile.vectors, "configuration": dict(configuration.settings),
                             "fused": loop.fused, "loads": loop.loads, "instructions": loop.instructions,
                             "per_load": round(per_load, 4), "per_instruction": round(per_instruction, 4)})
    return rows


def compared(device: Device) -> list[Row]:
    """Compare counts with the times of the shipped data set: a row for each problem; none for a device that it lacks.

    `work` and `instructions` are rank correlations with the seconds: of the multiply-adds of whole vectors that a
    configuration computes, and of the inner loop's instructions for all of them.
    """
    import pandas as pd

    from seqtune.data.formats.dataset_file import read_dataset

    times = read_dataset(None).rows.query("device == @device.key and status == 'correct'")
    most = {family: times.loc[times["kernel"] == family, "problem"].astype(str).value_counts().index[:TIMED_PROBLEMS]
            for family in _WORK}
    rows = []
    for family, words in [(name, str(problem)) for name, problems in most.items() for problem in problems]:
        own = times[(times["kernel"] == family) & (times["problem"] == words)]
        least = own.groupby("configuration", observed=True)["seconds"].min()
        chosen = least.sample(min(TIMED_CONFIGURATIONS, len(least)), random_state=0)
        counts = pd.DataFrame([(seconds, *_work(family, words, str(settings), device))
                               for settings, seconds in chosen.items()], columns=["seconds", "work", "instructions"])
        ranks = counts.corr(method="spearman")["seconds"]
        say(f"{device.name} {words}: {dict(ranks)}")
        if ranks.notna().all():  # the counts differ
            rows.append({"device": device.name, "kernel": family, "problem": words, "configurations": len(counts),
                         "work": round(ranks["work"], 2), "instructions": round(ranks["instructions"], 2)})
    return rows


def _work(family: str, words: str, settings: str, device: Device) -> tuple[float, float]:
    """Multiply-adds of a configuration, in some unit, and its instructions for them; infinite if it has no loop."""
    from seqtune.data.dataset import configuration
    from seqtune.kernels.kernel import quantities
    from seqtune.kernels.problem_sets.parse import parse_problem
    from seqtune.kernels.registry import kernel

    chosen = configuration(family, settings)
    known = quantities(kernel(family).derived, parse_problem(words), device, chosen)
    work = math.prod(known[name] for name in _WORK[family]) / chosen.number("vector")
    loop = loop_of(chosen, words, device)
    return work, work / loop.fused_per_instruction if loop is not None else math.inf


def timed_table(rows: Sequence[Row]) -> str:
    """Make the table of the correlations: a line for each problem."""
    return markdown(
        ["device", "kernel", "problem", "configurations", "multiply-adds", "instructions"],
        [[row["device"], row["kernel"], row["problem"], str(row["configurations"]), f"{row['work']:.2f}",
          f"{row['instructions']:.2f}"] for row in rows], 3)


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each loop."""
    return markdown(
        ["kernel", "problem", "tile", "multiply-adds", "loads", "instructions", "per load, of the ideal",
         "per instruction, of the ideal"],
        [[row["kernel"], row["problem"], f"{row['pixels']} x {row['vectors']}", str(row["fused"]), str(row["loads"]),
          str(row["instructions"]), f"{row['per_load']:.2f}", f"{row['per_instruction']:.2f}"] for row in rows], 3)


def summary(rows: Sequence[Row]) -> str:
    """Make the table of the least and the mean shares: a line for each device and family."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["device"], row["kernel"]), []).append(row)
    return markdown(
        ["device", "kernel", "loops", "per load: least", "mean", "per instruction: least", "mean",
         f"at least {BAR} in both"],
        [[device, kernel, str(len(own)),
          *(f"{value:.2f}" for name in ("per_load", "per_instruction")
            for value in (min(row[name] for row in own), sum(row[name] for row in own) / len(own))),
          str(sum(min(row["per_load"], row["per_instruction"]) >= BAR for row in own))]
         for (device, kernel), own in groups.items()], 2)


_TIMED = """## Counts and recorded times

Rank correlations of the shipped data set's times with what the configurations compute: the multiply-adds of whole
vectors, those of overlapping tiles included, and the inner loop's instructions for them. Where the second is no larger
than the first, the instructions for each multiply-add explain nothing more about these times.

{}"""


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    devices = list(dict.fromkeys(row["device"] for row in rows))
    good = sum(min(row["per_load"], row["per_instruction"]) >= BAR for row in rows)
    return Page(
        "static_quality", "Inner loops, counted",
        f"Of {len(rows)} inner loops of proposed tiles, {good} have at least {BAR} of the multiply-adds for each load "
        "and for each instruction that their tiles allow.",
        "python -m benchmarks static_quality --out docs",
        "\n\n".join([summary(rows), *(f"## {device}\n\n{table([row for row in rows if row['device'] == device])}"
                                      for device in devices), _TIMED.format(timed_table(results["timed"]))]),
        evaluated(results, f"the assembly that {results['toolchain']} makes of the first proposals"),
        "A tile of P pixels by V vectors keeps P V sums in registers. Ideally each channel takes P V multiply-adds, "
        "P + V loads and no other instruction; the shares are relative to that. A share above 1 means that one "
        "instruction does more: ARM loads two registers, or one with four channels, and multiplies with one lane of "
        "it; x86 multiplies with a number in memory. "
        "A multiply-add counts as one instruction on both.",
        ("A count is no time: it says what a loop asks of a core's ports, not how long the core waits for memory.",
         "Loops around the inner one, and the transforms of a Winograd convolution, are not counted."),
        folder=INTERNALS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    from seqtune.tuner.backends.discovery import find
    from seqtune.tuner.backends.llvm.compiler import toolchain

    parser = parser_of(__doc__)
    parser.add_argument("--devices", type=lambda text: text.split(","), default=list(DEVICES), metavar="NAMES",
                        help=f"llvm devices, present or described; default: {','.join(DEVICES)}")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    devices = [find(name) for name in given.devices]
    if any(device.backend != "llvm" for device in devices):
        raise MisuseError("--devices takes llvm devices alone: only their assembly is read")
    rows = [row for device in devices for row in counted(device)]
    timed = [row for device in devices for row in compared(device)]
    results = {"date": today(), "toolchain": toolchain(), "rows": rows, "timed": timed}
    print(json.dumps(results) if given.json else f"{summary(rows)}\n\n{table(rows)}\n\n"
          f"{timed_table(timed)}")
    publish(given.out, page, results)
