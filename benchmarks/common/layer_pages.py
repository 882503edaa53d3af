"""Pages of single layers and products beside their peers: the options, the figure's panels and OpenVINO's sentence."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.common.contest import seconds_by_method
from benchmarks.common.program import positive
from benchmarks.common.report import Panel, Row, draw_speeds

OPENVINO_CAVEAT = "OpenVINO counts whole microseconds, rounded down, and its profile adds to the time of a node."


def add_peers(parser: argparse.ArgumentParser) -> None:
    """Add the options of the numbers of threads and of OpenVINO."""
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    parser.add_argument("--openvino", action="store_true", help="add the times of OpenVINO's nodes")


def openvino_sentence(what: str, left_out: str) -> str:
    """How to read OpenVINO's times of a "layer" or "product", which leave something out."""
    return (f"`OpenVINO's node` is the time that OpenVINO's profile shows for the {what}'s node, in a model of the "
            f"{what} alone: it leaves out {left_out}. It stands beside `step`, our fastest kernel as a step of a "
            "program, without the call from Python and the allocation of the result. Of both, the least of twelve "
            "samples counts.")


def draw_ratios(rows: Sequence[Row], ratios: Callable[[dict[str, float]], Mapping[str, float]],
                drawn: Mapping[str, tuple[str, str]], name: Callable[[str], str], path: Path) -> None:
    """Draw the ratios of every layer, a panel for each number of threads.

    `ratios` computes them from the seconds by method; `drawn` has the colour and the title of each, those that were
    not measured included; `name` is the text under a layer.
    """
    by_layer = seconds_by_method([row for row in rows if row["layer"] != "geomean"])
    panels: list[Panel] = []
    for threads in dict.fromkeys(count for _, count in by_layer):
        labels = [label for label, count in by_layer if count == threads]
        all_ratios = [ratios(by_layer[label, threads]) for label in labels]
        panels.append((f"{threads} thread{'s' * (threads > 1)}", list(map(name, labels)), {
            title: (colour, [ratio[key] for ratio in all_ratios]) for key, (colour, title) in drawn.items()
            if key in all_ratios[0]}))
    draw_speeds(path, panels, "speed over the peer's")
