"""Slices: the named parts of a GPU day, each bounded in seconds, resumable and worth bringing home on its own.

The order is the order of a run: first whether kernels are right, then the measurements in the order of their value,
then what needs measurements. A new slice is one function `run(day, name) -> SliceOutcome` and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seqtune.kernels.lookup import resolve

if TYPE_CHECKING:
    from benchmarks.gpu.day import Day


@dataclass(frozen=True, slots=True)
class SliceOutcome:
    """The end of a slice's turn: whether its plan is finished, one line about it, and its result as JSON."""

    finished: bool
    summary: str
    result: Mapping[str, Any]
    failed: bool = False  # wrong numbers or a sanitizer's finding: the result is written, and the day fails


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the day. `seconds` bound all its turns together; `program` is "module:function"."""

    name: str
    meaning: str
    seconds: int
    program: str
    measures: bool = True  # whether it needs the device; the others can run elsewhere, on what was brought home

    def run(self, day: Day) -> SliceOutcome:
        """Run one turn of the slice."""
        program: Callable[[Day, str], SliceOutcome] = resolve(f"benchmarks.gpu.{self.program}")  # type: ignore[assignment]
        return program(day, self.name)


SLICES = tuple(Slice(*row) for row in (
    ("environment", "GPU, driver, clocks, toolchain, packages; devices found", 30, "environment:run"),
    ("contracts", "device tests, and random samples of every family and element type against float64", 150,
     "checks.contracts:run"),
    ("sanitizer", "compute-sanitizer (memcheck, racecheck, synccheck) over samples of every family", 150,
     "checks.sanitizer:run"),
    ("compile", "the sources of the chosen configurations, each compiled once, on all cores, into the cache", 120,
     "compiling:run"),
    ("gemm-bf16", "configurations x shapes in bf16", 300, "collecting:gemm"),
    ("gemm-fp16", "configurations x shapes in fp16", 300, "collecting:gemm"),
    ("conv-fp16", "ResNet-50's convolutions in fp16, NCHW and NHWC", 150, "collecting:conv"),
    ("conv-fp32", "ResNet-50's convolutions in fp32, NCHW and NHWC", 150, "collecting:conv"),
    ("triton", "Triton's matrix products, in bf16", 120, "collecting:triton"),
    ("host", "tunings on the CPU: llvm and OpenCL", 120, "host:run"),
    ("finals", "the fastest configurations of held-out problems again, interleaved", 120, "finals:run"),
    ("learn", "models trained on the training problems, judged on the held-out ones", 240, "learning:run", False),
    ("peers-gemm", "cuBLAS, torch.compile and nvidia-matmul-heuristics beside our proposals, in turns", 240,
     "contests.peers:gemm"),
    ("peers-conv", "cuDNN and torch.compile beside our proposals, in turns", 240, "contests.peers:conv"),
))
