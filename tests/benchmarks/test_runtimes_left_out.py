"""The table of a runtime that was left out, on outcomes that are made up."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import pytest

from benchmarks.prediction.runtimes_left_out import (
    CORRECTED,
    KNOWN,
    NOISE,
    WITHOUT,
    claim,
    folders_of,
    page,
    problems_on,
    rows_of,
)
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.predictor.times.shares import Outcome

DEVICE = Device("opencl:a", "opencl", "any", "opencl-c-1.2", threads=2, compute_units=2, vector_bits=256,
                vector_registers=16, l1_bytes=32 << 10, l2_bytes=1 << 20, local_memory=48 << 10, max_work_group=1024)


def outcome(device: str, problem: str, first: float, default: float) -> Outcome:
    """The outcome of a problem where the first proposal and the default reach these shares of the best speed."""
    shares = {(method, count): share if count == 0 or method == "default" else 1.0
              for method, share in ((KNOWN, 0.99), (WITHOUT, first), (WITHOUT + CORRECTED, 1.0), ("default", default))
              for count in (0, 3, 5)}
    return Outcome(problem, device, {key: math.log(share) for key, share in shares.items()}, 1, -0.01)


def test_first_proposals_slower_than_the_default_by_more_than_noise_are_counted() -> None:
    near, far = 0.8 * NOISE * 0.99, 0.8 * NOISE * 1.01
    outcomes = [outcome("opencl:a", f"{index}", 0.8, default) for index, default in enumerate((0.5, near, far))]
    rows = rows_of([*outcomes, outcome("opencl:b", "0", 0.9, 0.5)])
    slower = {(row["device"], row["method"]): row["slower"] for row in rows if row["measured"] == 0}
    assert slower["opencl:a", WITHOUT] == 1
    assert slower["opencl:b", WITHOUT] == 0
    assert slower["opencl:a", KNOWN] == 0
    results = {"machine": {"cpu": "T", "cores": "2", "toolchain": "t", "date": "2026-01-01"}, "checkpoint": "new",
               "trials": 150, "drawn": 2, "rows": rows}
    made = page(results)
    assert "0.800 [0.800, 0.800] on opencl:a (1 of 3 slower than the safe default)" in made.claim
    assert made.tables.count("| opencl:a |") == 4
    assert claim([row for row in rows if WITHOUT not in row["method"]]).startswith("The first proposal of the checkp")


def test_checkpoints_are_named_by_device() -> None:
    given = argparse.Namespace(checkpoint="default", without=["opencl:a=folder"])
    assert folders_of(given, [DEVICE]) == {"opencl:a": {KNOWN: "default", WITHOUT: "folder"}}
    for wrong in ("opencl:b=folder", "opencl:a", "opencl:a="):
        with pytest.raises(MisuseError, match="write DEVICE=FOLDER with one of opencl:a"):
            folders_of(argparse.Namespace(checkpoint="default", without=[wrong]), [DEVICE])


def test_the_same_problems_are_drawn_for_every_runtime() -> None:
    named = "gemm m=300 n=300 k=300"
    problems = problems_on([DEVICE, replace(DEVICE, name="opencl:b", vector_registers=32)], [named], 3, seed=0)
    assert problems == problems_on([DEVICE, replace(DEVICE, name="opencl:b", vector_registers=32)], [named], 3, seed=0)
    assert len(problems) == 4
    assert problems[0].brief() == named
