"""Lines about a folder of kernels that was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...api.results import duration
from .console import out

if TYPE_CHECKING:
    from seqtune.tuner.building.chosen import Chosen

    from ...api.results import BuiltFolder


def built(folder: BuiltFolder) -> None:
    """Print a line for each kernel, the problems that are left out, and where to read on."""
    for chosen in folder.kernels:
        out.print(f"{chosen.name}: {chosen.brief()} ({chosen.origin}{_times(chosen)})", markup=False, soft_wrap=True)
    for problem, reason in folder.left_out:
        out.print(f"left out: {problem.brief()}: {reason}", markup=False, soft_wrap=True)
    out.print(f"{folder.out}: {len(folder.files)} files for {folder.device.name}; its README.md says how to compile, "
              "check and call them", markup=False, soft_wrap=True)


def _times(chosen: Chosen) -> str:
    if chosen.seconds is None:
        return ""
    beside = f", the default's {duration(chosen.default_seconds)}" if chosen.default_seconds is not None else ""
    return f", {duration(chosen.seconds)}{beside}"
