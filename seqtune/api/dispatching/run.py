"""The verb `dispatch`: chooses a few kernels for all shapes of an operation, with a rule, files and a proof."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from seqtune.kernels.devices.device import Device
from seqtune.kernels.say import Say, silent

from ...errors import SeqtuneError, warned
from .results import Dispatched

FRESH = 100  # shapes of the bound: 97 of 100 within the factor promise 93 % with 90 % confidence


def dispatch(operation: str, shapes: object = None, device: Device | str = "llvm:0", *,
             kernels: int | Literal["auto"] = "auto", goal: str = "mean", slowdown: float | None = None,
             minutes: float | None = None, domain: Sequence[str] = (), data: str | Path | None = None,
             checkpoint: str | Path | None = None, journal: str | Path | None = None, out: str | Path,
             fresh: int = FRESH, seed: int = 0, progress: Say = silent, note: Say = warned) -> Dispatched:
    """Choose a few kernels for the shapes of an operation, and a rule that picks one of them for any shape.

    `shapes` are several problems of the `operation`, in any accepted form, a named set, or a mapping from problems to
    weights: their shares of the run time (None: those of `data`). `kernels` is their number, or "auto": the smallest
    number whose next kernel gains under 0.5 % on held-out shapes. `goal` is the geometric mean of the speed ("mean"),
    the mean of its worst tenth ("worst"), or the share of shapes that are at most `slowdown` times as slow as their
    best ("within"; 1.10 by default). `minutes` limits the call; all measurements are in the journal (None: the user's)
    at once, and the same call again goes on. `domain` declares which shapes the files promise to serve (ranges such as
    `m=1..4096`, and constraints; none: the ranges of the shapes). With `data`, a data set or the folder of a
    collection, nothing is measured. `checkpoint` expects the times of what is not measured (None: the predictor that
    answers; without one, trees that learn from what is measured). `fresh` shapes of the domain are drawn and measured
    for the bound. The files are written into the folder `out`. `progress` receives a line after each stage, `note` what
    the user should notice. Raises MisuseError for wrong arguments, and InterruptedTuning on Ctrl-C or SIGTERM.
    """
    raise SeqtuneError("dispatch has no stages yet")
