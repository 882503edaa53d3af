"""Write the pages of results again from their JSON files: `python -m benchmarks.pages --out docs` measures nothing.

It also writes the figures again that README.md and docs/index.md quote.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from benchmarks.common.page import RESULTS, Page, add_out, page_from
from benchmarks.common.program import run_program
from benchmarks.common.quotes import write_quotes
from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded, write_whole

LARGEST_FILE = 10_000_000  # bytes
PAGES: Mapping[str, str] = {  # name of the page -> the function that makes it from the JSON file
    "results": "benchmarks.prediction.results:page",
    "headline": "benchmarks.prediction.headline:page",
    "confidence": "benchmarks.prediction.confidence:page",
    "agreement": "benchmarks.prediction.agreement:page",
    "large_spaces": "benchmarks.prediction.large_spaces:page",
    "hardness": "benchmarks.prediction.hardness:page",
    "small_data": "benchmarks.prediction.small_data:page",
    "machines": "benchmarks.prediction.machines:page",
    "retraining": "benchmarks.prediction.retraining:page",
    "runtimes_left_out": "benchmarks.prediction.runtimes_left_out:page",
    "locked": "benchmarks.prediction.locked:page",
    "analytic_gemm": "benchmarks.prediction.analytic_gemm:page",
    "served_choices": "benchmarks.prediction.served_choices:page",
    "miopen_paper": "benchmarks.prediction.miopen_paper:page",
    "miopen_gpu": "benchmarks.prediction.miopen_gpu:page",
    "resnet18_layers": "benchmarks.kernels.network_layers:page",
    "mobilenet_v2_layers": "benchmarks.kernels.network_layers:page",
    "gemm": "benchmarks.kernels.gemm:page",
    "linear_layers": "benchmarks.kernels.linear_layers:page",
    "clblast": "benchmarks.kernels.clblast:page",
    "opencl_layers": "benchmarks.kernels.opencl_layers:page",
    "runtime_speed": "benchmarks.kernels.runtime_speed:page",
    "end_to_end": "benchmarks.kernels.end_to_end:page",
    "networks": "benchmarks.networks.page:page",
    "predicted_layers": "benchmarks.networks.predicted_layers:page",
    "latency": "benchmarks.speed.latency:page",
    "miopen_latency": "benchmarks.speed.miopen_latency:page",
    "c_predictor": "benchmarks.speed.c_predictor:page",
    "gpu_day": "benchmarks.gpu.results_page:page",
    "network_calls": "benchmarks.robustness.network_calls:page",
    "search": "benchmarks.search.recorded:page",
    "search_transfer": "benchmarks.search.recorded:transfer_page",
    "across": "benchmarks.search.across:page",
    "live_search": "benchmarks.search.live_search:page",
    "fleet_scale": "benchmarks.fleet.fleet_scale:page",
}


def page_of(name: str, folder: Path) -> Page:
    """Make a page from its JSON file in a folder. Raises FormatError if the file is not one of that program."""
    path = folder / f"{name}.json"
    module, _, function = PAGES[name].partition(":")
    try:
        results = json.loads(read_bounded(path, LARGEST_FILE))
        return page_from(getattr(import_module(module), function), results)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise FormatError(f"{path} is not what its program writes: {error!r:.100}") from None


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser, required=True)
    out = parser.parse_args().out
    folder = out / RESULTS
    for name in PAGES:
        if (folder / f"{name}.json").exists():
            write_whole(folder / f"{name}.md", page_of(name, folder).markdown())
            print(folder / f"{name}.md")
    for path in write_quotes(out):
        print(path)


if __name__ == "__main__":
    run_program("pages", main)
