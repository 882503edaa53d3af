"""Time linear layers of language models: `python -m benchmarks linear_layers [--json] [--out docs]`.

fp32, C = A B with constant B, stored as torch.nn.Linear stores it, for one token to a long text (m rows). Our kernels
are the first and the best of `--top` predictions; nothing is searched. PyTorch's are `linear`, as users call it, and
`packed`, torch.ops.mkldnn._linear_pointwise with B reordered before the call. Our kernels also pack B before the call.

In a language model, the weights of a layer are no longer in the caches when it runs again. Therefore every call with
few rows takes the next of several copies of B, together larger than the caches. `read` is the time in which PyTorch
reads B once, by a sum of its elements. The machine's least time is that of reading B or of the multiplications at the
measured peak, whichever is longer. The share is this time divided by ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import checked, geometric_mean, tensor
from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.program import llvm_devices, parser_of, positive, report, warm_threads
from benchmarks.common.report import BLUE, ORANGE, Row, draw_speeds, markdown

if TYPE_CHECKING:
    from torch import Tensor

    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.timing import Expected

LAYERS = {  # label -> n, k
    "GPT-2 attention": (768, 768), "GPT-2 query, key, value": (2304, 768), "GPT-2 up": (3072, 768),
    "GPT-2 down": (768, 3072), "GPT-2 vocabulary": (50257, 768), "Llama attention": (4096, 4096),
    "Llama up": (11008, 4096), "Llama down": (4096, 11008),
}
ROWS = (1, 8, 64, 2048)
FEW = 16  # rows up to which reading B takes most of the time; such calls are short, so they have SHORT times the rounds
SHORT = 5
COLD_BYTES = 1 << 28  # of all copies of B together: more than last-level caches hold
SAMPLE_SECONDS = 4e-3

def copies_of(problem: Problem) -> int:
    """The number of copies of B that calls take in turns."""
    m, n, k = (problem.size(name) for name in ("m", "n", "k"))
    return max(2, -(-COLD_BYTES // (4 * n * k))) if m <= FEW else 1


def pytorch_runs(x: Tensor, copies: Sequence[Tensor], expected: Expected) -> dict[str, Callable[[], Any]]:
    """PyTorch's operations and the reading of B. Raises SeqtuneError if a result is wrong."""
    import torch

    runs: dict[str, Callable[[], Any]] = {"linear": _in_turns([partial(torch.nn.functional.linear, x, copy)
                                                               for copy in copies])}
    if torch._C._has_mkldnn:
        packed = [torch.ops.mkldnn._reorder_linear_weight(copy, x.shape[0]) for copy in copies]
        runs["packed"] = _in_turns([partial(torch.ops.mkldnn._linear_pointwise, x, copy, None, "none", [], "")
                                    for copy in packed])
    for name, run in runs.items():
        checked(expected, lambda run=run: run().numpy(), name)  # type: ignore[misc]
    return {**runs, "read": _in_turns([copy.sum for copy in copies])}


