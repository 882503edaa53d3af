"""GPUs of phones by what their drivers tell, and their limits, which are enforced while another runtime runs kernels.

Mali: clinfo of the driver r9p0-01rel0 (github.com/96boards-hikey/linux, pull request 59), whose local memory is a part
of global memory. Adreno: clinfo (github.com/BOINC/boinc, issue 3613). A compiled kernel allows fewer work-items the
more registers it uses: on Mali all with up to 32 registers of 32 bits and fewer with up to 64 (Arm, The Valhall Shader
Core; half as many share the registers), on Adreno those whose registers fit in a file of 96 rows
(ir3_get_reg_dependent_max_waves in Mesa).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seqtune.kernels.devices.device import Device
from seqtune.tuner.backends.opencl import discovery
from seqtune.tuner.backends.opencl.calls import GroupLimits
from seqtune.tuner.backends.opencl.probe import Rates

LOCAL, GLOBAL = 1, 2  # CL_LOCAL and CL_GLOBAL


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone's GPU. Numbers of registers are of four floats."""

    name: str  # as the driver prints it
    compute_units: int
    work_group: int  # most work-items of a group
    side: int  # and along each of its axes
    local_memory: int  # one of LOCAL and GLOBAL
    registers: int  # of a work-item; a compiler keeps more in memory
    allowed: Callable[[int], int]  # registers that a compiled kernel uses -> most work-items of its groups

    @property
    def device(self) -> Device:
        """The device that discovery makes of the driver's words."""
        cl = types.SimpleNamespace(device_type=types.SimpleNamespace(CPU=2),
                                   device_local_mem_type=types.SimpleNamespace(LOCAL=LOCAL, GLOBAL=GLOBAL))
        platform = types.SimpleNamespace(name="a phone's", version="OpenCL 2.0")
        handle = types.SimpleNamespace(
            type=4, name=self.name, version="OpenCL 2.0", driver_version="2.0", max_compute_units=self.compute_units,
            local_mem_type=self.local_memory, local_mem_size=32 << 10, max_work_group_size=self.work_group,
            global_mem_cache_size=1 << 20)
        return discovery.device_facts(cl, "opencl:phone", platform, handle, lambda *_: Rates(0, 0, 100.0, 20.0))


MALI = Phone("Mali-G71", 8, 384, 256, GLOBAL, 16, lambda registers: 384 if registers <= 8 else 192)
ADRENO = Phone("QUALCOMM Adreno(TM)", 2, 1024, 1024, LOCAL, 48, lambda registers: min(1024, 96 // registers * 128))
PHONES = (MALI, ADRENO)


class PhoneLimits(GroupLimits):
    """The limits of a phone's GPU for kernels that another runtime compiles; `registers` are those of the next one."""

    def __init__(self, cl: Any, handle: Any, phone: Phone) -> None:
        super().__init__(cl, types.SimpleNamespace(max_work_group_size=phone.work_group), phone.device)
        self._runtime, self._phone, self.registers = handle, phone, 1

    def check(self, kernel: Any, work_items: int, local_bytes: int = 0) -> None:
        """Check a work-group against the limits of the device and of the compiled kernel. Raises LaunchError."""
        def told(info: int, handle: Any) -> int:
            if info == self._work_items:
                return self._phone.allowed(min(self.registers, self._phone.registers))
            own: int = kernel.get_work_group_info(info, self._runtime)
            return own

        super().check(types.SimpleNamespace(get_work_group_info=told), work_items, local_bytes)
