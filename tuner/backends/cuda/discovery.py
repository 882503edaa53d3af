"""Discovery of NVIDIA GPUs: those that the driver shows, with its facts, the table's where it has none, and rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seqtune.errors import SeqtuneError, UnavailableError
from seqtune.kernels.devices.accelerators import ARCHITECTURES, KIBI, Architecture, described, limit_facts, slug
from seqtune.kernels.devices.device import Device

from ..backend import BuildError, LaunchError
from ..measured_rates import RATES, RateCache
from . import compiler
from .driver import Driver, GpuFacts, gpus, load
from .rates import RATE_NAMES, measure


@dataclass(frozen=True, slots=True)
class PresentGpu:
    """A device, and its number among the driver's GPUs."""

    device: Device
    number: int


class GpuDiscovery:
    """The CUDA devices of a machine, found once, because measuring their rates takes seconds."""

    def __init__(self, load_driver: Callable[[], Driver] = load, cache: RateCache = RATES,
                 measure: Callable[[Device, int, Driver], dict[str, float]] = measure) -> None:
        self.driver = load_driver  # raises UnavailableError
        self._cache, self._measure = cache, measure

    def unavailable(self) -> str | None:
        """The reason in one line why this machine has no CUDA device, or None."""
        try:
            present = gpus(self.driver().cuda)
            compiler.version()
        except UnavailableError as error:
            return str(error)
        known = [gpu for gpu in present if gpu.capability in compiler.architectures()]
        if not known:
            models = ", ".join(f"{gpu.model} (sm_{gpu.capability})" for gpu in present)
            return f"NVRTC {compiler.version()} compiles for none of {models}" if present else "the driver shows no GPU"
        return None

    def devices(self) -> list[Device]:
        """All CUDA devices, in the driver's order. Rates are measured once, and later read from the cache."""
        return [] if self.unavailable() is not None else [gpu.device for gpu in self._present]

    def number_of(self, name: str) -> int:
        """The driver's number of the device with this name, one of `devices`."""
        return next(gpu.number for gpu in self._present if gpu.device.name == name)

    @cached_property
    def _present(self) -> tuple[PresentGpu, ...]:
        """A device for every GPU that NVRTC compiles for; equal models are numbered: `cuda:h200`, `cuda:h200-2`."""
        named: dict[str, PresentGpu] = {}
        for gpu in gpus(self.driver().cuda):
            if gpu.capability in compiler.architectures():
                name, count = f"cuda:{slug(gpu.model)}", 2
                while name in named:
                    name, count = f"cuda:{slug(gpu.model)}-{count}", count + 1
                named[name] = PresentGpu(self._device(gpu, name), gpu.number)
        return tuple(named.values())

    def _device(self, gpu: GpuFacts, name: str) -> Device:
        """The device with its rates; zero where they cannot be measured: the kernels may still run."""
        toolchain = f"NVRTC {compiler.version()}, driver of CUDA {gpu.driver}, L2 flushed"
        device = facts(gpu, name, toolchain)
        try:
            rates = self._cache.rates("cuda.json", f"{gpu.model} | {toolchain} | {device.compute_units}",
                                      lambda rates: {rate: float(rates[rate]) for rate in RATE_NAMES},
                                      lambda: self._measure(device, gpu.number, self.driver()))
        except (SeqtuneError, BuildError, LaunchError):
            rates = dict.fromkeys(RATE_NAMES, 0.0)
        return facts(gpu, name, toolchain, rates)


def facts(gpu: GpuFacts, name: str, toolchain: str, rates: dict[str, float] | None = None) -> Device:
    """The device by the driver's attributes; the table of accelerators fills what the driver does not tell."""
    table, given = described("cuda", gpu.model), gpu.attributes
    known: dict[str, Any] = dict(table.extra) if table else {}
    limits = _limits(gpu)
    units = given.get("MULTIPROCESSOR_COUNT", 1)
    clock_mhz = given.get("CLOCK_RATE", 0) // 1000 or int(known.get("clock_mhz", 0))
    measured = rates or dict.fromkeys(RATE_NAMES, 0.0)
    tensor_gflops = float(known.get("tensor_gflops", 0)) or max(
        measured["mma_gflops"], (limits.tensor_flop or 0) * units * clock_mhz / 1000)
    return Device(
        name=name, backend="cuda", architecture=f"sm_{gpu.capability}", instruction_set="ptx", model=gpu.model,
        threads=0, compute_units=units, vector_bits=128, vector_registers=255, l1_bytes=limits.l1_bytes,
        l2_bytes=given.get("L2_CACHE_SIZE", table.l2_bytes if table else 0), local_memory=limits.block_shared,
        max_work_group=given.get("MAX_THREADS_PER_BLOCK", 1024), peak_gflops=measured["peak_gflops"],
        bandwidth_gbs=measured["bandwidth_gbs"], toolchain=toolchain,
        extra=(*limit_facts(limits, clock_mhz, round(tensor_gflops, 1)), ("mma_gflops", measured["mma_gflops"]),
               ("busy_mhz", measured["busy_mhz"])))


def _limits(gpu: GpuFacts) -> Architecture:
    """The architecture's limits, by the driver where it tells them."""
    given = gpu.attributes
    known = ARCHITECTURES.get(f"sm_{gpu.capability}")
    older = [limits for name, limits in ARCHITECTURES.items()
             if name.startswith("sm_") and int(name.removeprefix("sm_")) <= gpu.capability]
    base = known or older[-1]  # of an architecture that the table lacks, the one before it
    return Architecture(
        f"sm_{gpu.capability}", base.lanes, base.tensor_flop,
        given.get("MAX_THREADS_PER_MULTIPROCESSOR", base.unit_threads),
        given.get("MAX_BLOCKS_PER_MULTIPROCESSOR", base.unit_blocks),
        given.get("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", base.unit_shared),
        given.get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", base.block_shared),
        given.get("RESERVED_SHARED_MEMORY_PER_BLOCK", base.reserved_shared), base.l1_bytes or 128 * KIBI,
        given.get("MAX_REGISTERS_PER_MULTIPROCESSOR", base.unit_registers), given.get("WARP_SIZE", base.warp_size))


THIS_MACHINE = GpuDiscovery()
devices, unavailable = THIS_MACHINE.devices, THIS_MACHINE.unavailable
