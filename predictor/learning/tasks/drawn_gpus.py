"""Drawn GPUs: GPUs that nobody built, with facts around those of a real one, so that a model meets more than a few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seqtune.kernels.devices.device import Device

SPREAD = 0.3  # standard deviation of the log of a drawn fact: siblings on one chip differ by up to twice that
UNKNOWN = 0.1  # chance that clock and rates are not known, as of GPUs whose data sheets tell no clock
_CLOCK = "clock_mhz"


def drawn_gpu(device: Device, generator: np.random.Generator) -> Device:
    """A GPU with other units, clock, cache and bandwidth; another device stays as it is and draws nothing.

    The limits of its architecture stay, such as the shared memory of a block. Rates follow units and clock.
    """
    facts = dict(device.extra)
    clock = facts.get(_CLOCK)
    if "compute_capability" not in facts or not isinstance(clock, int | float):
        return device
    units, faster, cache, bandwidth = np.exp(generator.normal(0.0, SPREAD, 4)).tolist()
    count = max(1, round(device.compute_units * units))
    rate = faster * count / device.compute_units
    known = generator.random() >= UNKNOWN
    extra = tuple((name, round(value * faster) if name == _CLOCK and isinstance(value, int | float)
                   else round(value * rate, 1) if name.endswith("_gflops") and isinstance(value, int | float)
                   else value) for name, value in device.extra
                  if known or not (name == _CLOCK or name.endswith("_gflops")))
    return replace(device, compute_units=count, l2_bytes=round(device.l2_bytes * cache),
                   peak_gflops=round(device.peak_gflops * rate, 1) if known else 0.0,
                   bandwidth_gbs=round(device.bandwidth_gbs * bandwidth, 1), extra=extra)
