"""Report: the function behind `seqtune report`, which checks its arguments, and the HTML file that it writes."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from seqtune.kernels.say import Say, silent

from ..api.inputs import check_ending, check_free
from ..api.results import Written
from ..errors import MisuseError, shown, warned

if TYPE_CHECKING:
    from .content import PageLimits
    from .measurements import Measurements

PROGRAM = ("decode", "elements", "axes", "overview", "choice", "convergence", "configurations", "landscape",
           "importance", "failures", "forecasts", "pruning", "start")


def report(data: str | Path, out: str | Path, *, device: str | None = None, checkpoint: str | Path | None = None,
           seed: int = 0, force: bool = False, progress: Say = silent, note: Say = warned) -> Written:
    """Write a report on a journal or a data set (`shipped`: the shipped ones) as one HTML file that needs no network.

    Only the records of `device` (a name, key or alias) are shown. With `checkpoint`, a folder or a name, its
    expectations are compared with the measurements for problems that are drawn by `seed`. `force` overwrites a file.
    The file has at most 4.8 MB: if need be, the records of the problems with the fewest are left out, and the page says
    so. `note` receives what the user should notice. Raises MisuseError for wrong arguments, FormatError,
    CheckpointError, and SeqtuneError if `out` cannot be written.
    """
    path = Path(out)
    check_ending(path, "a page in HTML", ".html")
    check_free(path, force)
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")

    from .content import PageLimits
    from .measurements import read

    progress(f"reading {data}")
    measurements = read(data)
    if device is not None:
        measurements = measurements.on(device)
    for line in measurements.notes:
        note(line)
    name = (Path(data).name or str(data)).encode(errors="replace").decode()  # it may be no text
    return write_report(measurements, name, path, PageLimits(), checkpoint, seed, progress)


def write_report(measurements: Measurements, name: str, path: Path, limits: PageLimits,
                 checkpoint: str | Path | None = None, seed: int = 0, progress: Say = silent) -> Written:
    """Write a page about measurements; `name` is that of their file."""
    from seqtune.kernels.files import write_whole

    from .content import content

    payload, summary = content(measurements, checkpoint, seed,
                               replace(limits, bytes=limits.bytes - len(page(name, ""))), progress)
    text = page(name, payload)
    write_whole(path, text)
    return Written(path, {**summary, "bytes": len(text.encode())})


def page(title: str, payload: str) -> str:
    """The HTML file around a payload in base64, with its style and its program inside. It loads nothing from anywhere.

    The content security policy lets only this program and this style run, by their hashes. Names from foreign files are
    in the payload alone, which the program writes as text.
    """
    style = _asset("style.css")
    parts = "\n".join(_asset(f"{name}.js") for name in PROGRAM)
    program = f'"use strict";\n(() => {{\n{parts}}})();\n'
    return Template(_asset("page.html")).substitute(
        title=escape(title), style=style, style_hash=_hash(style), program=program, program_hash=_hash(program),
        payload=payload)


@lru_cache
def _asset(name: str) -> str:
    return files("seqtune.reporting").joinpath("web", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
