"""What the kernel benchmarks share: configurations found by a search, PyTorch's ways, and turns within one process.

Ours: a search of `--trials` configurations per family, which a journal keeps, chooses beforehand, in a process of its
own; then each family's best is built anew and timed. Every side has its constant operand packed before, where its API
allows that, reads an input that is there already, and makes its result in new memory, as a call does.

All take turns, a sample each, for a number of rounds; the least sample counts. A sample loops calls for some
milliseconds, after calls that are not counted: idle threads may have gone to sleep. Our kernels run on the OpenMP
threads of PyTorch, so that no other pool's spinning threads disturb either side. Errors are max|difference| /
max|reference|, the reference in float64; an answer with a larger error than the problem allows ends the program.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import BLACK, insert, machine, style, words, write_json
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seqtune.data.journal import Journal
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration, Kernel
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.call import Caller
    from seqtune.tuner.measure import Expected
    from seqtune.tuner.reference import Operands
    from seqtune.tuner.runner import Measurer

ROUNDS = 20
SAMPLE_SECONDS = 2e-3
WARM_UP_SECONDS = 5e-4
Row = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way to compute a problem: `run` does it once."""

    method: str
    run: Callable[[], object]
    error: float
    about: Mapping[str, Any] = field(default_factory=dict)


def take_turns(ways: Sequence[Way], rounds: int = ROUNDS, rest: float = 0.0) -> dict[str, float]:
    """The least seconds of every way. `rest` seconds before a turn let another pool's idle threads stop spinning."""
    from seqtune.tuner.measure import sample

    least = dict.fromkeys((way.method for way in ways), math.inf)
    calls = [1] * len(ways)
    for turn in range(rounds):
        for step in range(len(ways)):
            place = (turn + step) % len(ways)
            time.sleep(rest)
            run: Any = ways[place].run
            _, calls[place] = sample(run, WARM_UP_SECONDS, 1)
            one, _ = sample(run, SAMPLE_SECONDS, 4 * calls[place])
            least[ways[place].method] = min(least[ways[place].method], one)
    return least


def rows_of(label: str, threads: int, ways: Sequence[Way], seconds: Mapping[str, float], flop: int) -> list[Row]:
    """A row per way."""
    return [{"layer": label, "threads": threads, "method": way.method, "seconds": seconds[way.method],
             "gflops": flop / seconds[way.method] / 1e9, "error": way.error, **way.about} for way in ways]


def searched(problem: Problem, device: Device, family: Kernel, journal: Journal, trials: int,
             measurer: Measurer) -> Configuration:
    """The best configuration of one family that a search finds. Raises SeqtuneError where nothing ran."""
    from seqtune.tuner.tune import Budget, tune

    found = tune(problem, device, journal, "local", Budget(trials=trials), measurer=measurer, kernels=[family])
    if found.configuration is None:
        raise SeqtuneError(f"no configuration of {family.name} ran {problem.brief()} on {device.name}")
    print(f"{device.name} {problem.brief()}: {family.name} {found.configuration.brief()}, {found.done} trials, "
          f"{found.resumed} of them known", file=sys.stderr, flush=True)
    return found.configuration


def tensor(array: NDArray[np.float32]) -> Any:
    """The same numbers as a tensor of its own (operands are read-only)."""
    import torch

    return torch.from_numpy(array.copy())


def checked(expected: Expected, run: Callable[[], Any], what: str) -> float:
    """The error of a result in the problem's layout. Raises SeqtuneError where it is too large."""
    error = expected.error(run())
    if not error <= expected.tolerance:
        raise SeqtuneError(f"{what} computes something else: error {error:.1e}")
    return error


def our_way(caller: Caller, problem: Problem, operands: Operands, expected: Expected, configuration: Configuration,
            method: str) -> Way:
    """A configuration on memory of PyTorch's. Raises SeqtuneError on a wrong result."""
    import torch

    call = caller.bind(problem, configuration, operands.weights, operands.bias)
    x, shape = tensor(operands.x), expected.y.shape

    def run() -> None:
        y = torch.empty(shape)
        call(x.data_ptr(), y.data_ptr())

    def result() -> Any:
        y = torch.full(shape, math.nan)
        call(x.data_ptr(), y.data_ptr())
        return y.numpy()

    return Way(method, run, checked(expected, result, configuration.brief()),
               {"configuration": dict(configuration.settings)})