def our_runs(problem: Problem, device: Device, x: Tensor, weights: Any, expected: Expected,
             top: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The proposals, the first one before the others. Raises SeqtuneError if a result is wrong."""
    import torch

    from seqtune.api import predict
    from seqtune.networks.program.device_threads import binder_of

    binder, shape = binder_of(device), expected.y.shape
    for number, candidate in enumerate(predict(problem, device, top).candidates):
        kernels = [binder.bind(problem, candidate.configuration, weights, None) for _ in range(copies_of(problem))]

        def called(kernel: Any) -> Tensor:
            y = torch.empty(shape)
            kernel(x.data_ptr(), y.data_ptr())
            return y

        run = _in_turns([partial(called, kernel) for kernel in kernels])
        checked(expected, lambda run=run: run().numpy(), candidate.configuration.brief())  # type: ignore[misc]
        yield f"ours {number + 1}: {candidate.configuration.kernel} {candidate.configuration.brief()}", run


def _in_turns(calls: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    following = cycle(calls)
    return lambda: next(following)()


def row_of(layer: str, problem: Problem, device: Device, seconds: Mapping[str, float]) -> Row:
    """The row of one problem."""
    ours = {method: value for method, value in seconds.items() if method.startswith("ours ")}
    best = min(ours, key=ours.__getitem__)
    flop = problem.size("flop")
    bound = max(seconds["read"], flop / device.peak_gflops / 1e9)
    return {"layer": layer, "threads": device.threads, "m": problem.size("m"), "n": problem.size("n"),
            "k": problem.size("k"), "first_seconds": next(iter(ours.values())), "best_seconds": ours[best],
            "configuration": best.partition(": ")[2], "linear_seconds": seconds["linear"],
            "packed_seconds": seconds.get("packed"), "read_seconds": seconds["read"], "bound_seconds": bound,
            "gflops": flop / ours[best] / 1e9, "share": bound / ours[best],
            "first_share": bound / next(iter(ours.values()))}


def table(rows: Sequence[Row]) -> str:
    """A line per layer and number of rows."""
    lines = [[f"{row['layer']} ({row['n']} × {row['k']})", str(row["m"]), f"{row['best_seconds'] * 1e6:.0f}",
              f"{row['gflops']:.0f}", f"{4e-9 * row['n'] * row['k'] / row['best_seconds']:.0f}",
              f"{row['share']:.2f}", f"{row['first_share']:.2f}",
              f"{row['linear_seconds'] / row['best_seconds']:.2f}", _over_packed(row)] for row in rows]
    return markdown(["layer (n × k)", "m", "ours, µs", "GFLOP/s", "B, GB/s", "share", "first proposal's share",
                     "vs linear", "vs packed"], lines)


def _over_packed(row: Row) -> str:
    return "–" if row["packed_seconds"] is None else f"{row['packed_seconds'] / row['best_seconds']:.2f}"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the shares, a panel for each number of rows."""
    panels = []
    for count in dict.fromkeys(row["m"] for row in rows):
        chosen = [row for row in rows if row["m"] == count]
        panels.append((f"{count} row{'s' * (count > 1)}", [f"{row['n']}×{row['k']}" for row in chosen],
                       {"best proposal": (BLUE, [row["share"] for row in chosen]),
                        "first proposal": (ORANGE, [row["first_share"] for row in chosen])}))
    draw_speeds(path, panels, "share")


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    worst = min(rows, key=lambda row: row["share"])
    packed = [row["packed_seconds"] / row["best_seconds"] for row in rows if row["packed_seconds"] is not None]
    over = f", and {geometric_mean(packed):.2f} times the speed of PyTorch's operation on packed weights" if packed \
        else ""
    return Page(
        "linear_layers", "Linear layers of language models",
        f"Linear layers with {rows[0]['m']} to {rows[-1]['m']} rows reach "
        f"{geometric_mean([row['share'] for row in rows]):.2f} of what the machine allows{over} (geometric means over "
        f"the layers). The least share is {worst['share']:.2f}: {worst['layer']}, {worst['m']} rows.",
        "python -m benchmarks linear_layers --out docs", table(rows), measured_on(results),
        "`share` is the machine's least time divided by that of the best proposal; the least time is that of reading "
        "the weights B once, or of the multiplications at the measured peak, whichever is longer. `vs linear` and `vs "
        "packed` are PyTorch's times divided by ours: above 1, ours is faster.",
        (f"Up to {FEW} rows, each call takes another copy of B, so that B is read from memory as in a language model. "
         "With more rows, B may stay in the caches.",
         "Reading and multiplying overlap only in part: where both take about as long, no share is 1.",
         "Every call writes to new memory. With 2,048 rows, the vocabulary's result has 412 MB, which the system fills "
         "with zeros before: the share contains this.",
         "A share above 1 means that the sum, which tells the time of reading, was slower at that moment."),
        "Share of the machine's least time, by layer and number of rows")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--rounds", type=positive, default=3, help="samples of each long call")
    parser.add_argument("--top", type=positive, default=2, help="number of proposals that are measured")
    parser.add_argument("--rows", type=positive, nargs="+", default=list(ROWS), metavar="M")
    parser.add_argument("--layers", nargs="+", choices=list(LAYERS), default=list(LAYERS), metavar="LABEL")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Time all layers and write the results."""
    import torch

    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.comparison import typical
    from seqtune.tuner.measuring.timed_calls import time_calls
    from seqtune.tuner.measuring.timing import prepare

    device, = llvm_devices([given.threads])
    warm_threads(given.threads)
    rows: list[Row] = []
    for m in given.rows:
        for layer in given.layers:
            n, k = LAYERS[layer]
            problem = Problem.make("gemm", m=m, n=n, k=k, trans_b="yes")
            operands, expected = prepare(problem)
            x, weights = tensor(operands["x"]), operands["weights"]
            with torch.no_grad():
                runs = dict(our_runs(problem, device, x, weights, expected, given.top))
                runs |= pytorch_runs(x, [tensor(weights) for _ in range(copies_of(problem))], expected)
                seconds = typical(time_calls(runs, given.rounds * (SHORT if m <= FEW else 1), SAMPLE_SECONDS))
            rows.append(row_of(layer, problem, device, seconds))
            print(f"{layer}, {m} rows: " + ", ".join(
                f"{method} {value * 1e6:.0f} us" for method, value in seconds.items()), file=sys.stderr, flush=True)
    report(given, rows, [device], page, lambda path: draw(rows, path))
