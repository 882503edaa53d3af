"""Measured tasks, where today's spaces and those of the time of measuring differ."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pandas as pd
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask
from tests.support import synthetic

THIN = Problem.make("conv2d", c=3, h=16, w=16, k=32, r=3, s=3, pad_h=1, pad_w=1)
WIDE = replace(synthetic.WIDE, name="llvm:wide", backend="llvm")
NARROW = replace(WIDE, name="llvm:narrow", vector_bits=256, vector_registers=16)


def rows(device: str, family: str, text: str, seconds: float, run: str = "random",
         status: str = "correct") -> dict[str, object]:
    return {"device": device, "problem": THIN.key, "kernel": family, "kernel_version": kernel(family).version,
            "configuration": text, "status": status, "seconds": seconds, "run": run, "held_out": False}


def measured(device: str, *found: dict[str, object]) -> MeasuredTask:
    devices = {NARROW.name: NARROW, WIDE.name: WIDE}
    only, = measured_tasks(synthetic.Data(pd.DataFrame(found), {device: devices[device]}), held_out=False)
    return only


DIRECT, WINOGRAD = (SearchSpace(kernel(name), THIN, NARROW).default.key for name in ("llvm.direct", "llvm.winograd"))
WIDE_DIRECT = SearchSpace(kernel("llvm.direct"), THIN, WIDE).default.key


def test_a_faster_configuration_that_no_space_holds_any_more_is_warned_of() -> None:
    """llvm.winograd does not take three channels on the widest vectors."""
    with pytest.warns(UserWarning, match=r"1 measured problems .* c=3 .*llvm\.winograd .*: 1e-05 s, .* 2e-05 s"):
        found = measured(WIDE.name, rows(WIDE.name, "llvm.direct", WIDE_DIRECT, 2e-5),
                         rows(WIDE.name, "llvm.winograd", WINOGRAD, 1e-5))
    assert found.best == 2e-5


@pytest.mark.parametrize("change", [{"seconds": 1.97e-5}, {"kernel_version": 99}, {"status": "crash"}])
def test_what_is_hardly_faster_old_or_failed_is_not_warned_of(change: dict[str, object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured(WIDE.name, rows(WIDE.name, "llvm.direct", WIDE_DIRECT, 2e-5),
                 {**rows(WIDE.name, "llvm.winograd", WINOGRAD, 1e-5), **change})


def test_a_kernel_that_the_finals_refused_keeps_its_trials() -> None:
    """Its space of that time was smaller: a refusal measures nothing, and the other kernel's finals cap nothing."""
    found = measured(NARROW.name, rows(NARROW.name, "llvm.direct", DIRECT, 2e-5),
                     rows(NARROW.name, "llvm.direct", DIRECT, 2e-5, "final"),
                     rows(NARROW.name, "llvm.winograd", WINOGRAD, 1e-5),
                     rows(NARROW.name, "llvm.winograd", WINOGRAD, float("nan"), "final", "constraints"))
    assert found.best == 1e-5
