"""LaunchLimits: refuses launches that a GPU would refuse, or worse, before they reach the driver."""

from __future__ import annotations

import math

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import occupancy
from seqtune.kernels.launches.implementation import Phase

from ..backend import LaunchError
from .resources import Resources

LARGEST_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z (CUDA C++ Programming Guide, compute capabilities)


def check_launch(phase: Phase, needs: Resources, argument_bytes: int, device: Device) -> tuple[int, ...]:
    """Check a phase against its compiled entry and the device; returns the blocks of its grid. Raises LaunchError."""
    entry, threads, shared = phase.entry, math.prod(phase.local_size), needs.shared + phase.shared
    if len(phase.global_size) != len(phase.local_size) or not 1 <= len(phase.local_size) <= 3:
        raise LaunchError(f"{entry}: {phase.global_size} threads in blocks of {phase.local_size}")
    if any(wide < 1 or size % wide for size, wide in zip(phase.global_size, phase.local_size, strict=True)):
        raise LaunchError(f"{entry}: {phase.global_size} threads cannot be divided into blocks of {phase.local_size}")
    grid = tuple(size // wide for size, wide in zip(phase.global_size, phase.local_size, strict=True))
    if any(not 1 <= blocks <= most for blocks, most in zip(grid, LARGEST_GRID, strict=False)):
        raise LaunchError(f"{entry}: a grid of {grid} blocks exceeds {LARGEST_GRID[:len(grid)]}")
    most_threads = min(device.max_work_group, needs.most_threads or device.max_work_group)
    if threads > most_threads:
        raise LaunchError(f"{entry}: a block of {threads} threads exceeds {most_threads}")
    if shared > device.local_memory:
        raise LaunchError(f"{entry}: {shared} bytes of shared memory exceed the device's {device.local_memory}")
    if not (fit := occupancy(device, threads, needs.registers, shared)).blocks:
        raise LaunchError(f"{entry}: {threads} threads of {needs.registers} registers do not fit ({fit.limit})")
    if phase.cluster != needs.cluster:
        raise LaunchError(f"{entry}: launched in clusters of {phase.cluster} and built for {needs.cluster}")
    if grid[0] % phase.cluster:
        raise LaunchError(f"{entry}: {grid[0]} blocks cannot be divided into clusters of {phase.cluster}")
    if argument_bytes != needs.parameters:
        raise LaunchError(f"{entry} takes {needs.parameters} bytes of arguments, and {argument_bytes} are passed")
    return grid
