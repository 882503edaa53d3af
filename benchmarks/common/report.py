"""Parts of a report: Markdown tables, JSON files, the facts of the machine, and figures (`seqtune.figures.style`)."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    TICKS,
    VERMILION,
    apart,
    height,
    save,
    share_axis,
    style,
)
from seqtune.kernels.files import write_whole

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device

__all__ = [
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "SKY",
    "TICKS",
    "VERMILION",
    "Panel",
    "Row",
    "apart",
    "draw_speeds",
    "height",
    "machine",
    "markdown",
    "processor",
    "save",
    "share_axis",
    "style",
    "today",
    "words",
    "write_json",
]

Row = dict[str, Any]  # one row of a table, a figure or a JSON file
Panel = tuple[str, Sequence[str], Mapping[str, tuple[str, Sequence[float | None]]]]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Make a Markdown table; the first `left` columns are text, the others numbers."""
    lines = [header, [":--" if column < left else "--:" for column in range(len(header))], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def today() -> str:
    """Today's date (UTC), as YYYY-MM-DD."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine(devices: Sequence[Device]) -> dict[str, str]:
    """The facts of the devices (CPU, cores, toolchains) and today's date (UTC)."""
    models = dict.fromkeys(f"{device.model} ({device.architecture})" for device in devices if device.backend == "llvm")
    cores = max((device.threads for device in devices), default=0)
    return {"cpu": ", ".join(models or dict.fromkeys(device.model for device in devices)), "cores": f"{cores}",
            "toolchain": ", ".join(dict.fromkeys(device.toolchain for device in devices)),
            "date": today()}


def processor() -> dict[str, str]:
    """The facts for a program that opens no device (CPU, Python, NumPy) and today's date (UTC)."""
    import numpy as np

    from seqtune.tuner.backends.discovery import find

    device = find("llvm:0")
    return {"cpu": f"{device.model} ({device.architecture})", "cores": f"{device.threads}",
            "toolchain": f"Python {platform.python_version()}, NumPy {np.__version__}", "date": today()}


def words(machine: Mapping[str, str]) -> str:
    """The machine in one line, without the date; cores and toolchain are left out if they were not recorded."""
    text = machine["cpu"]
    if "cores" in machine:
        text += ", 1 core" if machine["cores"] == "1" else f", {machine['cores']} cores"
    return f"{text}; {machine['toolchain']}" if "toolchain" in machine else text


def write_json(path: Path, content: Any) -> None:
    """Write an indented JSON file with a final newline."""
    write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def draw_speeds(path: Path, panels: Sequence[Panel], ylabel: str) -> None:
    """Draw speeds relative to a baseline at 1. A panel: title, labels, and method -> (colour, a value per label)."""
    pyplot = style()
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(8.4, 2.5 * len(panels)), squeeze=False)
    for axis, (title, labels, methods) in zip(axes[:, 0], panels, strict=True):
        width = 0.8 / len(methods)
        for index, (method, (colour, values)) in enumerate(methods.items()):
            positions = [number + (index - (len(methods) - 1) / 2) * width for number in range(len(labels))]
            axis.bar(positions, [value or 0.0 for value in values], width, color=colour, label=method)
        axis.axhline(1.0, color=BLACK, linewidth=0.8)
        axis.set_xticks(range(len(labels)), labels)
        axis.set_title(title, loc="left")
        axis.set_ylabel(ylabel)
    axes[0, 0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    save(figure, path)
