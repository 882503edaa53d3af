"""Whole networks in PyTorch: `python -m benchmarks end_to_end [--json] [--out docs] [--journal J.sqlite]`.

ResNet-18 and ResNet-50 from transformers' configurations with random weights, batch 1, fp32, two threads, inference
mode; the input is an image in PyTorch's usual NCHW.

`eager`: the model as it is, and `eager_channels_last`: its weights in that format. `compile`: torch.compile;
`compile_freezing`: with constant weights, which oneDNN packs and into which batch normalisation is folded;
`compile_max_autotune`: the same with mode="max-autotune", which also tries generated kernels. `seqtune`:
seqtune.pytorch.optimize. A method that fails here (torch.compile needs a C++ compiler) is reported and left out.

The methods take turns: one forward pass that is not counted, then one that is; the median of --rounds levelled rounds
counts. `error` is max|difference| / max|eager's result|. A row of the method "ratios" has `ratio_eager` and
`ratio_eager_channels_last`, the times of these methods divided by ours, and `ratio_compile`, that of the fastest of
torch.compile's modes divided by ours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.program import llvm_devices, parser_of, positive, report, warm_threads
from benchmarks.common.report import BLUE, GREY, ORANGE, SKY, Row, draw_speeds, markdown
from seqtune.errors import one_line
from seqtune.tuner.measuring.budget import NETWORK

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device

MODELS: dict[str, dict[str, Any]] = {
    "ResNet-18": {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"},
    "ResNet-50": {"depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048], "layer_type": "bottleneck"},
}
COLOURS = {"eager": GREY, "eager_channels_last": SKY, "compile": ORANGE, "compile_freezing": ORANGE,
           "compile_max_autotune": ORANGE, "seqtune": BLUE}


def build(name: str) -> Any:
    """Build a model with seeded random weights, in evaluation mode."""
    import torch
    from transformers import AutoModelForImageClassification, ResNetConfig

    torch.manual_seed(0)
    config = ResNetConfig(**MODELS[name], num_labels=1000)
    return AutoModelForImageClassification.from_config(config).eval()


def compiled(model: Any, x: Any, freezing: bool, mode: str | None) -> Callable[[], Any]:
    """Compile a model with torch.compile; the first passes are done here."""
    import torch
    import torch._inductor.config as inductor

    torch._dynamo.reset()
    with inductor.patch(freezing=freezing):
        compiled_model: Callable[[Any], Any] = torch.compile(model, mode=mode)
        with torch.inference_mode():
            compiled_model(x)
            compiled_model(x)
    return lambda: compiled_model(x)


def runs_of(name: str, device: Device, given: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """The functions that compute the model, by method; the first is the reference."""
    import torch

    from seqtune.pytorch import optimize

    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    last = torch.channels_last
    eager, eager_last = build(name), build(name).to(memory_format=last)
    x_last = x.contiguous(memory_format=last)
    runs: dict[str, Callable[[], Any]] = {
        "eager": lambda: eager(x), "eager_channels_last": lambda: eager_last(x_last)}
    began = time.monotonic()
    fast = optimize(build(name), x, device=device, budget=given.budget, journal=given.journal,
                    checkpoint=given.checkpoint, saved=given.saved and given.saved / f"{name}.json",
                    progress=lambda step: print(f"{name}: {step}", file=sys.stderr, flush=True))
    unchanged = sum(choice.configuration is None for choice in fast.choices)
    print(f"{name}: optimised in {time.monotonic() - began:.0f} s; {unchanged} of {len(fast.choices)} layers unchanged",
          file=sys.stderr, flush=True)
    if given.save is not None:
        given.save.mkdir(parents=True, exist_ok=True)
        fast.save(given.save / f"{name}.json")
    runs["seqtune"] = lambda: fast(x)
    for method, freezing, mode in (("compile", False, None), ("compile_freezing", True, None),
                                   ("compile_max_autotune", True, "max-autotune")):
        if method in given.without:
            continue
        try:
            runs[method] = compiled(build(name).to(memory_format=last), x_last, freezing, mode)
        except Exception as error:  # a missing compiler, or one that fails: torch raises many kinds
            reason = one_line(f"{type(error).__name__}: {error}", 200)
            print(f"{name}: {method} is unavailable: {reason}", file=sys.stderr, flush=True)
    return runs


def contest(name: str, device: Device, given: argparse.Namespace) -> list[Row]:
    """Time the methods on one model: a row for each method, and one with the ratios."""
    import torch

    from seqtune.tuner.measuring.comparison import typical
    from seqtune.tuner.measuring.timed_calls import time_calls

    with torch.no_grad():
        runs = runs_of(name, device, given)
    with torch.inference_mode():
        results = {method: run().logits.double() for method, run in runs.items()}
        seconds = typical(time_calls(runs, given.rounds, sample_seconds=0.0))
    reference = results["eager"]
    rows: list[Row] = [{"model": name, "threads": device.threads, "method": method, "seconds": seconds[method],
                        "error": float((result - reference).abs().max() / reference.abs().max())}
                       for method, result in results.items()]
    compiled_seconds = [value for method, value in seconds.items() if method.startswith("compile")]
    ratios = {"ratio_eager": seconds["eager"] / seconds["seqtune"],
              "ratio_eager_channels_last": seconds["eager_channels_last"] / seconds["seqtune"],
              "ratio_compile": min(compiled_seconds) / seconds["seqtune"] if compiled_seconds else None}
    print(f"{name}: " + ", ".join(f"{method} {value * 1e3:.2f} ms" for method, value in seconds.items()),
          file=sys.stderr)
    return [*rows, {"model": name, "threads": device.threads, "method": "ratios", **ratios}]


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each model and method."""
    lines = []
    for name in dict.fromkeys(row["model"] for row in rows):
        by_method = {row["method"]: row for row in rows if row["model"] == name}
        for method, row in by_method.items():
            if method != "ratios":
                ratio = row["seconds"] / by_method["seqtune"]["seconds"]
                lines.append([name, method, f"{row['seconds'] * 1e3:.2f}", f"{ratio:.2f}", f"{row['error']:.0e}"])
    return markdown(["model", "method", "ms", "over seqtune's time", "error"], lines, left=2)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed relative to eager, for each model and method."""
    timed = [row for row in rows if row["method"] != "ratios"]
    models, methods = (list(dict.fromkeys(row[key] for row in timed)) for key in ("model", "method"))
    seconds = {(row["model"], row["method"]): row["seconds"] for row in timed}
    draw_speeds(path, [("Whole networks, batch 1", models, {
        method: (COLOURS[method], [seconds[name, "eager"] / own if (own := seconds.get((name, method))) else None
                                   for name in models]) for method in methods})], "speed over eager")


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    ratios = {row["model"]: row for row in rows if row["method"] == "ratios"}
    speeds = "; ".join(
        f"{name} is {row['ratio_eager']:.2f} times as fast as with unchanged PyTorch"
        + (f" and {row['ratio_compile']:.2f} times as fast as with the fastest mode of torch.compile"
           if row.get("ratio_compile") else "") for name, row in ratios.items())
    return Page(
        "end_to_end", "Whole networks in PyTorch",
        f"`seqtune.pytorch.optimize` makes a network at batch 1 faster: {speeds}.",
        "python -m benchmarks end_to_end --out docs", table(rows), measured_on(results),
        "`eager` is the unchanged model; `eager_channels_last` has its weights in that memory format. `compile` is "
        "torch.compile; `compile_freezing` adds constant weights and folded batch normalisation; "
        "`compile_max_autotune` also tries generated kernels. `error` is the largest difference divided by the largest "
        "value of the eager result. `over seqtune's time` is the time of a method divided by that of seqtune.",
        ("Random weights, fp32, inference mode; other batch sizes were not measured.",
         f"The methods take turns, one forward pass each; {results.get('statistic', 'the least time of each')} counts.",
         "`eager` does not fold batch normalisation into the convolutions; seqtune does, and so does "
         "`compile_freezing`."),
        "Time of a forward pass by method")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--rounds", type=positive, default=30)
    parser.add_argument("--budget", type=float, default=NETWORK, help="seconds for verifying one network")
    parser.add_argument("--checkpoint", default="default")
    parser.add_argument("--journal", type=Path, help="stores the verified layers, so that a second run is quick")
    parser.add_argument("--save", type=Path, help="folder in which to save the choices")
    parser.add_argument("--saved", type=Path, help="folder of saved choices to use instead of predictions")
    parser.add_argument("--without", nargs="*", default=[], metavar="METHOD", help="torch.compile methods to leave out")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Compare the methods and write the results."""
    device, = llvm_devices([given.threads])
    warm_threads(given.threads)
    rows = [row for name in given.models for row in contest(name, device, given)]
    report(given, rows, [device], page, lambda path: draw(rows, path),
           {"statistic": "the median of the levelled rounds"})
