"""Discovery of OpenCL devices: loads the driver and lists the devices with their facts and measured rates."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from seqtune.errors import UnavailableError
from seqtune.kernels.devices.device import Device

from ..backend import BuildError
from ..llvm.facts import caches, cpu_name
from . import pocl, vendors
from .probe import Rates, measured_facts
from .programs import error_line

# A platform's name -> the base of its device's name: two runtimes on one CPU are two devices.
NAMES = {pocl.NAME: "cpu", "Intel(R) OpenCL": "intel-cpu"}


class Registers(NamedTuple):
    """The registers of a work-item on a GPU. A compiler keeps in memory what does not fit into them."""

    number: int  # of four floats
    share: int = 1  # a kernel that uses all of them may have 1 / share of the device's largest work-group


# A word of a GPU's name -> its registers. Mali: 64 of 32 bits (Arm Mali Bifrost and Valhall OpenCL Developer Guide,
# 9.6); with more than 32 of them half as many threads run (Arm, The Valhall Shader Core). Adreno: r0 to r47 (Mesa's
# compiler ir3).
REGISTERS = {"mali": Registers(16, 2), "adreno": Registers(48)}
OTHER_REGISTERS = Registers(64)  # other GPUs have 255 of 32 bits and more


@dataclass(frozen=True, slots=True)
class Discovery:
    """The OpenCL devices of this machine."""

    devices: Mapping[str, tuple[Device, Any]]  # name -> (facts, pyopencl's device)
    refused: tuple[str, ...]  # a reason for each device that cannot be used


def load() -> Any:
    """Set the environment of the runtimes that pip installs, and import pyopencl. Raises UnavailableError."""
    pocl.prepare()
    vendors.prepare()
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # drivers have caches of their own
    try:
        import pyopencl
    except ImportError as error:
        raise UnavailableError(f"pyopencl is not installed ({error}): {pocl.advice()}") from None
    return pyopencl


def unavailable() -> str | None:
    """The reason in one line why this machine has no OpenCL device, or None."""
    try:
        cl = load()
        platforms = cl.get_platforms()
    except UnavailableError as error:
        return str(error)
    except Exception as error:  # without any platform, pyopencl raises an exception of its own
        return f"no OpenCL platform was found ({error_line(error)}): {pocl.advice()}"
    if all(platform.name == pocl.NAME for platform in platforms) and (reason := pocl.unavailable()) is not None:
        return reason
    discovery = _discover()
    if discovery.devices:
        return None
    if discovery.refused:
        return f"no OpenCL device runs a kernel: {discovery.refused[0]}"
    return "no OpenCL platform has a device"


def devices() -> list[Device]:
    """All OpenCL devices, GPUs first. Rates are measured once, and later read from the user's cache folder."""
    return [] if unavailable() is not None else [device for device, _ in _discover().devices.values()]


def handle(name: str) -> Any:
    """pyopencl's object of the device with this name, one of `devices`."""
    return _discover().devices[name][1]


def driver_facts(name: str) -> dict[str, str | int]:
    """The names by which the driver of a device and its platform call themselves; empty if the device is not here."""
    if unavailable() is not None or name not in _discover().devices:
        return {}
    handle, kinds = _discover().devices[name][1], load().device_type
    return {"device": handle.name, "device_vendor": handle.vendor,
            "device_type": "CPU" if handle.type & kinds.CPU else "GPU" if handle.type & kinds.GPU else "accelerator",
            "device_core_clock": handle.max_clock_frequency, "platform_vendor": handle.platform.vendor,
            "platform_version": handle.platform.version}


@lru_cache(maxsize=1)
def _discover() -> Discovery:
    """Discover the devices once per process, because opening all platforms and measuring takes seconds."""
    return discover(load())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    with suppress(cl.Error):
        return list(platform.get_devices())
    return []


def _emulates_local_memory(cl: Any, handle: Any) -> bool:
    """Whether local memory is a part of global memory, as on ARM's Mali: a copy in it is slower than none.

    On CPUs it always is, and lies in their caches.
    """
    return bool(handle.local_mem_type == cl.device_local_mem_type.GLOBAL)


def registers_of(name: str) -> Registers:
    """The registers of the GPU that the driver calls so."""
    return next((registers for word, registers in REGISTERS.items() if word in name.lower()), OTHER_REGISTERS)


def device_facts(cl: Any, name: str, platform: Any, handle: Any,
                 rates_of: Callable[[Any, Any, str], Rates] = measured_facts) -> Device:
    """The device of a handle, by the driver's words and by measuring. Raises BuildError if it runs no kernel."""
    cpu = bool(handle.type & cl.device_type.CPU)
    architecture = cpu_name() if cpu else _slug(handle.name)
    if platform.name == pocl.NAME:
        architecture = pocl.repair(handle.version.split()[-1] if "HSTR" in handle.version else
                                   handle.version + handle.driver_version, handle.int_ptr)
    version = re.search(r"(PoCL \S+).*?(LLVM [\d.]+)", platform.version)  # without a match, the whole line
    toolchain = " ".join(version.groups() if version else (platform.name, platform.version, handle.driver_version))
    toolchain = f"{toolchain} for {architecture}"
    rates = rates_of(cl, handle, f"{handle.name} | {toolchain} | {handle.max_compute_units}")
    registers = Registers(rates.vector_registers) if cpu else registers_of(handle.name)
    return Device(
        name=name, backend="opencl", architecture=architecture, instruction_set="opencl-c-1.2",
        model=handle.name.removeprefix("pthread-").strip(), threads=handle.max_compute_units if cpu else 0,
        compute_units=handle.max_compute_units,
        vector_bits=rates.vector_bits if cpu else 128,  # a GPU's widest load is float4
        vector_registers=registers.number,
        l1_bytes=caches()[1] if cpu else 0, l2_bytes=caches()[2] if cpu else handle.global_mem_cache_size,
        l3_bytes=caches()[3] if cpu else 0,
        local_memory=0 if not cpu and _emulates_local_memory(cl, handle) else handle.local_mem_size,
        max_work_group=handle.max_work_group_size // registers.share,  # so that the driver refuses no proposal
        peak_gflops=rates.peak_gflops, bandwidth_gbs=rates.bandwidth_gbs, toolchain=toolchain)


def discover(cl: Any, facts: Callable[[Any, str, Any, Any], Device] = device_facts) -> Discovery:
    """Find every device of pyopencl's platforms that can run a kernel, GPUs first.

    `facts` makes the device of a handle, from pyopencl, name, platform and handle.
    """
    handles = [(platform, handle) for platform in cl.get_platforms() for handle in _devices_of(cl, platform)
               if platform.name != pocl.NAME or pocl.unavailable() is None]
    handles.sort(key=lambda pair: (not pair[1].type & cl.device_type.GPU, pair[0].name != pocl.NAME))
    usable: dict[str, tuple[Device, Any]] = {}
    refused: list[str] = []
    for platform, handle in handles:
        base = NAMES.get(platform.name) or _slug(handle.name)
        name, count = f"opencl:{base}", 2
        while name in usable:
            name, count = f"opencl:{base}-{count}", count + 1
        try:
            usable[name] = facts(cl, name, platform, handle), handle
        except (BuildError, cl.Error) as error:  # the device cannot run even the simplest kernel
            refused.append(f"{handle.name.strip()}: {error_line(error)}")
    return Discovery(usable, tuple(refused))
