"""Discovery of the GPUs that PyTorch sees, which are those that Triton runs on: the table's facts and PyTorch's."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

from seqtune.errors import UnavailableError, check_installed, one_line
from seqtune.kernels.devices.accelerators import ARCHITECTURES, described, limit_facts, slug
from seqtune.kernels.devices.device import Device


def load() -> tuple[Any, Any]:
    """The modules of PyTorch and Triton. Raises UnavailableError if one cannot be imported, or PyTorch sees no GPU."""
    check_installed("triton", "triton", "torch")
    try:
        import torch
        import triton
    except (ImportError, OSError) as error:  # a shared library is missing, or the versions do not fit
        raise UnavailableError(f"PyTorch or Triton cannot be imported: {one_line(error)}") from None
    if not torch.cuda.is_available():
        build = "its build has no CUDA or ROCm" if not (torch.version.cuda or torch.version.hip) else (
            "check the driver with nvidia-smi or rocm-smi")
        raise UnavailableError(f"PyTorch {torch.__version__} sees no GPU: {build}")
    return torch, triton


def unavailable() -> str | None:
    """The reason in one line why Triton has no GPU here, or None."""
    try:
        load()
    except UnavailableError as error:
        return str(error)
    return None


def devices() -> list[Device]:
    """The GPUs that PyTorch sees and whose architecture is known, in its order. Raises UnavailableError."""
    torch, _ = load()
    seen = (device_at(index) for index in range(torch.cuda.device_count()))
    return list({device.name: device for device in seen if device is not None}.values())


def current() -> Device | None:
    """The GPU that PyTorch uses now; None without one, or before the program has imported PyTorch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return device_at(int(torch.cuda.current_device()))


def index_of(name: str) -> int:
    """PyTorch's number of the first GPU with this name, one of `devices`."""
    torch, _ = load()
    return next(index for index in range(torch.cuda.device_count())
                if (device := device_at(index)) is not None and device.name == name)


@lru_cache(maxsize=64)
def device_at(index: int) -> Device | None:
    """The facts of PyTorch's GPU of this number; None if its architecture is not in the table."""
    torch, triton = load()
    properties = torch.cuda.get_device_properties(index)
    toolchain = f"triton {triton.__version__} {'ROCm ' + torch.version.hip if torch.version.hip else 'CUDA'}"
    name = torch.cuda.get_device_name(index)
    architecture = getattr(properties, "gcnArchName", "").partition(":")[0] if torch.version.hip else (
        f"sm_{properties.major}{properties.minor}")
    table = described("triton", name)
    if table is not None and table.architecture == architecture:
        return replace(table, compute_units=properties.multi_processor_count, toolchain=toolchain, model=name)
    return unlisted(name, architecture, properties, toolchain)


def unlisted(name: str, architecture: str, properties: Any, toolchain: str) -> Device | None:
    """A GPU that the table lacks, by the limits of its architecture and PyTorch's properties; None without limits.

    Its rates assume a byte of memory for 30 fp32 operations, as most of the table has; they only order configurations.
    """
    limits = ARCHITECTURES.get(architecture)
    if limits is None:
        return None
    units = int(properties.multi_processor_count)
    clock = int(getattr(properties, "clock_rate", 1_500_000)) // 1000
    peak = 2 * limits.lanes * units * clock / 1000
    return Device(
        name=f"triton:{slug(name)}", backend="triton", architecture=architecture,
        instruction_set="ptx" if architecture.startswith("sm_") else "amdgcn", model=name, threads=0,
        compute_units=units, vector_bits=128, vector_registers=255, l1_bytes=limits.l1_bytes,
        l2_bytes=int(getattr(properties, "L2_cache_size", 0)), local_memory=limits.block_shared, max_work_group=1024,
        peak_gflops=round(peak, 1), bandwidth_gbs=round(peak / 30, 1), toolchain=toolchain,
        extra=limit_facts(limits, clock, None if limits.tensor_flop is None else round(
            limits.tensor_flop * units * clock / 1000, 1)))
