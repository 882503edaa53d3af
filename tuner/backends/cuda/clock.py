"""Clock: the present clock rate of a GPU by NVIDIA's management library (NVML), which comes with the driver."""

from __future__ import annotations

import ctypes
from contextlib import suppress

LIBRARY = "libnvidia-ml.so.1"
_UNITS = 1  # NVML_CLOCK_SM


def clock_mhz(number: int) -> int:
    """The clock of the GPU's units now, in MHz; 0 where it cannot be read.

    `number` counts as NVML does, by the position on the bus; it is the driver's number unless CUDA_VISIBLE_DEVICES or
    CUDA_DEVICE_ORDER says otherwise.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(LIBRARY)
        handle, clock = ctypes.c_void_p(), ctypes.c_uint()
        if (library.nvmlInit_v2() == 0
                and library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)) == 0
                and library.nvmlDeviceGetClockInfo(handle, _UNITS, ctypes.byref(clock)) == 0):
            return clock.value
    return 0
