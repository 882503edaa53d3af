"""Programs: the table behind `python -m benchmarks`. A new program is one new file and one line here.

A program is a function `main(arguments: Sequence[str] | None = None) -> None` that parses its options with
`benchmarks.common.program.OneLineParser`. A page is made by a function `page(results) -> Page` from the content of its
JSON file, `docs/results/NAME.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Program:
    """One program of the benchmarks."""

    main: str  # "module:function" that runs it
    question: str  # one line for the list of programs
    pages: Mapping[str, str] = field(default_factory=dict)  # name of a page that it writes -> "module:function"
    figures: Mapping[str, str] = field(default_factory=dict)  # page -> "module:function" that draws its figure
    quote: str = ""  # "module:function" that makes the figures which README.md and docs/index.md quote


def load(entry: str) -> Any:
    """The function that "module:function" names."""
    module, _, function = entry.partition(":")
    return getattr(import_module(module), function)


def _one_page(module: str, question: str, name: str, figure: bool = False, quoted: bool = False) -> Program:
    """A program with `main` and the `page` of that name in one module; `draw` and `quote` are there, too, if asked."""
    return Program(f"{module}:main", question, {name: f"{module}:page"}, {name: f"{module}:draw"} if figure else {},
                   f"{module}:quote" if quoted else "")


PROGRAMS: Mapping[str, Program] = {
    "pages": Program("benchmarks.pages:main", "write all pages, figures and quotes again from their JSON files"),

    "headline": _one_page("benchmarks.prediction.headline", "recompute the shipped checkpoint's figures in seconds",
                          "headline"),
    "results": _one_page("benchmarks.prediction.results", "evaluate predictions on held-out problems", "results",
                         figure=True, quoted=True),
    "locked": _one_page("benchmarks.prediction.locked", "evaluate the locked test set live", "locked"),
    "machines": _one_page("benchmarks.prediction.machines", "leave each machine or OpenCL runtime out of the training",
                          "machines"),
    "gpu_folds": _one_page("benchmarks.prediction.gpu_folds", "leave each fold of a GPU's problems out", "gpu_folds"),
    "parts": _one_page("benchmarks.prediction.parts", "compare the predictor with each of its parts alone", "parts"),
    "miopen_paper": _one_page("benchmarks.prediction.miopen_paper", "repeat the paper's experiment on MIOpen's data",
                              "miopen_paper", figure=True),

    "dispatch": Program("benchmarks.prediction.dispatch.program:main",
                        "judge a few kernels for all shapes, and the rule that chooses among them"),

    "layers": Program("benchmarks.kernels.layers:main", "compare our kernels with others', layer by layer", {
        "layers": "benchmarks.kernels.layers_page:page"}, {"layers": "benchmarks.kernels.layers_page:draw"}),

    "networks": Program("benchmarks.networks.program:main", "compare whole networks with their peers", {
        "networks": "benchmarks.networks.page:page"}, quote="benchmarks.networks.page:quote"),
    "predicted_layers": Program("benchmarks.networks.predicted_layers:main",
                                "evaluate predictions for layers of networks that no model learned from"),

    "latency": _one_page("benchmarks.speed.latency", "time a prediction", "latency"),

    "search": Program("benchmarks.search.program:main", "compare search strategies, on recorded problems or live", {
        "search": "benchmarks.search.recorded:page", "live_search": "benchmarks.search.live_page:page"}),

    "gpu": Program("benchmarks.gpu.program:main", "check, measure and compare on one GPU", {
        "gpu": "benchmarks.gpu.page:page"}),

    "planted_errors": Program("benchmarks.kernels.planted_errors:main",
                              "planted errors that the check finds, and right results that it refuses"),
}
PAGES: Mapping[str, str] = {  # name of a page -> the function that makes it from its JSON file
    name: entry for program in PROGRAMS.values() for name, entry in program.pages.items()}
FIGURES: Mapping[str, str] = {  # name of a page -> the function that draws its figure from its JSON file into a path
    name: entry for program in PROGRAMS.values() for name, entry in program.figures.items()}
QUOTES: Mapping[str, str] = {  # name of a program -> the function that makes its quote from its JSON file and a folder
    name: program.quote for name, program in PROGRAMS.items() if program.quote}
