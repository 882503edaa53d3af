"""Machine ratios: a problem and a device in numbers that have the same meaning on every machine.

A cache size, a peak or a bandwidth names the few machines that were measured, and a model that sees them learns these
names. The ratios say instead what matters: which share of a cache a tensor fills, whether arithmetic or memory limits,
and how long the problem takes at the peak. A ratio is None if a fact behind it is unknown (0) or does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from seqtune.errors import ProblemError
from seqtune.kernels.devices.device import MEASURED, Device
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

TENSORS = ("input", "weights", "output")
OPERANDS = {"input": ("x", "q"), "weights": ("weights", "k", "v")}  # attention reads keys and values like weights
CACHES = ("l1", "l2", "l3")
RATIOS = (
    *(f"{tensor}_in_{cache}" for tensor in TENSORS for cache in CACHES),  # bytes / bytes of that cache of all workers
    "intensity",  # FLOP per byte of all tensors / FLOP per byte at which arithmetic and memory take equally long
    "peak_microseconds",  # FLOP / peak: how much a constant cost, such as waking threads, matters
    "lane_rate",  # multiply-adds of one vector lane of one worker in a nanosecond; halves where units are half as wide
    "worker_bandwidth",  # GB/s of memory for each worker
)
SPREAD = 0.07  # standard deviation of the log of a jittered rate: two machines of one model differ by 5 to 10 %

Ratios = Mapping[str, float | None]


def workers(device: Device) -> int:
    """The number of threads that share the work; of units on a device without threads."""
    return max(1, device.threads or device.compute_units)


@lru_cache(maxsize=1024)
def machine_ratios(problem: Problem, device: Device) -> Ratios:
    """The ratios of a problem on a device, by the names in RATIOS, in their order."""
    tensors, several = tensor_bytes(problem), workers(device)
    ratios: dict[str, float | None] = {}
    for tensor in TENSORS:
        for cache, size in zip(CACHES, cache_bytes(device), strict=True):
            ratios[f"{tensor}_in_{cache}"] = quotient(tensors[tensor], size * (1 if cache == "l3" else several))
    flop = problem.names().get("flop")
    peak, bandwidth = device.peak_gflops, device.bandwidth_gbs
    work = float(flop) if isinstance(flop, int | float) else None
    moved = [size for size in tensors.values() if size is not None]
    each_byte = quotient(work, sum(moved)) if len(moved) == len(TENSORS) else None
    ratios["intensity"] = quotient(each_byte, quotient(peak, bandwidth))
    ratios["peak_microseconds"] = quotient(work, peak * 1e3)
    ratios["lane_rate"] = quotient(peak or None, 2 * several * device.vector_floats)
    ratios["worker_bandwidth"] = quotient(bandwidth or None, several)
    return ratios


@lru_cache(maxsize=4096)
def tensor_bytes(problem: Problem) -> Mapping[str, int | None]:
    """The bytes of the input, the weights and the output; None where the operation or the problem does not say."""
    try:
        element = problem.element.size
        work = operation(problem.type)
        shapes = work.operands(problem)
        output = work.output(problem)
    except ProblemError:
        return dict.fromkeys(TENSORS)
    sizes = {name: [element * math.prod(shapes[operand]) for operand in operands if operand in shapes]
             for name, operands in OPERANDS.items()}
    known = {name: sum(several) if several else None for name, several in sizes.items()}
    return {**known, "output": None if output is None else element * math.prod(output)}


def cache_bytes(device: Device) -> tuple[int, int, int]:
    """The bytes of one core's own caches and of the L3 cache, which all share, in the order of CACHES."""
    return device.l1_bytes, device.l2_bytes, device.l3_bytes


def quotient(number: float | None, divisor: float | None) -> float | None:
    """The quotient of two numbers; None if one of them is unknown, or the divisor 0."""
    return None if number is None or not divisor else number / divisor


def jittered(device: Device, generator: np.random.Generator, spread: float = SPREAD) -> Device:
    """The device with other measured rates, as another measurement or another machine of the model might give.

    Each known rate is multiplied by a factor whose logarithm is normal with the standard deviation `spread`.
    """
    factors = np.exp(generator.normal(0.0, spread, len(MEASURED)))
    rates = {name: float(getattr(device, name) * factor) for name, factor in zip(MEASURED, factors, strict=True)}
    return replace(device, **rates)  # type: ignore[arg-type]
