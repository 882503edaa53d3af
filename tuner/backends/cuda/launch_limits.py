"""LaunchLimits: refuses launches that a GPU would refuse, or worse, before they reach the driver."""

from __future__ import annotations

import math

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.occupancy import occupancy
from seqtune.kernels.launches.call import CallStep

from ..backend import LaunchError
from .resources import Resources

LARGEST_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z (CUDA C++ Programming Guide, compute capabilities)


def check_launch(step: CallStep, needs: Resources, argument_bytes: int, device: Device) -> tuple[int, ...]:
    """Check a step against its compiled entry and the device; returns the blocks of its grid. Raises LaunchError."""
    entry, sizes, block = step.entry, step.global_size, step.local_size
    if block is None or len(sizes) != len(block) or not 1 <= len(block) <= 3:
        raise LaunchError(f"{entry}: {sizes} threads in blocks of {block}")
    threads, shared = math.prod(block), needs.shared + step.shared + step.local_bytes
    if any(wide < 1 or size % wide for size, wide in zip(sizes, block, strict=True)):
        raise LaunchError(f"{entry}: {sizes} threads cannot be divided into blocks of {block}")
    grid = tuple(size // wide for size, wide in zip(sizes, block, strict=True))
    if any(not 1 <= blocks <= most for blocks, most in zip(grid, LARGEST_GRID, strict=False)):
        raise LaunchError(f"{entry}: a grid of {grid} blocks exceeds {LARGEST_GRID[:len(grid)]}")
    most_threads = min(device.max_work_group, needs.most_threads or device.max_work_group)
    if threads > most_threads:
        raise LaunchError(f"{entry}: a block of {threads} threads exceeds {most_threads}")
    if shared > device.local_memory:
        raise LaunchError(f"{entry}: {shared} bytes of shared memory exceed the device's {device.local_memory}")
    if not (fit := occupancy(device, threads, needs.registers, shared)).blocks:
        raise LaunchError(f"{entry}: {threads} threads of {needs.registers} registers do not fit ({fit.limit})")
    if step.cluster != needs.cluster:
        raise LaunchError(f"{entry}: launched in clusters of {step.cluster} and built for {needs.cluster}")
    if grid[0] % step.cluster:
        raise LaunchError(f"{entry}: {grid[0]} blocks cannot be divided into clusters of {step.cluster}")
    if argument_bytes != needs.parameters:
        raise LaunchError(f"{entry} takes {needs.parameters} bytes of arguments, and {argument_bytes} are passed")
    return grid
