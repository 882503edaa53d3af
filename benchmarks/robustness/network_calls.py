"""Random calls of a compiled network under load: `python -m benchmarks network_calls [--json] [--out docs]`.

A BERT of two small blocks with random weights is compiled by torch.compile(backend="seqtune"), without verification,
and called by several threads with batches of 1, 2, 4 and 8 and lengths from 16 to 512 in random order, while other
processes keep every CPU busy. Every result is compared with eager PyTorch's. The program looks at the resident memory,
at the mapped regions, and at the graphs, programs and compiled sources, once for every twentieth of the calls.

`--kept` is the number of programs that a graph keeps; a smaller one than that of the shapes has programs compiled again
all the time, which shows whether those that go leave memory behind.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psutil

from benchmarks.common.page import Page, Results, check_ready, measured_on
from benchmarks.common.program import llvm_devices, parser_of, positive, report
from benchmarks.common.report import BLUE, ORANGE, Row, markdown, save, style
from benchmarks.speed.busy_processes import BusyProcesses
from seqtune.errors import MisuseError

if TYPE_CHECKING:
    from torch import Tensor, nn

BATCHES = (1, 2, 4, 8)
LEAST, MOST = 16, 512  # tokens
VOCABULARY = 1000
LOOKS = 20
TOLERANCE = 1e-3  # of the largest number of a result

Shape = tuple[int, int]  # batch, length


def draw_shapes(lengths: int, seed: int) -> list[Shape]:
    """Every batch with so many different random lengths."""
    chosen = random.Random(seed).sample(range(LEAST, MOST + 1), lengths)
    return [(batch, length) for batch in BATCHES for length in chosen]


def network() -> nn.Module:
    """A BERT of two blocks of 128 numbers a token, random weights."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model: nn.Module = BertModel(BertConfig(
        vocab_size=VOCABULARY, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512),
        add_pooling_layer=False)
    return model.eval()


class WatchedCalls:
    """Calls of a compiled network: which results were wrong, and how the process looked on the way."""

    def __init__(self, fast: Any, inputs: Sequence[Tensor], expected: Sequence[Tensor], calls: int) -> None:
        self.fast, self.inputs, self.expected, self.calls = fast, inputs, expected, calls
        self.looks: list[Row] = []
        self.wrong: list[int] = []
        self.worst = 0.0
        self.graphs: list[Any] = []
        self.sources = 0
        self._done, self._lock, self._begin = 0, threading.Lock(), time.monotonic()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the sources that LLVM compiles and collect the graphs of Dynamo."""
        from seqtune.hooks.pytorch import dynamo
        from seqtune.tuner.backends.llvm.compiler import Compiler

        compile_source, shaped = Compiler._emit, dynamo.ShapedPrograms

        def counted(compiler: Compiler, text: str) -> Any:
            self.sources += 1
            return compile_source(compiler, text)

        def collected(*arguments: Any) -> Any:
            self.graphs.append(shaped(*arguments))
            return self.graphs[-1]

        with patch.object(Compiler, "_emit", counted), patch.object(dynamo, "ShapedPrograms", collected):
            yield

    def call(self, index: int) -> None:
        """Call the network with an input and compare the result."""
        import torch

        with torch.no_grad():
            result, expected = self.fast(self.inputs[index])[0], self.expected[index]
            error = float((result - expected).abs().max() / expected.abs().max())
        with self._lock:
            self.worst = max(self.worst, error)
            if not error < TOLERANCE:
                self.wrong.append(index)
            self._done += 1
            if self._done % max(1, self.calls // LOOKS) == 0:
                self.looks.append(self.look())
                print(f"{self._done} calls: {self.looks[-1]}", file=sys.stderr, flush=True)

    def look(self) -> Row:
        """The process now."""
        return {"calls": self._done, "seconds": time.monotonic() - self._begin,
                "resident": psutil.Process().memory_info().rss, "regions": len(Path("/proc/self/maps").read_text()
                                                                                .splitlines()),
                "graphs": len(self.graphs), "programs": sum(len(graph._programs) for graph in self.graphs),
                "sources": self.sources}


def watch_calls(given: argparse.Namespace) -> Row:
    """Make the calls and return what was seen."""
    import torch

    from seqtune.hooks.pytorch import dynamo

    shapes = draw_shapes(given.lengths, given.seed)
    model, inputs = network(), [torch.randint(VOCABULARY, shape) for shape in shapes]
    with torch.no_grad():
        expected = [model(x)[0] for x in inputs]
    fast = torch.compile(model, backend=partial(dynamo.backend, options={
        "verify": False, "fallback": "eager", "checkpoint": given.checkpoint}))
    calls = WatchedCalls(fast, inputs, expected, given.calls)
    order = random.Random(given.seed).choices(range(len(shapes)), k=given.calls)
    with (calls.counting(), patch.object(dynamo, "MOST_SHAPES", given.kept), BusyProcesses(given.busy),
          ThreadPoolExecutor(given.callers) as pool):
        list(pool.map(calls.call, order))
    refused = sum(len(graph._refused) for graph in calls.graphs)
    return {"calls": given.calls, "shapes": len(set(order)), "callers": given.callers, "busy": given.busy,
            "kept": given.kept, "wrong": len(calls.wrong), "error": calls.worst, "refused": refused,
            "looks": calls.looks}


def memory_growth(looks: Sequence[Row]) -> float:
    """The change of the resident memory over the last half of the calls, as a share."""
    half = looks[len(looks) // 2 - 1]
    return float(looks[-1]["resident"] / half["resident"] - 1)


def table(rows: Sequence[Row]) -> str:
    """A line for every fourth look of each run."""
    lines = [[f"{row['kept']}", f"{look['calls']:,}", f"{look['seconds']:.0f}", f"{look['resident'] / 1e6:.0f}",
              f"{look['regions']:,}", f"{look['graphs']}", f"{look['programs']}", f"{look['sources']}"]
             for row in rows for number, look in enumerate(row["looks"], 1)
             if number % max(1, len(row["looks"]) // 5) == 0]
    return markdown(["programs kept", "calls", "seconds", "memory, MB", "mapped regions", "graphs", "programs",
                     "compiled sources"], lines, left=0)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the memory over the calls."""
    pyplot = style()
    figure, axes = pyplot.subplots(figsize=(5.2, 3.0))
    for row, colour in zip(rows, (BLUE, ORANGE), strict=False):
        axes.plot([look["calls"] for look in row["looks"]], [look["resident"] / 1e6 for look in row["looks"]],
                  color=colour, label=f"{row['kept']} programs kept")
    axes.set_ylim(0, None)
    axes.set_xlabel("calls")
    axes.set_title("memory, MB", loc="left")
    axes.legend(frameon=False)
    save(figure, path)


