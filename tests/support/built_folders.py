"""Kernels that are chosen for tests of built folders, and the compilation of their programs in C."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import spaces_for
from seqtune.tuner.building.chosen import Chosen
from tests.support.learning.compiled_predictor import STRICT


def chosen(text: str, device: Device, kernel: str = "", settings: Mapping[str, int | str] | None = None,
           name: str = "product") -> Chosen:
    """The safe default of the problem's first kernel with this end of its name, or what is valid near the settings."""
    problem = parse_problem(text)
    space = next(space for space in spaces_for(problem, device) if space.kernel.name.endswith(kernel))
    configuration = space.nearest(settings) if settings else space.default
    return Chosen(name, problem, device, space.kernel, configuration, "the first proposal")


def compiled(folder: Path, *words: str) -> Path:
    """The program of these files, or the check of `product`, compiled with all warnings as errors."""
    words = words or ("check.c", "product.c")
    done = subprocess.run(["cc", *STRICT, "-O2", "-o", "check", *words, "-ldl", "-lm"], cwd=folder, capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "check"
