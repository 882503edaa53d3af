"""Parts of a report: Markdown tables, JSON files and the facts of the machine."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded, write_whole

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device

LARGEST_FILE = 10_000_000  # bytes of a JSON file
Row = dict[str, Any]  # one row of a table, a figure or a JSON file


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Make a Markdown table; the first `left` columns are text, the others numbers."""
    lines = [header, [":--" if column < left else "--:" for column in range(len(header))], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def number(value: float | None) -> str:
    """Two decimals, or a dash where there is no value."""
    return "–" if value is None else f"{value:.2f}"


def interval(low: float, high: float) -> str:
    """The ends of an interval of shares or ratios."""
    return f"[{low:.3f}, {high:.3f}]"


def today() -> str:
    """Today's date (UTC), as YYYY-MM-DD."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine(devices: Sequence[Device], pytorch: bool = False) -> dict[str, str]:
    """The facts of the devices (CPU, cores, toolchains, PyTorch's version if asked for) and today's date (UTC)."""
    toolchains = dict.fromkeys(device.toolchain for device in devices)
    if pytorch:
        toolchains[f"torch {version('torch')}"] = None
    models = dict.fromkeys(f"{device.model} ({device.architecture})" for device in devices if device.backend == "llvm")
    cores = max((device.threads for device in devices), default=0)
    return {"cpu": ", ".join(models or dict.fromkeys(device.model for device in devices)), "cores": f"{cores}",
            "toolchain": ", ".join(toolchains), "date": today()}


def words(machine: Mapping[str, str]) -> str:
    """The machine in one line, without the date; cores and toolchain are left out if they were not recorded."""
    text = machine["cpu"]
    if "cores" in machine:
        text += ", 1 core" if machine["cores"] == "1" else f", {machine['cores']} cores"
    return f"{text}; {machine['toolchain']}" if "toolchain" in machine else text


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises FormatError."""
    try:
        return json.loads(read_bounded(path, LARGEST_FILE))
    except (ValueError, RecursionError):
        raise FormatError(f"{path} is not what this program writes; remove it") from None


def write_json(path: Path, content: Any) -> None:
    """Write an indented JSON file with a final newline, and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