def page(results: Results) -> Page:
    """The page of the results."""
    rows = results["rows"]
    sentences = [
        f"{row['calls']:,} calls with {row['shapes']} shapes from {row['callers']} threads, {row['kept']} programs "
        f"kept for each graph: {row['wrong'] or 'no'} wrong results (largest error {row['error']:.0e}), "
        f"{row['looks'][-1]['graphs']} graphs of Dynamo, memory {100 * memory_growth(row['looks']):+.1f} % over the "
        "last half"
        for row in rows]
    return Page(
        "network_calls", "Random calls of a compiled network", "; ".join(sentences) + ".",
        "python -m benchmarks network_calls --out docs", table(rows), measured_on(results),
        "A small BERT was called with batches of 1, 2, 4 and 8 and random lengths from 16 to 512 while other processes "
        "kept the CPUs busy. `graphs` are Dynamo's compilations, `programs` those kept for the shapes, `compiled "
        "sources` the sources that LLVM compiled: kernels and steps of other shapes are found again.",
        ("Layers were predicted, not verified. Times include the export and the predictions of new shapes.",
         "Inputs and expected results are part of the memory."), "Memory over the calls")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--calls", type=positive, default=1000)
    parser.add_argument("--lengths", type=positive, default=64, help="different lengths; each comes with four batches")
    parser.add_argument("--callers", type=positive, default=4, help="threads that call")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="busy processes beside")
    parser.add_argument("--kept", type=positive, default=256, help="programs of a graph that are kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", default="default")
    given = parser.parse_args(arguments)
    if given.lengths > MOST - LEAST + 1:
        parser.error(f"--lengths {given.lengths} is more than the {MOST - LEAST + 1} from {LEAST} to {MOST}")
    run(given)


def run(given: argparse.Namespace) -> None:
    """Make the calls and write the results. Raises MisuseError without /proc."""
    import torch

    check_ready(given.out)
    if not Path("/proc/self/maps").exists():
        raise MisuseError("this system shows no mapped regions: the program needs Linux")
    devices = llvm_devices([torch.get_num_threads()])  # before: the user's folder holds their rates
    # No journal of the user changes the predictions, and no machine code of earlier runs is there.
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, XDG_DATA_HOME=folder, XDG_CACHE_HOME=folder):
        row = watch_calls(given)
    report(given, [row], devices, page, lambda path: draw([row], path))