def convolution_ways(problem: Problem, operands: Operands, expected: Expected) -> list[Way]:
    """PyTorch's ways of a convolution in NHWC: oneDNN's with packed weights, and F.conv2d in both formats."""
    import torch
    from torch.nn.functional import conv2d

    stride, padding, dilation = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                 for name in ("stride", "pad", "dilation"))
    groups, last = problem.size("groups"), torch.channels_last
    x, weights = tensor(operands.x).permute(0, 3, 1, 2), tensor(operands.weights)  # NHWC memory is channels_last
    plain, weights_last = x.contiguous(), weights.contiguous(memory_format=last)
    reorder: Any = torch._C._nn.mkldnn_reorder_conv2d_weight
    packed = reorder(weights.to_mkldnn(), padding, stride, dilation, groups, list(x.shape))
    pointwise = torch.ops.mkldnn._convolution_pointwise
    runs: dict[str, Callable[[], Any]] = {
        "onednn": lambda: pointwise(x, packed, None, padding, stride, dilation, groups, "none", [], ""),
        "conv2d_channels_last": lambda: conv2d(x, weights_last, None, stride, padding, dilation, groups),
        "conv2d_nchw": lambda: conv2d(plain, weights, None, stride, padding, dilation, groups)}

    def result(run: Callable[[], Any]) -> Any:
        return run().permute(0, 2, 3, 1).contiguous().numpy()

    return [Way(name, run, checked(expected, partial(result, run), name)) for name, run in runs.items()]


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def seconds_by_method(rows: Sequence[Row]) -> dict[tuple[str, int], dict[str, float]]:
    """(layer, threads) -> method -> seconds."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        found.setdefault((row["layer"], row["threads"]), {})[row["method"]] = row["seconds"]
    return found


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The options that the kernel benchmarks share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the JSON file and the figure")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--readme", type=Path, help="also put the table between this page's comments")
    return parser


def add_search(parser: argparse.ArgumentParser) -> None:
    """The options of those that search."""
    parser.add_argument("--trials", type=int, default=200, help="configurations of a family that the search measures")
    parser.add_argument("--journal", type=Path, help="keeps the search, so that a second time is quick")
    parser.add_argument("--rounds", type=int, default=ROUNDS)


@contextmanager
def journal_of(path: Path | None) -> Iterator[Journal]:
    """That journal, or one that is forgotten."""
    from seqtune.data.journal import Journal

    with tempfile.TemporaryDirectory() as folder, Journal(path or Path(folder) / "trials.sqlite") as kept:
        yield kept


def llvm_devices(threads: Sequence[int]) -> list[Device]:
    """The widest vectors here on so many threads each. Raises DeviceError."""
    from seqtune.tuner.devices import find

    best = find("llvm:0")
    return [find(f"llvm:{best.instruction_set}:{count}") for count in threads]


def warm_threads(count: int) -> None:
    """PyTorch on so many threads, made now."""
    import torch

    torch.set_num_threads(count)
    torch.ones(1 << 20).add_(1)


def report(given: argparse.Namespace, name: str, rows: Sequence[Row], devices: Sequence[Device], table: str,
           mark: str, draw: Callable[[Path], None]) -> None:
    """Prints the table or the rows; writes the JSON file and the figure; puts the table into a page."""
    import torch

    where = machine(devices)
    where["toolchain"] += f", torch {torch.__version__}"
    found = {"machine": where, "rows": list(rows)}
    text = f"{table}\n\nMeasured on {words(where)}, on {where['date']}."
    print(json.dumps(found, allow_nan=False) if given.json else text)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        write_json(given.out / f"{name}.json", found)
        draw(given.out / f"{name}.svg")
    if given.readme is not None:
        insert(given.readme, mark, text)


def run_program(name: str, program: Callable[[], None]) -> None:
    """Runs it; what cannot be done is one line."""
    try:
        program()
    except SeqtuneError as error:
        sys.exit(f"{name}: {error}")


Panel = tuple[str, Sequence[str], Mapping[str, tuple[str, Sequence[float | None]]]]


def draw_speeds(path: Path, panels: Sequence[Panel], ylabel: str) -> None:
    """Speeds relative to a baseline at 1: per panel a title, labels, and method -> (colour, a value per label)."""
    pyplot = style()
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(8.4, 2.5 * len(panels)), squeeze=False)
    for axis, (title, labels, methods) in zip(axes[:, 0], panels, strict=True):
        width = 0.8 / len(methods)
        for place, (method, (colour, values)) in enumerate(methods.items()):
            places = [number + (place - (len(methods) - 1) / 2) * width for number in range(len(labels))]
            axis.bar(places, [value or 0.0 for value in values], width, color=colour, label=method)
        axis.axhline(1.0, color=BLACK, linewidth=0.8)
        axis.set_xticks(range(len(labels)), labels)
        axis.set_title(title, loc="left")
        axis.set_ylabel(ylabel)
    axes[0, 0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
