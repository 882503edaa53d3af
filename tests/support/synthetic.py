"""A small fake kernel with an analytic time model, and data sets "measured" with it: for tests of learning.

The model has what makes real spaces hard: waste by divisibility, register pressure, latency, a cache effect, failures
and noise. `data()` gives rows like those of a data set; nothing here runs anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.table import IN_USE
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace

DIRECT = Kernel(
    name="fake.direct",
    operation="conv2d",
    backends=("fake",),
    parameters=(
        Parameter("vector", (4, 8, 16)),
        Parameter("tile_k", (1, 2, 3, 4)),
        Parameter("tile_w", (1, 2, 4, 6, 7, 8, 14)),
        Parameter("unroll", (1, 2, 4)),
        Parameter("order", ("rows", "channels")),
    ),
    constraints=(
        Constraint.of("accumulators <= 2 * vector_registers", "hopeless register pressure"),
        Constraint.of("tile_w <= row_w", "a tile is wider than the row"),
        Constraint.of("unroll == 1 or c_per_group % unroll == 0", "unroll divides the channels"),
    ),
    default=(("vector", 8), ("tile_k", 2), ("tile_w", 4), ("unroll", 1), ("order", "rows")),
    derived=(("registers_each", Expression("max(1, vector // vector_floats)")),
             ("accumulators", Expression("tile_k * tile_w * registers_each"))),
)

WIDE = Device("fake:wide", "fake", "toy1", "avx512", threads=2, compute_units=2, vector_bits=512, vector_registers=32,
              l1_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, peak_gflops=200.0, bandwidth_gbs=20.0)
NARROW = Device("fake:narrow", "fake", "toy1", "sse", threads=1, compute_units=1, vector_bits=128, vector_registers=16,
                l1_bytes=32768, l2_bytes=1 << 19, l3_bytes=1 << 23, peak_gflops=40.0, bandwidth_gbs=15.0)
MIDDLE = Device("fake:middle", "fake", "toy1", "avx2", threads=1, compute_units=1, vector_bits=256,
                vector_registers=16, l1_bytes=32768, l2_bytes=1 << 19, l3_bytes=1 << 23, peak_gflops=80.0,
                bandwidth_gbs=15.0)


@contextmanager
def registered() -> Iterator[None]:
    """The fake kernel is known to `kernel()` and `kernels_for`, for a while."""
    before = dict(IN_USE)
    IN_USE["fake"] = Library("fake", {"fake.direct": f"{__name__}:DIRECT"})
    try:
        yield
    finally:
        IN_USE.clear()
        IN_USE.update(before)


@dataclass
class Data:
    """The part of a data set that the predictor uses."""

    frame: pd.DataFrame
    devices: dict[str, Device]
    kernels: dict[str, Kernel] = field(default_factory=dict)


def seconds(space: SearchSpace) -> np.ndarray:
    """The time of every configuration of the space; infinite where it "fails"."""
    columns, problem, device = space.columns(), space.problem, space.device
    k, row, c = problem.size("k_per_group"), problem.size("row_w"), problem.size("c_per_group")
    vector, tile_k, tile_w = columns["vector"], columns["tile_k"], columns["tile_w"]
    unroll, accumulators = columns["unroll"], columns["accumulators"]
    block = vector * tile_k
    waste = np.ceil(k / block) * block / k * (np.ceil(row / tile_w) * tile_w / row)
    lanes = np.minimum(vector, device.vector_floats) / device.vector_floats
    latency = np.maximum(1.0, 8.0 / accumulators) ** 0.6
    needed = accumulators + tile_k * columns["registers_each"] + 1
    spill = 1.0 + 0.8 * np.maximum(0, needed - device.vector_registers) / device.vector_registers
    loads = 1.0 + 0.5 * (1 / tile_k + 1 / tile_w)
    loop = 1.0 + 0.25 / unroll * (1 if c >= 16 else 0.3)
    large = 4 * problem.size("c") * problem.size("h") * problem.size("w") > device.l2_bytes
    order = np.where((columns["order"] == "rows") == large, 1.0, 1.15)
    flop = problem.size("flop")
    time = flop / (device.peak_gflops * 1e9) / lanes * waste * latency * spill * loads * loop * order + 2e-6
    generator = np.random.default_rng(zlib.crc32(f"{problem.key} {device.name}".encode()))
    time = time * np.exp(generator.normal(0, 0.015, len(space)))
    time[(columns["vector"] == 16) & (tile_w == 14) & (unroll == 4)] = np.inf
    return np.asarray(time)


def problems(count: int, seed: int = 0) -> list[Problem]:
    """Distinct convolutions of realistic shapes."""
    generator = np.random.default_rng(seed)
    found: dict[str, Problem] = {}
    while len(found) < count:
        size = int(generator.choice([7, 14, 20, 28, 35, 56, 112]))
        r = int(generator.choice([1, 3, 3, 5]))
        stride = int(generator.choice([1, 1, 2]))
        c, k = (int(v) for v in generator.choice([3, 16, 24, 32, 48, 64, 96, 100, 128, 144, 192, 256, 512], 2))
        problem = Problem.make("conv2d", c=c, h=size, w=size, k=k, r=r, s=r, pad_h=r // 2, pad_w=r // 2,
                               stride_h=stride, stride_w=stride)
        found[problem.key] = problem
    return list(found.values())


def data(count: int = 40, held_out: int = 12, sampled: int = 120, devices: tuple[Device, ...] = (WIDE, NARROW),
         seed: int = 0) -> Data:
    """`sampled` random rows of each training problem, the whole space of each held-out one, on each device."""
    generator = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    for number, problem in enumerate(problems(count, seed)):
        for device in devices:
            space = SearchSpace(DIRECT, problem, device)
            times, test = seconds(space), number < held_out
            chosen = range(len(space)) if test else sorted(
                generator.choice(len(space), min(sampled, len(space)), replace=False).tolist())
            for row in chosen:
                ok = bool(np.isfinite(times[row]))
                rows.append({"device": device.name, "problem": problem.key, "kernel": DIRECT.name,
                             "configuration": space[row].key, "status": "correct" if ok else "compile",
                             "seconds": float(times[row]) if ok else float("nan"), "run": "random",
                             "held_out": test})
    return Data(pd.DataFrame(rows), {device.name: device for device in devices})


def time_of(problem: Problem, device: Device, configuration: Configuration) -> float:
    """The synthetic time of a configuration."""
    space = SearchSpace(DIRECT, problem, device)
    return float(seconds(space)[space.row(configuration)])
